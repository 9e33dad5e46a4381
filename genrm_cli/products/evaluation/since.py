"""Test whether a judge has changed since it was measured, by its verdicts on the same pairs.

A judge that samples its replies contradicts itself, so a verdict that differs says nothing alone.
But if the judge is the same, all verdicts on one request are alike: those heard today disagree with
the others as often as any other choice of as many would. The test rests on that, request by
request. It estimates no share of own flips, and is exact for every share of them.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist, fmean
from typing import Literal

import numpy as np
from msgspec import Struct

from genrm_cli.errors import InputError, counted, naming
from genrm_cli.metrics.running_stats import sample_variance, student_95
from genrm_cli.products.evaluation.accuracy import PairShare, evaluate, means_by_item
from genrm_cli.products.evaluation.pair_records import OrderRecord, PairRecord, Repeat
from genrm_cli.rewards.estimators.verdict_batch import Floats
from genrm_cli.typed_json import parse_json

_ALARM = 0.01
"""Probability of `changed` for a judge that is the same, at most."""
# Changes in the share of verdicts. A server under another load differs by a few per cent from
# itself (batches change the last bits of its numbers): less than the first is no change, and more
# than the second would be one.
_LEAST = 0.05
_MOST = 0.1
_MOST_REPEATS = 4  # that are compared: the choices of some of them multiply
_Z_ONE_SIDED = NormalDist().inv_cdf(0.95)
_Z_ALARM = NormalDist().inv_cdf(1 - _ALARM)
_RULE_OF_THREE = 3.0  # n items without a change: a share of 3 / n is possible

Answer = Literal["same", "changed", "cannot tell"]


class EarlierResult(Struct, frozen=True, kw_only=True):
    """The part of an earlier result of `genrm eval` that is compared."""

    format: Literal[1]
    time: str
    repeats: int
    settings_digest: str
    pairs: tuple[PairRecord, ...]


class JudgeChange(Struct, frozen=True, kw_only=True):
    """A judge on the same pairs, then and now.

    Attributes:
        base: the earlier result, measured at `time`.
        same_settings: whether the settings that change verdicts are those of then.
        pairs: in both; `left_out` are in one of both only.
        requests: orders of pairs with an answer then and now; of these, `differ` in the first one.
        own_requests: orders with two answers in one measurement; of these, `own_flips` differ.
        excess: share of the answers that differ between then and now, less that within a
            measurement; the mean over pairs, whose upper end is `excess_high`. None without any.
        p_value: probability that a judge that is the same differs at least as much.
        more_pairs: about how many more would tell; None unless the answer is `cannot tell`.
        failures_then: judgements without a verdict, of `judgements_then`.
        failures_now: judgements without a verdict, of `judgements_now`.
    """

    base: str
    time: str
    answer: Answer
    same_settings: bool
    pairs: int
    left_out: int
    requests: int
    differ: int
    own_requests: int
    own_flips: int
    excess: float | None
    excess_high: float | None
    p_value: float
    more_pairs: int | None
    accuracy_then: PairShare
    accuracy_now: PairShare
    failures_then: int
    failures_now: int
    judgements_then: int
    judgements_now: int

    @property
    def sentence(self) -> str:
        """The answer as a sentence without its end."""
        if self.more_pairs is None:
            return self.answer
        return f"{self.answer}: about {counted(self.more_pairs, 'more pair')} would"


def parse_earlier(raw: bytes | None, uri: str) -> EarlierResult:
    """Return an earlier result of `genrm eval`.

    Raises:
        InputError: it is missing, or is not one.
    """
    remedy = naming(
        "; expected what `genrm eval PAIRS.jsonl $repeats $json_output` printed", repeats=2
    )
    if raw is None:
        raise InputError(f"{uri}: no such file", remedy)
    try:
        return parse_json(EarlierResult, raw)
    except ValueError as error:
        raise InputError(f"{uri}: {error}", remedy) from error


def compare_since(
    earlier: EarlierResult, pairs: Sequence[PairRecord], base: str, *, same_settings: bool
) -> JudgeChange:
    """Compare the verdicts on the pairs that both have.

    Raises:
        InputError: they have no pair in common.
    """
    then = {pair.key: pair for pair in earlier.pairs}
    both = [(then[pair.key], pair) for pair in pairs if pair.key in then]
    if not both:
        raise InputError(f"{base}: it has none of these pairs; measure the judge on them again")
    requests = [
        _Request(now.item, _repeats_of(old), _repeats_of(new))
        for before, now in both
        for old, new in zip(before.orders, now.orders, strict=True)
    ]
    heard = [request for request in requests if request.then and request.now]
    own = [each for request in heard for each in (request.then, request.now) if len(each) > 1]
    excesses = [(request.item, request.excess) for request in heard]
    known = [(item, excess) for item, excess in excesses if excess is not None]
    by_item = [*means_by_item(known).values()]
    excess = fmean(by_item) if by_item else None
    high = None if excess is None else excess + _half_width(by_item)
    p_value = _p_value(heard)
    answer: Answer = "cannot tell"
    if p_value <= _ALARM and excess is not None and excess >= _LEAST:
        answer = "changed"
    elif high is not None and high < _MOST:
        answer = "same"
    quality_then = evaluate([before for before, _ in both])
    quality_now = evaluate([now for _, now in both])
    return JudgeChange(
        base=base,
        time=earlier.time,
        answer=answer,
        same_settings=same_settings,
        pairs=len(both),
        left_out=len(earlier.pairs) + len(pairs) - 2 * len(both),
        requests=len(heard),
        differ=sum(request.then[0] != request.now[0] for request in heard),
        own_requests=len(own),
        own_flips=sum(each[0] != each[1] for each in own),
        excess=excess,
        excess_high=high,
        p_value=p_value,
        more_pairs=_more_pairs(by_item, len(both)) if answer == "cannot tell" else None,
        accuracy_then=quality_then.accuracy,
        accuracy_now=quality_now.accuracy,
        failures_then=quality_then.failures,
        failures_now=quality_now.failures,
        judgements_then=quality_then.verdicts + quality_then.failures,
        judgements_now=quality_now.verdicts + quality_now.failures,
    )


class _Request(Struct, frozen=True):
    """The answers to one request; those that never came are left out."""

    item: str
    then: tuple[Repeat, ...]
    now: tuple[Repeat, ...]

    @property
    def excess(self) -> float | None:
        """By how much more an answer of then and one of now differ than two of one measurement do;
        None if no measurement has two.
        """
        within = [
            fmean(one != other for one, other in combinations(each, 2))
            for each in (self.then, self.now)
            if len(each) > 1
        ]
        if not within:
            return None
        across = _across(self.then, self.now) / (len(self.then) * len(self.now))
        return across - fmean(within)


def _repeats_of(order: OrderRecord) -> tuple[Repeat, ...]:
    return tuple(each for each in order.repeats if each is not None)[:_MOST_REPEATS]


def _p_value(requests: Sequence[_Request]) -> float:
    """Return the probability that answers which are alike differ between then and now as often as
    these, or more often.

    Source: the exact permutation test within blocks; E. S. Edgington and P. Onghena, Randomization
    Tests (4th edition, 2007) chapter 5.
    """
    total: Floats = np.ones(1)
    found = 0
    for request in requests:
        answers = request.then + request.now
        counts = tuple(sorted(Counter(answers).values()))
        if len(counts) < 2:
            continue
        found += _across(request.then, request.now)
        total = np.convolve(total, _chances(counts, len(request.now)))
    # Rounded: the sum of many shares, of which one decides, differs between machines.
    return min(1.0, round(float(total[found:].sum()), 12))


def _across(then: Sequence[object], now: Sequence[object]) -> int:
    return sum(old != new for old in then for new in now)


@lru_cache(maxsize=256)
def _chances(counts: tuple[int, ...], now: int) -> Floats:
    """Return how likely each number of differences between then and now is, from 0 on, if any
    choice of `now` of the answers is as likely; `counts` has how often each answer was given.
    """
    answers = [kind for kind, count in enumerate(counts) for _ in range(count)]
    places = range(len(answers))
    chances = np.zeros(now * (len(answers) - now) + 1)
    for chosen in combinations(places, now):
        today = [answers[place] for place in chosen]
        before = [answers[place] for place in places if place not in chosen]
        chances[_across(before, today)] += 1
    return np.asarray(chances / chances.sum())


def _half_width(excesses: Sequence[float]) -> float:
    """Return how much higher the mean of items may be, in 95 % of cases."""
    n = len(excesses)
    if n < 2:
        return math.inf
    error = math.sqrt(sample_variance(excesses) / n)
    return max(student_95(n - 1, _Z_ONE_SIDED) * error, _RULE_OF_THREE / n)


def _more_pairs(excesses: Sequence[float], pairs: int) -> int | None:
    """Return about how many more pairs would tell, if they are like these."""
    n = len(excesses)
    if n < 2:
        return None
    deviation = math.sqrt(sample_variance(excesses))
    excess = max(0.0, fmean(excesses))
    needed = max(
        (_Z_ALARM * deviation / excess) ** 2 if excess >= _LEAST else 0.0,
        (_Z_ONE_SIDED * deviation / (_MOST - excess)) ** 2 if excess < _LEAST else 0.0,
        _RULE_OF_THREE / (_MOST - excess) if excess < _LEAST else 0.0,
    )
    return max(1, math.ceil(needed * pairs / n) - pairs)
