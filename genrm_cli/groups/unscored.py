"""Find the reason why a rollout of a group has no reward."""

from collections.abc import Mapping

from genrm_cli.groups.failures.caused_failures import JudgedVerdicts
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.rewards.component import Column
from genrm_cli.rewards.compose import Total
from genrm_cli.verdicts import Explanation, Failure, FailureKind, Reason


def why_unscored(
    index: int,
    group: JudgedVerdicts,
    plan: GroupPlan,
    total: Total | None,
    columns: Mapping[str, Column],
    *,
    is_noisy: bool,
) -> Explanation:
    """Return why a rollout has no reward; the first reason in the order of the pipeline counts.

    Args:
        index: of the rollout.
        group: all planned comparisons of its group, with their verdicts.
        plan: plan of the run.
        total: the total of its components; None if its reward comes from verdicts alone.
        columns: the components of the group.
        is_noisy: whether it has a base score, in a group whose reliability is too low.
    """
    judged = group.judged
    not_compared = judged.not_compared[index]
    if not_compared is not None and not_compared.reason.is_exclusion:
        return not_compared
    if total is not None and not total.missing:
        return Explanation(Reason.NO_COMPONENT)
    missing = () if total is None else total.missing
    if missing and not any(_follows_from_verdicts(index, name, group, plan) for name in missing):
        failure = columns[missing[0]].failure if missing[0] in columns else None
        detail = f"{missing[0]} ({failure})" if failure else missing[0]
        return Explanation(Reason.COMPONENT_MISSING, detail)
    if not judged.has_response[index]:
        return Explanation(Reason.NO_RESPONSE)
    if not_compared is not None:
        return not_compared
    if judged.mixed:
        return Explanation(judged.mixed)
    if judged.key is None:
        return Explanation(Reason.NO_GROUP)
    if is_noisy:
        return Explanation(Reason.TOO_NOISY)
    return Explanation(_why_no_verdict(judged.copies.get(index, index), group, plan))


def _follows_from_verdicts(index: int, name: str, group: JudgedVerdicts, plan: GroupPlan) -> bool:
    """Whether a component is missing for the same reason as verdicts."""
    source = plan.rewards.sources[name]
    is_missing = name in plan.rewards.from_verdicts
    if group.judged.not_compared[index] is not None:
        return is_missing or source in ("judge", "rules", "responses")
    is_mixed = group.judged.mixed is not None and source in ("judge", "responses")
    return is_missing or is_mixed


def _why_no_verdict(index: int, group: JudgedVerdicts, plan: GroupPlan) -> Reason:
    judged = group.judged
    if not any(index in (i, j) for i, j, _ in group.by_judge):
        if judged.size == 1:
            return Reason.ALONE
        return Reason.NO_OPPONENT if len(judged.answered) == 1 else Reason.NOT_PLANNED
    failures = [
        (request.shown, outcome.result.kind)
        for request, outcome in judged.results
        if request.judge < len(plan.judges) and isinstance(outcome.result, Failure)
    ]
    # "Not asked" is said only where nothing else happened: it asks the user to resume.
    own = {kind for shown, kind in failures if index in shown}
    # A judge that grades one response may have failed on its opponents alone.
    if (own or {kind for _, kind in failures}) == {FailureKind.NOT_ASKED}:
        return Reason.NOT_ASKED
    return Reason.NO_QUORUM if plan.is_panel else Reason.NO_VERDICT
