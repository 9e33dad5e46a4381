"""Accuracy, biases, failures and cost of a judge, from its verdicts on labelled pairs."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, median

from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.running_stats import mcnemar_p_value, wilson_interval
from genrm_cli.verdicts import FailureKind, Verdict, preferred


class Preference(StrEnum):
    """The response that a verdict prefers."""

    CHOSEN = "chosen"
    REJECTED = "rejected"
    TIE = "tie"


CREDIT = {Preference.CHOSEN: 1.0, Preference.TIE: 0.5, Preference.REJECTED: 0.0}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one pair in one order.

    Attributes:
        result: the preference, or the kind of failure.
        calls: calls made by this run, or by the run that filled the journal; 0 for the built-in judge. Tokens are
            summed over calls.
        latency_s: time from the first call to the last reply.
    """

    result: Preference | FailureKind
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0

    @property
    def preference(self) -> Preference | None:
        """The preference; None for a failure."""
        return self.result if isinstance(self.result, Preference) else None

    @property
    def credit(self) -> float | None:
        """1 for right, 0 for wrong, 0.5 for a tie; None for a failure."""
        return CREDIT[self.result] if isinstance(self.result, Preference) else None


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """The results of one labelled pair.

    Attributes:
        item: identifies the line; pairs of one line are not independent of each other.
        chosen_first: the result with the chosen response shown first. `chosen_second` likewise.
    """

    item: str
    chosen_first: Judgement
    chosen_second: Judgement
    category: str | None = None
    chosen_chars: int = 0
    rejected_chars: int = 0

    @property
    def judgements(self) -> tuple[Judgement, Judgement]:
        """Both orders."""
        return self.chosen_first, self.chosen_second

    @property
    def has_both(self) -> bool:
        """Whether both orders have a verdict."""
        return self.chosen_first.preference is not None and self.chosen_second.preference is not None

    @property
    def is_consistently_right(self) -> bool:
        """Whether the chosen response is preferred in both orders."""
        return self.chosen_first.result == self.chosen_second.result == Preference.CHOSEN


@dataclass(frozen=True, slots=True)
class Share:
    """The mean over some pairs, 0 to 1, with its 95 % interval; None without pairs.

    Attributes:
        items: number of lines with these pairs; the interval counts the pairs of one line as one observation.
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
        not_asked: number of judgements that were never asked (budget, deadline); no other number counts them.
        accuracy: share of right judgements among those with a verdict; a tie counts half, and the orders of a pair are
            averaged first.
        accuracy_chosen_first: accuracy in the order that shows the chosen response first. `_second` likewise.
        accuracy_if_failures_lose: accuracy with each failure counted as wrong.
        consistent_accuracy: share of pairs that are right in both orders, among pairs with both verdicts.
        judgebench_accuracy: JudgeBench's own metric: pairs with more right verdicts than wrong ones, so a win in one
            order and a tie in the other are right, and failures count as ties. Source: Tan et al. 2024, arXiv
            2410.12784, section 4.
        flip_rate: share of the same pairs whose preference changes with the order, including to or from a tie.
        first_place_preference: share of verdicts for the response shown first, over the same pairs; a tie counts half,
            and 0.5 is fair.
        first_place_p_value: exact probability of at least this preference for an unbiased judge.
        accuracy_longer_chosen: accuracy on pairs whose chosen response is the longer one. `_shorter`, `_equal`
            likewise.
        length_bias: accuracy where the longer response is right, minus accuracy where it is wrong; 0 is fair.
        failure_rate: share of failures among the judgements that were asked. `parse_failure_rate`: share of those
            without a readable verdict in the reply.
        calls_per_judgement: mean over the judgements that took calls. Tokens, cost and latency likewise.
        cost_per_judgement: cost, in the currency of the prices; None without prices.
    """

    pairs: int
    items: int
    verdicts: int
    ties: int
    failures: int
    not_asked: int
    failures_by_kind: Mapping[str, int]
    accuracy: Share
    accuracy_chosen_first: Share
    accuracy_chosen_second: Share
    accuracy_if_failures_lose: Share
    consistent_accuracy: Share
    judgebench_accuracy: Share
    flip_rate: Share
    first_place_preference: Share
    first_place_p_value: float | None
    accuracy_longer_chosen: Share
    accuracy_shorter_chosen: Share
    accuracy_equal_length: Share
    length_bias: float | None
    failure_rate: float | None
    parse_failure_rate: float | None
    calls_per_judgement: float | None
    prompt_tokens_per_judgement: float | None
    completion_tokens_per_judgement: float | None
    cost_per_judgement: float | None
    latency_median_s: float | None


def preference_of(verdict: Verdict, *, chosen_first: bool) -> Preference:
    """Return the response that a verdict prefers, by the scores or, if these are equal, the ranking."""
    lead = preferred(verdict)
    if not lead:
        return Preference.TIE
    return Preference.CHOSEN if (lead > 0) == chosen_first else Preference.REJECTED


def evaluate(outcomes: Sequence[PairOutcome], price_in: float = 0.0, price_out: float = 0.0) -> JudgeQuality:
    """Measure the quality of a judge. Prices are per million tokens of prompts and replies."""
    both = [outcome for outcome in outcomes if outcome.has_both]
    longer = accuracy_of([outcome for outcome in outcomes if outcome.chosen_chars > outcome.rejected_chars])
    shorter = accuracy_of([outcome for outcome in outcomes if outcome.chosen_chars < outcome.rejected_chars])
    counts = _Counts(outcomes)
    return JudgeQuality(
        pairs=len(outcomes),
        items=len({outcome.item for outcome in outcomes}),
        verdicts=counts.verdicts,
        ties=counts.ties,
        failures=counts.failures,
        not_asked=counts.not_asked,
        failures_by_kind=dict(sorted(counts.kinds.items())),
        accuracy=accuracy_of(outcomes),
        accuracy_chosen_first=share_of(outcomes, lambda outcome: outcome.chosen_first.credit),
        accuracy_chosen_second=share_of(outcomes, lambda outcome: outcome.chosen_second.credit),
        accuracy_if_failures_lose=share_of(outcomes, _credit_if_failures_lose),
        consistent_accuracy=consistency_of(both),
        judgebench_accuracy=share_of(outcomes, _judgebench_credit),
        flip_rate=share_of(both, lambda outcome: float(outcome.chosen_first.result != outcome.chosen_second.result)),
        first_place_preference=share_of(both, _first_place_credit),
        first_place_p_value=_first_place_p_value(both),
        accuracy_longer_chosen=longer,
        accuracy_shorter_chosen=shorter,
        accuracy_equal_length=accuracy_of([o for o in outcomes if o.chosen_chars == o.rejected_chars]),
        length_bias=None if longer.value is None or shorter.value is None else longer.value - shorter.value,
        failure_rate=counts.rate(counts.failures),
        parse_failure_rate=counts.rate(
            sum(n for kind, n in counts.kinds.items() if FailureKind(kind).is_parse_failure)
        ),
        **_costs(outcomes, price_in, price_out),
    )


def evaluate_by_category(
    outcomes: Sequence[PairOutcome], price_in: float = 0.0, price_out: float = 0.0
) -> dict[str, JudgeQuality]:
    """Measure the quality of a judge by category; pairs without a category have an empty name."""
    by_name: dict[str, list[PairOutcome]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.category or "", []).append(outcome)
    return {name: evaluate(by_name[name], price_in, price_out) for name in sorted(by_name)}


@dataclass(slots=True)
class _Counts:
    """Numbers of judgements by result."""

    outcomes: Sequence[PairOutcome]
    verdicts: int = 0
    ties: int = 0
    not_asked: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for outcome in self.outcomes:
            for judgement in outcome.judgements:
                self.verdicts += judgement.preference is not None
                self.ties += judgement.result == Preference.TIE
                if judgement.result == FailureKind.NOT_ASKED:
                    self.not_asked += 1
                elif judgement.preference is None:
                    self.kinds[judgement.result.value] += 1

    @property
    def failures(self) -> int:
        return self.kinds.total()

    def rate(self, count: int) -> float | None:
        asked = self.verdicts + self.failures
        return count / asked if asked else None


def share_of(outcomes: Iterable[PairOutcome], value_of: Callable[[PairOutcome], float | None]) -> Share:
    """Average over the pairs that have a value from 0 to 1.

    The interval counts the pairs of a line as one observation. If the sizes of lines differ, they count as fewer: the
    number of one-pair lines whose mean has the same variance.

    Source: L. Kish, Survey Sampling (1965), section 11.7: (sum of weights)^2 / sum of squared weights.
    """
    values: list[float] = []
    sizes: Counter[str] = Counter()
    for outcome in outcomes:
        value = value_of(outcome)
        if value is not None:
            values.append(value)
            sizes[outcome.item] += 1
    if not values:
        return Share(None, None, None, 0, 0)
    mean = fmean(values)
    observations = len(values) ** 2 / sum(size * size for size in sizes.values())
    return Share(mean, *wilson_interval(mean, observations), len(values), len(sizes))


def accuracy_of(outcomes: Iterable[PairOutcome]) -> Share:
    """Return the share of right judgements, after averaging the orders of each pair that have a verdict."""
    return share_of(outcomes, _mean_credit)


def consistency_of(both: Iterable[PairOutcome]) -> Share:
    """Return the share of pairs, all with both verdicts, that are right in both orders."""
    return share_of(both, lambda outcome: float(outcome.is_consistently_right))


def _mean_credit(outcome: PairOutcome) -> float | None:
    return _mean(judgement.credit for judgement in outcome.judgements if judgement.credit is not None)


def _credit_if_failures_lose(outcome: PairOutcome) -> float | None:
    return _mean(each.credit or 0.0 for each in outcome.judgements if each.result != FailureKind.NOT_ASKED)


def _judgebench_credit(outcome: PairOutcome) -> float | None:
    if all(each.result == FailureKind.NOT_ASKED for each in outcome.judgements):
        return None
    return float(sum((each.credit or 0.0) - 0.5 for each in outcome.judgements if each.credit is not None) > 0)


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


def _first_place_credit(outcome: PairOutcome) -> float:
    """Return the share of a pair's two verdicts that prefer the response shown first."""
    second_for_first = 1.0 - CREDIT[Preference(outcome.chosen_second.result)]
    return fmean((CREDIT[Preference(outcome.chosen_first.result)], second_for_first))


def _first_place_p_value(both: Sequence[PairOutcome]) -> float | None:
    """Test whether as many items prefer position 1 as position 2."""
    if not both:
        return None
    leans: dict[str, float] = {}
    for outcome in both:
        leans[outcome.item] = leans.get(outcome.item, 0.0) + _first_place_credit(outcome) - 0.5
    return mcnemar_p_value(sum(lean > 0 for lean in leans.values()), sum(lean < 0 for lean in leans.values()))


def _costs(outcomes: Sequence[PairOutcome], price_in: float, price_out: float) -> dict[str, float | None]:
    paid = [judgement for outcome in outcomes for judgement in outcome.judgements if judgement.calls]
    tokens_in, tokens_out = _mean(each.prompt_tokens for each in paid), _mean(each.completion_tokens for each in paid)
    is_priced = tokens_in is not None and tokens_out is not None and bool(price_in or price_out)
    return {
        "calls_per_judgement": _mean(each.calls for each in paid),
        "prompt_tokens_per_judgement": tokens_in,
        "completion_tokens_per_judgement": tokens_out,
        "cost_per_judgement": cost_of(tokens_in or 0.0, tokens_out or 0.0, price_in, price_out) if is_priced else None,
        "latency_median_s": median(each.latency_s for each in paid) if paid else None,
    }
