"""Turn the results of groups into scored lines and comparison records."""

from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import ComparisonResult, GroupRewards, RolloutScore
from genrm_cli.json_types import Record
from genrm_cli.rewards.compose import Total
from genrm_cli.scored.json_form import extended, to_json
from genrm_cli.scored.lines import (
    FORMAT,
    ComparisonRecord,
    DiversityRecord,
    FailureRecord,
    RolloutResult,
    ScoredLine,
    TotalRecord,
)
from genrm_cli.verdicts import Failure, Grades, Outcome, Verdict


def result_of(score: RolloutScore, rewards: GroupRewards) -> RolloutResult:
    """Return the result of a rollout of a group."""
    numbers = score.numbers
    components = {name: column.values[score.index] for name, column in rewards.columns.items()}
    return RolloutResult(
        reward=score.reward,
        status=score.status,
        reason=score.reason,
        reason_text=score.reason_text,
        base_score=numbers.base_score,
        standard_error=score.standard_error,
        rank=numbers.rank,
        advantage=rewards.advantage_of(score),
        comparisons=score.comparisons,
        failed=score.failed,
        # Most rollouts have none of these, and their lines stay short.
        components=components or None,
        shortened=score.shortened or None,
    )


def scored_line(score: RolloutScore, rewards: GroupRewards, plan: GroupPlan) -> ScoredLine:
    """Return the scored line of a rollout of a group."""
    columns = rewards.columns
    clusters = rewards.clusters
    total = score.total
    notes = {name: column.note(score.index) for name, column in columns.items()}
    return extended(
        ScoredLine,
        result_of(score, rewards),
        format=FORMAT,
        reliability=rewards.reliability,
        adjustments=score.numbers.adjustments,
        group=rewards.key,
        group_size=len(rewards.scores),
        index=score.index,
        defaulted=score.defaulted,
        judge=plan.judge_name,
        is_baseline=plan.is_baseline,
        component_notes={name: note for name, note in notes.items() if note} if columns else None,
        component_failures={name: each.failure for name, each in columns.items() if each.failure}
        or None,
        neutralised=score.neutralised or None,
        equal_to=score.equal_to,
        # A reward of one part explains itself, unless a gate replaced it.
        total=_total_record(total, plan)
        if total is not None and (plan.rewards.settings.total is not None or total.gated_by)
        else None,
        diversity=None
        if clusters is None
        else DiversityRecord(
            cluster=clusters.numbers[score.index],
            size=clusters.sizes[score.index],
            failed=clusters.failed,
        ),
    )


def _total_record(total: Total, plan: GroupPlan) -> TotalRecord:
    table = plan.rewards.total
    return TotalRecord(
        weights=dict(table.weights),
        terms=total.terms,
        gates=dict(table.gates),
        gated_by=total.gated_by,
        missing=total.missing,
    )


def outcome_fields(outcome: Outcome, verdict: Verdict | None) -> Record:
    """Return the fields of an `OutcomeRecord`, with the verdict that counts for the request."""
    result = outcome.result
    return {
        "score_1": None if verdict is None else verdict.score_1,
        "score_2": None if verdict is None else verdict.score_2,
        "ranking": None if verdict is None else verdict.ranking,
        "failure": FailureRecord(kind=result.kind, detail=result.detail)
        if isinstance(result, Failure)
        else None,
        "attempts": outcome.attempts,
        # A tenth of a millisecond is below what networks repeat.
        "latency_s": round(outcome.latency_s, 4),
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
        "grades": result.values if isinstance(result, Grades) else None,
    }


def comparison_json(comparison: ComparisonResult, *, with_reply: bool) -> Record:
    """Return one line of the comparisons file as JSON; with replies, a request without one has
    `null`.
    """
    indices = comparison.shown
    outcome = comparison.outcome
    # Where the reply can be found, if it does not stand here.
    key = outcome.journal_key.hex() if outcome.journal_key and not with_reply else None
    fields = outcome_fields(outcome, comparison.verdict)
    if isinstance(outcome.result, Grades) and outcome.result.places:
        # Graders answer in the order shown, and may leave out responses.
        by_place = dict(outcome.result.by_place())
        fields["grades"] = tuple(by_place.get(place) for place in range(len(indices)))
    record = ComparisonRecord(
        **fields,
        format=FORMAT,
        group=comparison.group,
        component=comparison.component,
        i=indices[0] if len(indices) <= 2 else None,
        j=indices[1] if len(indices) == 2 else None,
        shown=indices if len(indices) > 2 else None,
        judge_idx=comparison.repeat,
        judge=comparison.judge,
        reply=outcome.reply_text if with_reply else None,
        journal_key=key,
    )
    return ({"reply": None} if with_reply else {}) | to_json(record)
