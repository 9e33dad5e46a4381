"""The pairs of a result file."""

from collections.abc import Mapping
from dataclasses import replace

from genrm_cli.evaluation.accuracy import OrderRecord, PairRecord, preference_of
from genrm_cli.jobs.pairs.labelled_pairs import Case
from genrm_cli.judging.profiles.answer import verdict_of_grades
from genrm_cli.judging.profiles.score_tokens import sampled_of
from genrm_cli.scored.write_lines import outcome_fields
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict

_NOT_ASKED = Outcome(Failure(FailureKind.NOT_ASKED, "not asked"))


def record_of(case: Case) -> PairRecord:
    """Return a pair as the result file has it."""
    orders = []
    for chosen_first in (True, False):
        outcome = _outcome_of(case.outcomes, chosen_first)
        verdict = outcome.result if isinstance(outcome.result, Verdict) else None
        result = sampled = None
        if verdict is not None:
            result = preference_of(verdict, chosen_first=chosen_first)
            sampled = preference_of(sampled_of(verdict), chosen_first=chosen_first)
        orders.append(
            OrderRecord(**outcome_fields(outcome, verdict), result=result, sampled=sampled)
        )
    return PairRecord(
        id=case.pair.id,
        item=case.pair.item,
        line=case.line,
        category=case.pair.category,
        chosen_chars=case.chosen_chars,
        rejected_chars=case.rejected_chars,
        chosen_first=orders[0],
        chosen_second=orders[1],
    )


def _outcome_of(outcomes: Mapping[bool, Outcome], chosen_first: bool) -> Outcome:
    """Return the outcome of an order; grades of single responses become a verdict on both."""
    outcome = outcomes.get(chosen_first, _NOT_ASKED)
    if not isinstance(outcome.result, Grades):
        return outcome
    grades = outcome.result.values
    if len(grades) == 1:
        other = outcomes.get(not chosen_first, _NOT_ASKED).result
        if not isinstance(other, Grades):
            return replace(outcome, result=other)
        grades = (*grades, *other.values)
    return replace(outcome, result=verdict_of_grades(*grades))
