"""The pairs of a result file."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from genrm_cli.groups.comparisons import join_verdicts
from genrm_cli.groups.line_records import outcome_fields
from genrm_cli.judging.profiles.answer import verdict_of_grades
from genrm_cli.products.evaluation.accuracy import OrderRecord, PairRecord, Repeat, preference_of
from genrm_cli.products.evaluation.labelled_pairs import Case
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict

_NOT_ASKED = Outcome(Failure(FailureKind.NOT_ASKED, "not asked"))


def record_of(case: Case, judges: int) -> PairRecord:
    """Return a pair with the joint verdicts of this many judges."""
    return PairRecord(
        id=case.pair.id,
        item=case.pair.item,
        line=case.line,
        category=case.pair.category,
        chosen_index=case.pair.places[0],
        rejected_index=case.pair.places[1],
        chosen_chars=case.chosen_chars,
        rejected_chars=case.rejected_chars,
        chosen_first=_order_of(case, judges, chosen_first=True),
        chosen_second=_order_of(case, judges, chosen_first=False),
    )


def _order_of(case: Case, judges: int, *, chosen_first: bool) -> OrderRecord:
    by_judge = [_outcomes_of(case, judge, chosen_first) or [_NOT_ASKED] for judge in range(judges)]
    outcome = _joined([_joined(repeats) for repeats in by_judge])
    verdict = outcome.result if isinstance(outcome.result, Verdict) else None
    repeats = zip_longest(*by_judge, fillvalue=_NOT_ASKED)
    return OrderRecord(
        **outcome_fields(outcome, verdict),
        result=None if verdict is None else preference_of(verdict, chosen_first=chosen_first),
        repeats=tuple(_repeat_of(_joined(each), chosen_first) for each in repeats),
    )


def _outcomes_of(case: Case, judge: int, chosen_first: bool) -> list[Outcome]:
    """Return the outcomes of an order; grades of single responses become verdicts on both."""
    others = case.outcomes.get((judge, not chosen_first), ())
    pairs = zip_longest(case.outcomes.get((judge, chosen_first), ()), others, fillvalue=_NOT_ASKED)
    return [_as_verdict(outcome, other) for outcome, other in pairs if outcome is not _NOT_ASKED]


def _as_verdict(outcome: Outcome, other: Outcome) -> Outcome:
    """Return an outcome whose grades are a verdict, with those of the other response where it was
    graded alone.
    """
    if not isinstance(outcome.result, Grades):
        return outcome
    grades = outcome.result.values
    if len(grades) == 1:
        if not isinstance(other.result, Grades):
            return replace(outcome, result=other.result)
        grades = (*grades, *other.result.values)
    return replace(outcome, result=verdict_of_grades(*grades))


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return one outcome for several: the mean of their verdicts or the first failure, with the
    cost of all.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    verdicts = [each.result for each in outcomes if isinstance(each.result, Verdict)]
    return replace(
        outcomes[0],
        result=join_verdicts(verdicts) or outcomes[0].result,
        attempts=sum(each.attempts for each in outcomes),
        latency_s=max(each.latency_s for each in outcomes),
        prompt_tokens=sum(each.prompt_tokens for each in outcomes),
        completion_tokens=sum(each.completion_tokens for each in outcomes),
    )


def _repeat_of(outcome: Outcome, chosen_first: bool) -> Repeat | None:
    if isinstance(outcome.result, Verdict):
        return preference_of(outcome.result, chosen_first=chosen_first).value
    is_reply = isinstance(outcome.result, Failure) and outcome.result.kind.is_parse_failure
    return "unreadable" if is_reply else None
