"""Accuracy, biases, failures and cost of a judge, from its verdicts on labelled pairs."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, fmean, median
from typing import Literal

from genrm_cli.groups.line_records import FailureRecord
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.running_stats import (
    LEAST_SPREAD,
    POWER,
    Z_95,
    Estimated,
    clustered_interval,
    wilson_interval,
)
from genrm_cli.verdicts import MIDDLE_RANKING, FailureKind, Verdict, preferred, sign_of


class Preference(StrEnum):
    """Whether a verdict prefers the chosen response."""

    RIGHT = "right"
    WRONG = "wrong"
    TIE = "tie"


Repeat = Literal["right", "wrong", "tie", "unreadable"]
"""An answer of the judge as the user sees it: a preference, or a reply without a verdict."""
_EVEN = 0.5
_LEAST_PAIRS = 10  # fewer say too little to plan by
# At an accuracy just beyond the critical value, half of the evaluations tell.
_FOR_POWER = 1 + NormalDist().inv_cdf(POWER) / Z_95
_CREDIT = {Preference.RIGHT: 1.0, Preference.TIE: 0.5, Preference.WRONG: 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRecord:
    """The result of a pair in one order; without a verdict, `result` is None.

    Calls, tokens and latency are those of this run, or of the run that filled the journal.

    Attributes:
        repeats: the answer of each repeat; None where no reply came.
    """

    result: Preference | None
    repeats: tuple[Repeat | None, ...]
    score_1: float | None
    score_2: float | None
    ranking: float | None
    failure: FailureRecord | None
    attempts: int
    latency_s: float
    prompt_tokens: int
    completion_tokens: int
    grades: tuple[float | None, ...] | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None for a failure."""
        if self.score_1 is None or self.score_2 is None or self.ranking is None:
            return None
        return Verdict(self.score_1, self.score_2, self.ranking)

    @property
    def credit(self) -> float | None:
        """1 for right, 0 for wrong, 0.5 for a tie; None without a verdict."""
        return None if self.result is None else _CREDIT[self.result]

    @property
    def was_asked(self) -> bool:
        """Whether the judge was asked."""
        return self.failure is None or self.failure.kind != FailureKind.NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRecord:
    """The results of one labelled pair.

    Attributes:
        item: identifies the line that the pair comes from; pairs of one line are not independent of
            each other.
        chosen_index: position of the chosen response among those of its line, from 0.
        rejected_index: that of the rejected response.
        chosen_first: the result with the chosen response shown first.
        chosen_second: the result with the chosen response shown second.
    """

    id: str
    item: str
    line: int
    category: str | None
    chosen_index: int
    rejected_index: int
    chosen_chars: int
    rejected_chars: int
    chosen_first: OrderRecord
    chosen_second: OrderRecord

    @property
    def places(self) -> tuple[int, int]:
        """Positions of the chosen and of the rejected response among those of the line."""
        return self.chosen_index, self.rejected_index

    @property
    def orders(self) -> tuple[OrderRecord, OrderRecord]:
        """Both orders."""
        return self.chosen_first, self.chosen_second

    @property
    def has_both(self) -> bool:
        """Whether both orders have a verdict."""
        return self.chosen_first.result is not None and self.chosen_second.result is not None

    @property
    def is_flipped(self) -> bool:
        """Whether the preference changes with the order, including to or from a tie."""
        return self.chosen_first.result != self.chosen_second.result

    @property
    def credit(self) -> float | None:
        """The mean credit of the orders with a verdict; None without one."""
        return _mean(order.credit for order in self.orders)

    @property
    def lead(self) -> float:
        """How strongly the verdicts of both orders together prefer the chosen response; below 0 for
        the other one, and 0 without a verdict.
        """
        first, second = (order.verdict for order in self.orders)
        lead = 0.0 if first is None else lead_of(first)
        return lead if second is None else lead - lead_of(second)

    @property
    def joint_credit(self) -> float | None:
        """The credit of both orders together: where they disagree, the stronger preference counts.
        None without a verdict.
        """
        return None if self.credit is None else credit_of_lead(self.lead)


@dataclass(frozen=True, slots=True)
class PairShare:
    """The mean over some pairs, 0 to 1, with its 95 % interval; None without pairs.

    Attributes:
        items: number of lines with these pairs; the interval allows for pairs of one line that
            depend on each other.
    """

    value: float | None
    low: float | None
    high: float | None
    pairs: int
    items: int


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """The quality of a judge on some pairs. A rate is None if nothing was counted.

    Attributes:
        pairs: number of labelled pairs, each judged in both orders.
        items: number of lines with these pairs.
        verdicts: number of judgements with a verdict. `ties`: those that prefer neither response.
        failures: number of judgements without a verdict, except those that were never asked.
        not_asked: number of judgements that were never asked (budget, deadline); no other number
            counts them.
        accuracy: share of right judgements among those with a verdict; a tie counts half, and the
            orders of a pair are averaged first.
        judgebench_accuracy: share of pairs with more right than wrong orders, where ties and
            failures are neither: the rule of JudgeBench.
        accuracy_chosen_first: accuracy in the order that shows the chosen response first. `_second`
            likewise.
        consistent_accuracy: share of pairs that are right in both orders, among pairs with both
            verdicts.
        flip_rate: share of the same pairs whose preference changes with the order, including to or
            from a tie.
        first_place_preference: share of verdicts for the response shown first, over the same pairs;
            a tie counts half, and 0.5 is unbiased.
        accuracy_longer_chosen: accuracy on pairs whose chosen response is the longer one.
            `_shorter` likewise.
        length_bias: accuracy where the longer response is right, minus accuracy where it is wrong;
            0 is fair.
        failure_rate: share of failures among the judgements that were asked.
        calls_per_judgement: mean over the judgements that took calls. Tokens, cost and latency
            likewise.
        cost_per_judgement: cost, in the currency of the prices; None without prices.
    """

    pairs: int
    items: int
    verdicts: int
    ties: int
    failures: int
    not_asked: int
    failures_by_kind: Mapping[str, int]
    accuracy: PairShare
    judgebench_accuracy: PairShare
    accuracy_chosen_first: PairShare
    accuracy_chosen_second: PairShare
    consistent_accuracy: PairShare
    flip_rate: PairShare
    first_place_preference: PairShare
    accuracy_longer_chosen: PairShare
    accuracy_shorter_chosen: PairShare
    length_bias: Estimated
    failure_rate: float | None
    calls_per_judgement: float | None
    prompt_tokens_per_judgement: float | None
    completion_tokens_per_judgement: float | None
    cost_per_judgement: float | None
    latency_median_s: float | None


def preference_of(verdict: Verdict, *, chosen_first: bool) -> Preference:
    """Return the response that a verdict prefers, by the scores or, if these are equal, the
    ranking.
    """
    lead = preferred(verdict)
    if not lead:
        return Preference.TIE
    return Preference.RIGHT if (lead > 0) == chosen_first else Preference.WRONG


def evaluate(
    outcomes: Sequence[PairRecord], price_in: float = 0.0, price_out: float = 0.0
) -> JudgeQuality:
    """Measure the quality of a judge. Prices are per million tokens of prompts and replies."""
    # Flips need both orders: with one of them, a failure would look like a preference.
    both = [outcome for outcome in outcomes if outcome.has_both]
    by_length: dict[int, list[PairRecord]] = {1: [], 0: [], -1: []}
    for outcome in outcomes:
        by_length[sign_of(outcome.chosen_chars - outcome.rejected_chars)].append(outcome)
    longer = accuracy_of(by_length[1])
    shorter = accuracy_of(by_length[-1])
    orders = [order for outcome in outcomes for order in outcome.orders]
    results = [order.result for order in orders if order.result is not None]
    kinds = Counter(order.failure.kind for order in orders if order.failure)
    not_asked = kinds.pop(FailureKind.NOT_ASKED, 0)
    asked = len(results) + kinds.total()
    return JudgeQuality(
        pairs=len(outcomes),
        items=len({outcome.item for outcome in outcomes}),
        verdicts=len(results),
        ties=results.count(Preference.TIE),
        failures=kinds.total(),
        not_asked=not_asked,
        failures_by_kind={kind.value: count for kind, count in sorted(kinds.items())},
        accuracy=accuracy_of(outcomes),
        judgebench_accuracy=share_of(outcomes, _judgebench_credit),
        accuracy_chosen_first=share_of(outcomes, lambda outcome: outcome.chosen_first.credit),
        accuracy_chosen_second=share_of(outcomes, lambda outcome: outcome.chosen_second.credit),
        consistent_accuracy=share_of(both, lambda outcome: float(outcome.credit == 1)),
        flip_rate=share_of(both, lambda outcome: float(outcome.is_flipped)),
        first_place_preference=share_of(both, _first_place_credit),
        accuracy_longer_chosen=longer,
        accuracy_shorter_chosen=shorter,
        length_bias=difference_of(longer, shorter),
        failure_rate=kinds.total() / asked if asked else None,
        **_costs(orders, price_in, price_out),
    )


def evaluate_by_category(
    outcomes: Sequence[PairRecord], price_in: float = 0.0, price_out: float = 0.0
) -> dict[str, JudgeQuality]:
    """Measure the quality of a judge by category; pairs without a category have an empty name."""
    by_name: dict[str, list[PairRecord]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.category or "", []).append(outcome)
    return {name: evaluate(by_name[name], price_in, price_out) for name in sorted(by_name)}


def share_of(
    outcomes: Iterable[PairRecord], value_of: Callable[[PairRecord], float | None]
) -> PairShare:
    """Average over the pairs that have a value from 0 to 1; see `share_of_items`."""
    valued = ((outcome.item, value_of(outcome)) for outcome in outcomes)
    return share_of_items((item, value) for item, value in valued if value is not None)


def share_of_items(values: Iterable[tuple[str, float]]) -> PairShare:
    """Average values from 0 to 1, each with the item that it belongs to.

    The interval is Wilson's, for as many independent pairs of right or wrong as would vary like
    these: averages of two orders vary less, and pairs of one line may depend on each other.

    Source: the ratio estimator over clusters, W. G. Cochran, Sampling Techniques (3rd edition,
    1977) §6.4; N. Dean and M. Pagano, Journal of Survey Statistics and Methodology 3 (2015) 484.
    Where all values are equal, L. Kish, Survey Sampling (1965) §11.7: (sum of weights)^2 / sum of
    squared weights."""
    totals: dict[str, float] = {}
    sizes: Counter[str] = Counter()
    for item, value in values:
        totals[item] = totals.get(item, 0.0) + value
        sizes[item] += 1
    pairs = sizes.total()
    items = len(sizes)
    if not items:
        return PairShare(None, None, None, 0, 0)
    mean = math.fsum(totals.values()) / pairs
    squares = math.fsum((total - mean * sizes[item]) ** 2 for item, total in totals.items())
    if items == 1 or squares < LEAST_SPREAD:  # how they vary is unknown
        observations = pairs**2 / sum(size * size for size in sizes.values())
        return PairShare(mean, *wilson_interval(mean, observations), pairs, items)
    error = math.sqrt(squares * items / (items - 1)) / pairs
    return PairShare(mean, *clustered_interval(mean, error, items, math.inf), pairs, items)


def difference_of(one: PairShare, other: PairShare) -> Estimated:
    """Return the difference of two shares of different pairs.

    Source: R. G. Newcombe, Statistics in Medicine 17 (1998) 873, method 10, with the intervals of
    the shares."""
    shares = [(each.value, each.low, each.high) for each in (one, other)]
    ends = [end for share in shares for end in share if end is not None]
    if len(ends) < 6:
        return Estimated(None, None, None)
    first, first_low, first_high, second, second_low, second_high = ends
    value = first - second
    below = math.hypot(first - first_low, second_high - second)
    above = math.hypot(first_high - first, second - second_low)
    return Estimated(value, value - below, value + above)


def pairs_to_tell(accuracy: PairShare) -> int | None:
    """Return about how many pairs would show in 80 % of cases that a judge of this accuracy is no
    coin.

    None if the interval tells already, if the accuracy is .5 or less, or for fewer than 10 pairs:
    their accuracy says too little.
    """
    if accuracy.value is None or accuracy.low is None or accuracy.pairs < _LEAST_PAIRS:
        return None
    if accuracy.low > 0.5 or accuracy.value <= 0.5:
        return None
    wider = (accuracy.value - accuracy.low) / (accuracy.value - 0.5)
    return math.ceil(accuracy.pairs * (wider * _FOR_POWER) ** 2)


def pair_result(record: PairRecord) -> float | None:
    """Return 1 if both orders together prefer the chosen response, 0 if the other one, else 0.5;
    None without a verdict.
    """
    return None if record.credit is None else credit_of_lead(record.credit - _EVEN)


def accuracy_of(outcomes: Iterable[PairRecord]) -> PairShare:
    """Return the share of right judgements, after averaging the orders of each pair that have a
    verdict.
    """
    return share_of(outcomes, lambda outcome: outcome.credit)


def means_by_item(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of the values of each item."""
    by_item: dict[str, list[float]] = {}
    for item, value in values:
        by_item.setdefault(item, []).append(value)
    return {item: fmean(each) for item, each in by_item.items()}


def credit_of_lead(lead: float) -> float:
    """Return 1 if a lead is for the chosen response, 0 if it is for the other one, else 0.5."""
    return (1 + sign_of(rounded(lead))) / 2


def lead_of(verdict: Verdict) -> float:
    """Return how strongly a verdict prefers the response shown first."""
    return verdict.score_1 - verdict.score_2 + MIDDLE_RANKING - verdict.ranking


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _judgebench_credit(outcome: PairRecord) -> float | None:
    """Return 1 if a pair is right by the rule of JudgeBench, 0 if not; None if it was not asked.

    Source: JudgeBench (arXiv 2410.12784), `utils/metrics.py`: right orders less wrong orders > 0.
    """
    if not all(order.was_asked for order in outcome.orders):
        return None
    results = [order.result for order in outcome.orders]
    return float(results.count(Preference.RIGHT) > results.count(Preference.WRONG))


def _first_place_credit(outcome: PairRecord) -> float:
    """Return the share of a pair's two verdicts that prefer the response shown first; a tie counts
    half.
    """
    first = outcome.chosen_first.credit or 0.0
    second = outcome.chosen_second.credit or 0.0
    return (first + 1 - second) / 2


def _costs(
    orders: Sequence[OrderRecord], price_in: float, price_out: float
) -> dict[str, float | None]:
    paid = [order for order in orders if order.attempts]
    tokens_in = _mean(each.prompt_tokens for each in paid)
    tokens_out = _mean(each.completion_tokens for each in paid)
    is_priced = tokens_in is not None and tokens_out is not None and bool(price_in or price_out)
    return {
        "calls_per_judgement": _mean(each.attempts for each in paid),
        "prompt_tokens_per_judgement": tokens_in,
        "completion_tokens_per_judgement": tokens_out,
        "cost_per_judgement": cost_of(tokens_in or 0.0, tokens_out or 0.0, price_in, price_out)
        if is_priced
        else None,
        "latency_median_s": median(each.latency_s for each in paid) if paid else None,
    }
