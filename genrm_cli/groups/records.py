"""Results as they are written: the `genrm` object of a scored line, and the lines of the comparisons file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from genrm_cli.groups.comparisons import verdict_of
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards, RolloutScore
from genrm_cli.judging.requests import RequestId
from genrm_cli.rewards.total import Total
from genrm_cli.verdicts import Failure, Grades, Outcome, Verdict

FORMAT = 1
"""Version of both forms; grows when a key changes its meaning or goes."""


def score_record(score: RolloutScore, rewards: GroupRewards, plan: GroupPlan) -> dict[str, Any]:
    """Return the `genrm` object of a rollout, JSON-ready."""
    numbers = score.numbers
    record: dict[str, Any] = {
        "format": FORMAT,
        "status": score.status,
        "reason": score.reason,
        "base_score": numbers.base_score,
        "standard_error": score.standard_error,
        "reliability": rewards.reliability,
        "adjustments": numbers.adjustments.as_dict(),
        "rank": numbers.rank,
        "advantage": numbers.advantage,
        "group": rewards.key,
        "group_size": len(rewards.scores),
        "index": score.index,
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
    """Return what the reward of a rollout is made of."""
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


@dataclass(frozen=True, slots=True)
class ComparisonRecord:
    """One line of the comparisons file: a request and its result.

    Attributes:
        group: key of the group.
        component: that was graded; None for a request whose verdict counts.
        request: what was shown, and in which repeat.
        outcome: the result.
        verdict: that counts; None for a failure and for grades.
        judge: name of the judge.
        neutralised: changes made to the texts shown, by kind.
        with_reply: whether the judge's reply is written.
    """

    group: str
    component: str | None
    request: RequestId
    outcome: Outcome
    verdict: Verdict | None
    judge: str | None
    neutralised: Mapping[str, int]
    with_reply: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the record, JSON-ready."""
        record: dict[str, Any] = {"format": FORMAT, "group": self.group}
        if self.component is not None:
            record["component"] = self.component
        record |= _indices_record(self.request.shown)
        record |= {"judge_idx": self.request.repeat, **outcome_record(self.outcome, self.verdict), "judge": self.judge}
        if self.neutralised:
            record["neutralised"] = dict(self.neutralised)
        return record | {"reply": self.outcome.reply_text} if self.with_reply else record


def iter_comparisons(judged: JudgedGroup, plan: GroupPlan) -> Iterator[ComparisonRecord]:
    """Yield the requests about a group, those of judges before those of graders."""
    for request, outcome in judged.results:
        number = request.judge - len(plan.judges)
        if number < 0:
            component, judge = None, plan.judges[request.judge].name
            verdict = verdict_of(outcome, plan) if len(request.shown) == 2 else None
        else:
            grader = plan.graders[number]
            component, verdict, judge = grader.component, None, grader.config.judge.model or ""
        neutralised = judged.neutralised.get(request, {})
        yield ComparisonRecord(judged.key, component, request, outcome, verdict, judge, neutralised, plan.keep_replies)


def outcome_record(outcome: Outcome, verdict: Verdict | None) -> dict[str, Any]:
    """Return the result of one request, JSON-ready; the verdict is the one that counts for it."""
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
    """Return which rollouts were shown: `i` first and `j` second, `i` alone, or all in the order shown."""
    if len(shown) > 2:
        return {"i": None, "j": None, "shown": list(shown)}
    return {"i": shown[0], "j": shown[1] if len(shown) == 2 else None}
