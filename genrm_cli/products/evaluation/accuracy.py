"""Accuracy, biases, failures and cost of a judge, from its verdicts on labelled pairs."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import NormalDist, fmean, median

from msgspec import Struct

from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.running_stats import (
    LEAST_SPREAD,
    POWER,
    Z_95,
    Estimated,
    clustered_interval,
    wilson_interval,
)
from genrm_cli.products.evaluation.pair_records import PairRecord
from genrm_cli.verdicts import FailureKind

EVEN = 0.5
"""The accuracy of a judge that guesses."""
_LEAST_ITEMS = 10  # fewer say too little to plan by
# At an accuracy just beyond the critical value, half of the evaluations tell.
_FOR_POWER = 1 + NormalDist().inv_cdf(POWER) / Z_95


class PairShare(Struct, frozen=True):
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


class JudgeQuality(Struct, frozen=True):
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
        accuracy_chosen_first: accuracy in the order that shows the chosen response first.
        accuracy_chosen_second: accuracy in the order that shows it second.
        consistent_accuracy: share of pairs that are right in both orders, among pairs with both
            verdicts.
        flip_rate: share of the same pairs whose preference changes with the order, including to or
            from a tie.
        first_place_preference: share of verdicts for the response shown first, over the same pairs;
            a tie counts half, and 0.5 is unbiased.
        accuracy_longer_chosen: accuracy on pairs whose chosen response is the longer one.
        accuracy_shorter_chosen: accuracy on pairs whose chosen response is the shorter one.
        length_bias: accuracy where the longer response is right, minus accuracy where it is wrong;
            0 is fair.
        failure_rate: share of failures among the judgements that were asked.
        calls_per_judgement: mean over the judgements that took calls, as of all the figures below.
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


def evaluate(
    pairs: Sequence[PairRecord], price_in: float = 0.0, price_out: float = 0.0
) -> JudgeQuality:
    """Measure the quality of a judge. Prices are per million tokens of prompts and replies."""
    # Flips need both orders: with one of them, a failure would look like a preference.
    both = [pair for pair in pairs if all(order.result for order in pair.orders)]
    longer = accuracy_of(pair for pair in pairs if pair.chosen_chars > pair.rejected_chars)
    shorter = accuracy_of(pair for pair in pairs if pair.chosen_chars < pair.rejected_chars)
    orders = [order for pair in pairs for order in pair.orders]
    kinds = Counter(order.failure.kind for order in orders if order.failure is not None)
    not_asked = kinds.pop(FailureKind.NOT_ASKED, 0)
    failures = kinds.total()
    asked = len(orders) - not_asked
    paid = [order for order in orders if order.attempts]
    tokens_in = _mean([order.prompt_tokens for order in paid])
    tokens_out = _mean([order.completion_tokens for order in paid])
    cost = None
    if tokens_in is not None and tokens_out is not None and (price_in or price_out):
        cost = cost_of(tokens_in, tokens_out, price_in, price_out)
    return JudgeQuality(
        pairs=len(pairs),
        items=len({pair.item for pair in pairs}),
        verdicts=asked - failures,
        ties=sum(order.result == "tie" for order in orders),
        failures=failures,
        not_asked=not_asked,
        failures_by_kind={kind.value: count for kind, count in sorted(kinds.items())},
        accuracy=accuracy_of(pairs),
        judgebench_accuracy=share_of(pairs, _judgebench_credit),
        accuracy_chosen_first=share_of(pairs, lambda pair: pair.chosen_first.credit),
        accuracy_chosen_second=share_of(pairs, lambda pair: pair.chosen_second.credit),
        consistent_accuracy=share_of(both, lambda pair: float(pair.credit == 1)),
        flip_rate=share_of(
            both, lambda pair: float(pair.chosen_first.result != pair.chosen_second.result)
        ),
        first_place_preference=share_of(both, _first_place_credit),
        accuracy_longer_chosen=longer,
        accuracy_shorter_chosen=shorter,
        length_bias=difference_of(longer, shorter),
        failure_rate=failures / asked if asked else None,
        calls_per_judgement=_mean([order.attempts for order in paid]),
        prompt_tokens_per_judgement=tokens_in,
        completion_tokens_per_judgement=tokens_out,
        cost_per_judgement=cost,
        latency_median_s=median(order.latency_s for order in paid) if paid else None,
    )


def evaluate_by_category(
    pairs: Sequence[PairRecord], price_in: float = 0.0, price_out: float = 0.0
) -> dict[str, JudgeQuality]:
    """Measure the quality of a judge by category; pairs without a category have an empty name."""
    by_name = defaultdict[str, list[PairRecord]](list)
    for pair in pairs:
        by_name[pair.category or ""].append(pair)
    return {name: evaluate(each, price_in, price_out) for name, each in sorted(by_name.items())}


def values_of(
    pairs: Iterable[PairRecord], value_of: Callable[[PairRecord], float | None]
) -> list[tuple[str, float]]:
    """Return the values that are known, each with the line of its pair."""
    valued = ((pair.item, value_of(pair)) for pair in pairs)
    return [(item, value) for item, value in valued if value is not None]


def share_of(
    pairs: Iterable[PairRecord], value_of: Callable[[PairRecord], float | None]
) -> PairShare:
    """Average over the pairs that have a value from 0 to 1; see `share_of_items`."""
    return share_of_items(values_of(pairs, value_of))


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


def pairs_to_tell(found: Estimated | PairShare, even: float, accuracy: PairShare) -> int | None:
    """Return about how many pairs like these would show in 80 % of cases that a figure is above
    `even`.

    None if its interval tells already, if it is `even` or less, or for fewer than 10 lines: they
    say too little.

    Args:
        found: the figure, such as an accuracy or a difference of accuracies.
        even: its value if there is nothing to show.
        accuracy: on the pairs that it was found on.
    """
    if found.value is None or found.low is None or accuracy.items < _LEAST_ITEMS:
        return None
    if found.low > even or found.value <= even:
        return None
    wider = (found.value - found.low) / (found.value - even)
    return math.ceil(accuracy.pairs * (wider * _FOR_POWER) ** 2)


def accuracy_of(pairs: Iterable[PairRecord]) -> PairShare:
    """Return the share of right judgements, after averaging the orders of each pair that have a
    verdict.
    """
    return share_of(pairs, lambda pair: pair.credit)


def means_by_item(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of the values of each item."""
    by_item = defaultdict[str, list[float]](list)
    for item, value in values:
        by_item[item].append(value)
    return {item: fmean(each) for item, each in by_item.items()}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _judgebench_credit(pair: PairRecord) -> float | None:
    """Return 1 if a pair is right by the rule of JudgeBench, 0 if not; None if it was not asked.

    Source: JudgeBench (arXiv 2410.12784), `utils/metrics.py`: right orders less wrong orders > 0.
    """
    if not all(order.was_asked for order in pair.orders):
        return None
    results = [order.result for order in pair.orders]
    return float(results.count("right") > results.count("wrong"))


def _first_place_credit(pair: PairRecord) -> float:
    """Return the share of a pair's two verdicts that prefer the response shown first; a tie counts
    half.
    """
    first, second = (order.credit or 0.0 for order in pair.orders)
    return (first + 1 - second) / 2
