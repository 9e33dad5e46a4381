"""Records of results: the `genrm` object of a scored line, and the lines of the comparisons file."""

from typing import Any

from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import ComparisonResult, GroupRewards, RolloutScore
from genrm_cli.rewards.total import Total
from genrm_cli.verdicts import Failure, Grades, Outcome, Verdict

FORMAT = 1
"""Version of both formats; increased when a key changes its meaning or is removed."""


def score_record(score: RolloutScore, rewards: GroupRewards, plan: GroupPlan) -> dict[str, Any]:
    """Return the `genrm` object of a rollout, JSON-ready."""
    numbers = score.numbers
    record: dict[str, Any] = {
        "format": FORMAT,
        "status": score.status,
        "reason": score.reason,
        "reason_text": score.reason_text,
        "base_score": numbers.base_score,
        "standard_error": score.standard_error,
        "reliability": rewards.reliability,
        "adjustments": numbers.adjustments.as_dict(),
        "rank": numbers.rank,
        "advantage": numbers.advantage,
        "group": rewards.key,
        "group_size": len(rewards.scores),
        "index": score.index,
        "place": score.index,  # the old name of `index`
        "comparisons": score.comparisons,
        "failed": score.failed,
        "defaulted": score.defaulted,
        "judge": plan.judge_name,
        "stand_in": plan.is_baseline,
    }
    if score.total is not None:
        record |= _composition_record(score.index, score.total, rewards, plan)
    return record


def _composition_record(index: int, total: Total, rewards: GroupRewards, plan: GroupPlan) -> dict[str, Any]:
    """Return the composition of a rollout's reward."""
    columns, terms = rewards.columns, plan.rewards.total
    record: dict[str, Any] = {
        "components": {name: column.values[index] for name, column in columns.items()},
        "component_notes": {name: note for name, column in columns.items() if (note := column.note(index))},
    }
    if failures := {name: column.failure for name, column in columns.items() if column.failure}:
        record["component_failures"] = failures
    if plan.rewards.has_total:
        record["total"] = {
            "weights": {name: weight.weight for name, weight in terms.weights.items()},
            "terms": dict(total.terms),
            "gates": {gate.component: gate.least for gate in terms.gates},
            "gated_by": list(total.gated_by),
            "missing": list(total.missing),
        }
    if (clusters := rewards.clusters) is not None:
        record["diversity"] = {
            "cluster": clusters.numbers[index],
            "size": clusters.sizes[index],
            "failed": clusters.failed,
        }
    return record


def comparison_record(comparison: ComparisonResult, *, with_reply: bool) -> dict[str, Any]:
    """Return one line of the comparisons file, JSON-ready."""
    record: dict[str, Any] = {"format": FORMAT, "group": comparison.group}
    if comparison.component is not None:
        record["component"] = comparison.component
    record |= _indices_record(comparison.shown)
    record["judge_idx"] = comparison.repeat
    record |= outcome_record(comparison.outcome, comparison.verdict)
    record["judge"] = comparison.judge
    if comparison.neutralised:
        record["neutralised"] = dict(comparison.neutralised)
    if with_reply:
        record["reply"] = comparison.outcome.reply_text
    elif comparison.outcome.journal_key:
        record["journal_key"] = comparison.outcome.journal_key.hex()  # where the reply can be found
    return record


def outcome_record(outcome: Outcome, verdict: Verdict | None) -> dict[str, Any]:
    """Return the result of one request, JSON-ready, with the verdict that counts for it."""
    failure = outcome.result if isinstance(outcome.result, Failure) else None
    grades = {"grades": list(outcome.result.values)} if isinstance(outcome.result, Grades) else {}
    return {
        **grades,
        "score_1": verdict and verdict.score_1,
        "score_2": verdict and verdict.score_2,
        "ranking": verdict and verdict.ranking,
        "failure": failure and {"kind": failure.kind, "detail": failure.detail},
        "attempts": outcome.attempts,
        "latency_s": round(outcome.latency_s, 4),
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
    }


def _indices_record(shown: tuple[int, ...]) -> dict[str, Any]:
    """Return the indices of the rollouts shown: `i` first and `j` second, `i` alone, or all in the order shown."""
    if len(shown) > 2:
        return {"i": None, "j": None, "shown": list(shown)}
    return {"i": shown[0], "j": shown[1] if len(shown) == 2 else None}
