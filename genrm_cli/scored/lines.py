"""The `genrm` object of a scored line, and the lines of the comparisons file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import ComparisonResult, GroupRewards, RolloutScore
from genrm_cli.rewards.shaping import Adjustments
from genrm_cli.rewards.total import Total
from genrm_cli.rollouts.formats import Score
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.json_form import FormError, Json, extended, from_json, to_json
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Reason, Verdict

FORMAT: Literal[1] = 1
"""Version of scored lines and of comparison records; increased when a key changes its meaning or is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutResult:
    """The reward of a rollout and what it is based on, in scored lines and in responses of the server.

    Attributes:
        reward: the number for the trainer; None for an unscored rollout.
        reason: why there is no reward, as a code, and as a sentence in `reason_text`; None if there is one.
        base_score: the estimator's score, before length and style terms.
        standard_error: of the base score against the group's mean; None if unknown.
        rank: 1 is the best of the group; equal rewards share a rank.
        advantage: (reward - group mean) / group standard deviation.
        comparisons: verdicts that count for it.
        failed: failed requests about it.
        components: values by name; None if the reward comes from verdicts alone.
    """

    reward: float | None
    status: Literal["scored", "single", "unscored"]
    reason: Reason | None
    reason_text: str | None
    base_score: float | None
    standard_error: float | None
    rank: int | None
    advantage: float | None
    comparisons: int
    failed: int
    components: Mapping[str, float | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalRecord:
    """How components became a reward."""

    weights: Mapping[str, float]
    terms: Mapping[str, float]
    gates: Mapping[str, float]
    gated_by: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityRecord:
    """The cluster of near-duplicates that a rollout belongs to."""

    cluster: int | None
    size: int
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredLine(RolloutResult):
    """The `genrm` object of a rollout in a scored line, with its reward.

    Attributes:
        reliability: share of the group's spread that is signal; None if unknown.
        adjustments: what each length and style term added.
        group: key of the group, None for a rollout that belongs to none; the group had `group_size` rollouts.
        index: of the rollout in its group; `i` and `j` of comparison records.
        defaulted: comparisons that count with a default.
        is_baseline: whether the judge is the built-in lexical baseline.
        component_notes: evidence for the values of components.
        component_failures: why values of components are missing.
    """

    format: Literal[1] = FORMAT
    reliability: float | None
    adjustments: Adjustments
    group: str | None
    group_size: int
    index: int
    defaulted: int
    judge: str | None
    is_baseline: bool
    component_notes: Mapping[str, Any] | None = None
    component_failures: Mapping[str, str] | None = None
    total: TotalRecord | None = None
    diversity: DiversityRecord | None = None

    def as_score(self) -> Score:
        """Return the reward and the `genrm` object, as formats write them into a line."""
        record = to_json(self)
        return Score(record.pop("reward"), record)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """Why a request has no answer."""

    kind: FailureKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """The result of one request to a judge.

    Attributes:
        score_1: of the verdict that counts, as are `score_2` and `ranking`; None for a failure and for grades.
        grades: of the responses shown; None for a verdict.
    """

    score_1: float | None
    score_2: float | None
    ranking: float | None
    failure: FailureRecord | None
    attempts: int
    latency_s: float
    prompt_tokens: int
    completion_tokens: int
    grades: tuple[float, ...] | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None for a failure and for grades."""
        if self.score_1 is None or self.score_2 is None or self.ranking is None:
            return None
        return Verdict(self.score_1, self.score_2, self.ranking)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRecord(OutcomeRecord):
    """One line of the comparisons file: a request about a group, and its result.

    Attributes:
        i: index of the rollout shown first, `j` of the second; a graded rollout is `i` alone, a whole group neither.
        judge_idx: number of the repeat, from 0.
        component: component that was graded; None for a request whose verdict counts.
        shown: indices of a whole group, in the order shown.
        neutralised: changes made to the texts shown, by kind.
        reply: the judge's reply, if replies are kept.
        journal_key: key of the reply in the journal.
    """

    format: Literal[1] = FORMAT
    group: str | None
    component: str | None = None
    i: int | None
    j: int | None
    shown: tuple[int, ...] | None = None
    judge_idx: int
    judge: str
    neutralised: Mapping[str, int] | None = None
    reply: str | None = None
    journal_key: str | None = None

    @property
    def indices(self) -> tuple[int, ...]:
        """Indices of the rollouts shown, in the order shown: two of a pair, one alone, or a whole group."""
        return self.shown or tuple(index for index in (self.i, self.j) if index is not None)

    @property
    def is_pair(self) -> bool:
        """Whether two rollouts were compared for a verdict that counts."""
        return len(self.indices) == 2 and self.component is None


def result_of(score: RolloutScore, rewards: GroupRewards) -> RolloutResult:
    """Return the result of a rollout of a group."""
    numbers, columns = score.numbers, rewards.columns
    return RolloutResult(
        reward=score.reward,
        status=score.status,
        reason=score.reason,
        reason_text=score.reason_text,
        base_score=numbers.base_score,
        standard_error=score.standard_error,
        rank=numbers.rank,
        advantage=numbers.advantage,
        comparisons=score.comparisons,
        failed=score.failed,
        components={name: column.values[score.index] for name, column in columns.items()} if columns else None,
    )


def scored_line(score: RolloutScore, rewards: GroupRewards, plan: GroupPlan) -> ScoredLine:
    """Return the scored line of a rollout of a group."""
    columns, clusters = rewards.columns, rewards.clusters
    notes = {name: note for name, column in columns.items() if (note := column.note(score.index))}
    failures = {name: column.failure for name, column in columns.items() if column.failure}
    return extended(
        ScoredLine,
        result_of(score, rewards),
        reliability=rewards.reliability,
        adjustments=score.numbers.adjustments,
        group=rewards.key,
        group_size=len(rewards.scores),
        index=score.index,
        defaulted=score.defaulted,
        judge=plan.judge_name,
        is_baseline=plan.is_baseline,
        component_notes=notes if columns else None,
        component_failures=failures or None,
        total=_total_record(score.total, plan) if score.total is not None and plan.rewards.has_total else None,
        diversity=None
        if clusters is None
        else DiversityRecord(
            cluster=clusters.numbers[score.index], size=clusters.sizes[score.index], failed=clusters.failed
        ),
    )


def _total_record(total: Total, plan: GroupPlan) -> TotalRecord:
    terms = plan.rewards.total
    return TotalRecord(
        weights={name: weight.weight for name, weight in terms.weights.items()},
        terms=total.terms,
        gates={gate.component: gate.least for gate in terms.gates},
        gated_by=total.gated_by,
        missing=total.missing,
    )


def parse_scored_line(score: Score) -> ScoredLine:
    """Return the scored line that a format found in a line.

    Raises:
        UnreadableRecordError: it was not written by `genrm score`, or was changed since.
    """
    try:
        return from_json(ScoredLine, {**score.detail, "reward": score.reward})
    except FormError as error:
        raise UnreadableRecordError(f"genrm.{error}; run `genrm score` on it again") from error


def outcome_record(outcome: Outcome, verdict: Verdict | None) -> OutcomeRecord:
    """Return the result of one request, with the verdict that counts for it."""
    result = outcome.result
    return OutcomeRecord(
        score_1=None if verdict is None else verdict.score_1,
        score_2=None if verdict is None else verdict.score_2,
        ranking=None if verdict is None else verdict.ranking,
        failure=FailureRecord(kind=result.kind, detail=result.detail) if isinstance(result, Failure) else None,
        attempts=outcome.attempts,
        latency_s=round(outcome.latency_s, 4),
        prompt_tokens=outcome.prompt_tokens,
        completion_tokens=outcome.completion_tokens,
        grades=result.values if isinstance(result, Grades) else None,
    )


def comparison_json(comparison: ComparisonResult, *, with_reply: bool) -> Json:
    """Return one line of the comparisons file as JSON; with replies, a request without one has `null`."""
    shown, outcome = comparison.shown, comparison.outcome
    key = outcome.journal_key.hex() if outcome.journal_key and not with_reply else None  # where the reply can be found
    record = extended(
        ComparisonRecord,
        outcome_record(outcome, comparison.verdict),
        group=comparison.group,
        component=comparison.component,
        i=shown[0] if len(shown) <= 2 else None,
        j=shown[1] if len(shown) == 2 else None,
        shown=shown if len(shown) > 2 else None,
        judge_idx=comparison.repeat,
        judge=comparison.judge,
        neutralised=comparison.neutralised or None,
        reply=outcome.reply_text if with_reply else None,
        journal_key=key,
    )
    return ({"reply": None} if with_reply else {}) | to_json(record)
