"""Test whether one of two judges is better than the other."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from genrm_cli.evaluation.accuracy import PairOutcome, Share, accuracy_of, consistency_of
from genrm_cli.metrics.intervals import mcnemar_p_value
from genrm_cli.verdicts import FailureKind

SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class Contest:
    """The comparison of two judges, a and b, on the pairs that both judged.

    Attributes:
        pairs: pairs that both judged in both orders. `items`: lines that they come from.
        left_out: number of pairs of both runs without all four verdicts.
        consistent_a: share of the pairs for which judge a is right in both orders.
        a_better: number of items on which judge a has more pairs right in both orders.
        p_value: p-value of the exact test on these two counts.
        a_more_accurate: items on which judge a has the higher accuracy, ties and single orders counted.
        accuracy_p_value: p-value of the exact sign test on these two counts.
        p_value_if_failures_lose: the same over all pairs that both were asked; a missing verdict counts as wrong.
        better: `a` or `b` if p is below 0.05, else None.
    """

    pairs: int
    items: int
    left_out: int
    accuracy_a: Share
    accuracy_b: Share
    consistent_a: Share
    consistent_b: Share
    a_better: int
    b_better: int
    p_value: float
    a_more_accurate: int
    b_more_accurate: int
    accuracy_p_value: float
    p_value_if_failures_lose: float
    better: str | None


def compare_judges(a: Mapping[str, PairOutcome], b: Mapping[str, PairOutcome]) -> Contest:
    """Test whether one of two judges is better, on the pairs that both judged in both orders.

    The test counts whether a pair is right in both orders: one yes or no per pair, as McNemar's test needs. Single
    orders would be two observations of one pair. A line with several pairs counts once, for the judge with more of
    them right; with one pair per line this is McNemar's test, otherwise the sign test that generalises it. A judge
    that decides by position loses to one that guesses consistently. The sign test on item accuracies shows whether it
    is also less accurate. Outcomes are by pair key.
    """
    shared = [(a[key], b[key]) for key in a if key in b]
    asked = [(one, other) for one, other in shared if _asked(one) and _asked(other)]
    judged = [(one, other) for one, other in shared if one.has_both and other.has_both]
    a_better, b_better = _wins(judged, attrgetter("is_consistently_right"))
    more_accurate = _wins(judged, _credit)
    p_value = mcnemar_p_value(a_better, b_better)
    of_a, of_b = [one for one, _ in judged], [other for _, other in judged]
    winner = "a" if a_better > b_better else "b"
    return Contest(
        pairs=len(judged),
        items=len({one.item for one in of_a}),
        left_out=len(shared) - len(judged),
        accuracy_a=accuracy_of(of_a),
        accuracy_b=accuracy_of(of_b),
        consistent_a=consistency_of(of_a),
        consistent_b=consistency_of(of_b),
        a_better=a_better,
        b_better=b_better,
        p_value=p_value,
        a_more_accurate=more_accurate[0],
        b_more_accurate=more_accurate[1],
        accuracy_p_value=mcnemar_p_value(*more_accurate),
        p_value_if_failures_lose=mcnemar_p_value(*_wins(asked, attrgetter("is_consistently_right"))),
        better=winner if p_value < SIGNIFICANCE else None,
    )


def _asked(outcome: PairOutcome) -> bool:
    return all(judgement.result != FailureKind.NOT_ASKED for judgement in outcome.judgements)


def _credit(outcome: PairOutcome) -> float:
    return sum(judgement.credit or 0.0 for judgement in outcome.judgements)


def _wins(
    pairs: Iterable[tuple[PairOutcome, PairOutcome]], value_of: Callable[[PairOutcome], float]
) -> tuple[int, int]:
    """Count the items on which the sum over pairs is greater for the first judge, and for the second."""
    leads: dict[str, float] = {}
    for one, other in pairs:
        leads[one.item] = leads.get(one.item, 0.0) + value_of(one) - value_of(other)
    return sum(lead > 0 for lead in leads.values()), sum(lead < 0 for lead in leads.values())
