"""Compare two judges by their results: is one of them better?"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from genrm_cli.errors import InputError
from genrm_cli.evaluation.accuracy import PairRecord, Share, accuracy_of, consistency_of
from genrm_cli.evaluation.result import read_result
from genrm_cli.metrics.running_stats import mcnemar_p_value
from genrm_cli.scored.json_form import extended
from genrm_cli.scored.run_record import JudgeRecord, PanelRecord
from genrm_cli.storage.location import S3Options

SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
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
    better: Literal["a", "b"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSide:
    """One of two results."""

    result: str
    judge: PanelRecord | JudgeRecord
    settings_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeComparison(Contest):
    """The comparison of two results; `pairs_a` and `pairs_b` are their pairs."""

    a: JudgeSide
    b: JudgeSide
    pairs_a: int
    pairs_b: int


def compare_results(a_uri: str, b_uri: str, s3: S3Options) -> JudgeComparison:
    """Compare two judges by two result files of `genrm eval`.

    Raises:
        InputError: a file is not such a result, or both judges did not judge any pair in both orders.
        StorageError: a file cannot be read.
    """
    a, b = read_result(a_uri, s3), read_result(b_uri, s3)
    contest = compare_judges(*({pair.key: pair for pair in each.pairs} for each in (a, b)))
    if not contest.pairs:
        shared = contest.left_out
        why = f"none of the {shared} pairs they share has all four verdicts" if shared else "they share no pairs"
        raise InputError(f"{a_uri} and {b_uri} cannot be compared: {why}. Evaluate both judges on the same file.")
    sides = {
        name: JudgeSide(result=uri, judge=result.judge, settings_digest=result.settings_digest)
        for name, uri, result in (("a", a_uri, a), ("b", b_uri, b))
    }
    return extended(JudgeComparison, contest, **sides, pairs_a=len(a.pairs), pairs_b=len(b.pairs))


def compare_judges(a: Mapping[str, PairRecord], b: Mapping[str, PairRecord]) -> Contest:
    """Test whether one of two judges is better, on the pairs that both judged in both orders.

    The test counts whether a pair is right in both orders: one yes or no per pair, as McNemar's test needs. Single
    orders would be two observations of one pair. A line with several pairs counts once, for the judge with more of
    them right; with one pair per line this is McNemar's test, otherwise the sign test that generalises it. A judge
    that decides by position loses to one that guesses consistently. The sign test on item accuracies shows whether it
    is also less accurate. Outcomes are by pair key.
    """
    shared = [(a[key], b[key]) for key in a if key in b]
    asked = [both for both in shared if all(order.was_asked for outcome in both for order in outcome.orders)]
    judged = [(one, other) for one, other in shared if one.has_both and other.has_both]
    a_better, b_better = _wins(judged, attrgetter("is_consistently_right"))
    more_accurate = _wins(judged, lambda outcome: sum(order.credit or 0.0 for order in outcome.orders))
    p_value = mcnemar_p_value(a_better, b_better)
    of_a, of_b = [one for one, _ in judged], [other for _, other in judged]
    winner: Literal["a", "b"] = "a" if a_better > b_better else "b"
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


def _wins(pairs: Iterable[tuple[PairRecord, PairRecord]], value_of: Callable[[PairRecord], float]) -> tuple[int, int]:
    """Count the items on which the sum over pairs is greater for the first judge, and for the second."""
    leads: dict[str, float] = {}
    for one, other in pairs:
        leads[one.item] = leads.get(one.item, 0.0) + value_of(one) - value_of(other)
    return sum(lead > 0 for lead in leads.values()), sum(lead < 0 for lead in leads.values())
