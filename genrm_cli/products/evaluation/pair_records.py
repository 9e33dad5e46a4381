"""The pairs of a result file."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from genrm_cli.groups.comparisons import join_verdicts
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.pairs.labelled_pairs import Case
from genrm_cli.judging.profiles.answer import verdict_of_grades
from genrm_cli.products.evaluation.accuracy import OrderRecord, PairRecord, preference_of
from genrm_cli.scored.write_lines import outcome_fields
from genrm_cli.verdicts import Failure, FailureKind, Grades, Judgment, Outcome, Verdict

_NOT_ASKED = Outcome(Failure(FailureKind.NOT_ASKED, "not asked"))


def record_of(case: Case, judge: int = 0) -> PairRecord:
    """Return a pair with the verdicts of one judge."""
    return _record_of(case, *(_outcome_of(case, judge, order) for order in (True, False)))


def joint_record_of(case: Case, plan: GroupPlan) -> PairRecord:
    """Return a pair as the result file has it, with the joint verdicts of a panel."""
    if not plan.is_panel:
        return record_of(case)
    return _record_of(case, *(_joint_outcome(case, plan, order) for order in (True, False)))


def _joint_outcome(case: Case, plan: GroupPlan, chosen_first: bool) -> Outcome:
    """Return the verdict of the panel, or the first failure, with the cost of all judges."""
    outcomes = [_outcome_of(case, judge, chosen_first) for judge in range(len(plan.judges))]
    given = [each.result if isinstance(each.result, Verdict) else None for each in outcomes]
    joint = join_verdicts(given)
    failures = [each.result for each in outcomes if isinstance(each.result, Failure)]
    return _joined(outcomes, failures[0] if joint is None else joint)


def _record_of(case: Case, chosen_first: Outcome, chosen_second: Outcome) -> PairRecord:
    """Return a pair with the outcome of each order."""
    return PairRecord(
        id=case.pair.id,
        item=case.pair.item,
        line=case.line,
        category=case.pair.category,
        chosen_index=case.pair.places[0],
        rejected_index=case.pair.places[1],
        chosen_chars=case.chosen_chars,
        rejected_chars=case.rejected_chars,
        chosen_first=_order_of(chosen_first, chosen_first=True),
        chosen_second=_order_of(chosen_second, chosen_first=False),
    )


def _order_of(outcome: Outcome, *, chosen_first: bool) -> OrderRecord:
    verdict = outcome.result if isinstance(outcome.result, Verdict) else None
    result = None if verdict is None else preference_of(verdict, chosen_first=chosen_first)
    return OrderRecord(**outcome_fields(outcome, verdict), result=result)


def _outcome_of(case: Case, judge: int, chosen_first: bool) -> Outcome:
    """Return the outcome of an order; grades of single responses become a verdict on both."""
    outcome = case.outcomes.get((judge, chosen_first), _NOT_ASKED)
    if not isinstance(outcome.result, Grades):
        return outcome
    grades = outcome.result.values
    if len(grades) == 1:
        other = case.outcomes.get((judge, not chosen_first), _NOT_ASKED).result
        if not isinstance(other, Grades):
            return replace(outcome, result=other)
        grades = (*grades, *other.values)
    return replace(outcome, result=verdict_of_grades(*grades))


def joined_repeats(outcomes: Sequence[Outcome]) -> Outcome:
    """Return one outcome for the repeats of an order: the mean of their verdicts or grades, or the
    first failure, with the cost of all.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    verdicts = [each.result for each in outcomes if isinstance(each.result, Verdict)]
    grades = [each.result.values for each in outcomes if isinstance(each.result, Grades)]
    result = outcomes[0].result
    if verdicts:
        result = Verdict(
            fmean(each.score_1 for each in verdicts),
            fmean(each.score_2 for each in verdicts),
            fmean(each.ranking for each in verdicts),
        )
    elif grades:
        whole = [each for each in grades if len(each) == max(map(len, grades))]
        result = Grades(tuple(map(fmean, zip(*whole, strict=True))))
    return _joined(outcomes, result)


def _joined(outcomes: Sequence[Outcome], result: Judgment | Failure) -> Outcome:
    """Return one outcome with this result, and the cost of all."""
    return replace(
        outcomes[0],
        result=result,
        attempts=sum(each.attempts for each in outcomes),
        latency_s=max(each.latency_s for each in outcomes),
        prompt_tokens=sum(each.prompt_tokens for each in outcomes),
        completion_tokens=sum(each.completion_tokens for each in outcomes),
    )
