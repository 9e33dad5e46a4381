"""The records of a rollout and of a comparison, as a run makes, writes and reads them.

The fields stand in the order in which they are written. One whose default is None is written only
if it is not None; all others are always written, and required when a line is read."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rewards.compose import Total
from genrm_cli.rewards.shaping import Adjustments
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Reason, Verdict

FORMAT: Literal[1] = 1
"""Version of scored lines and of comparison records; increased when a key changes its meaning or is
removed.
"""
Status = Literal["scored", "single", "unscored"]
"""`single`: the only rollout of its group, with the score that the user asked for."""


class DiversityRecord(Struct, frozen=True, kw_only=True):
    """The cluster of near-duplicates that a rollout belongs to."""

    cluster: int | None
    size: int
    failed: bool


class ScoredLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reward of a rollout and its basis; in a scored line, the `genrm` object with its reward.

    Attributes:
        reliability: share of the group's spread that is signal; None if unknown.
        adjustments: contribution of each length and style term.
        group: key of the group, None for a rollout that belongs to none; the group had `group_size`
            rollouts.
        index: of the rollout in its group; `i` and `j` of comparison records.
        defaulted: comparisons that count with a default (setting `compat`).
        is_baseline: whether the judge is the built-in lexical baseline.
        component_notes: evidence for the values of components.
        component_failures: why values of components are missing.
        total: derivation of the reward from components; None if it comes from verdicts alone.
        neutralised: places where the text was broken up for the judge; None for none.
        equal_to: index of the rollout whose comparisons count for this one, too: judges see no
            difference; None for its own.
        reward: the number for the trainer; None for an unscored rollout.
        reason: why there is no reward, as a code, and as a sentence in `reason_text`; None if there
            is one.
        base_score: the estimator's score, before length and style terms.
        standard_error: of the base score against the group's mean; None if unknown.
        rank: 1 is the best of the group; equal rewards share a rank.
        advantage: reward less the group's mean, scaled as the setting `advantage` says.
        comparisons: verdicts that count for it.
        failed: failed requests about it.
        components: values by name; None if the reward comes from verdicts alone.
        shortened: characters cut out of prompt and response so that they fit into the judges'
            context; None if all fit.
    """

    format: Literal[1]
    reliability: float | None
    adjustments: Adjustments
    group: str | None
    group_size: int
    index: int
    defaulted: int
    judge: str | None
    is_baseline: bool
    component_notes: JsonObject | None = None
    component_failures: Mapping[str, str] | None = None
    total: Total | None = None
    diversity: DiversityRecord | None = None
    neutralised: int | None = None
    equal_to: int | None = None
    reward: float | None
    status: Status
    reason: Reason | None
    reason_text: str | None
    base_score: float | None
    standard_error: float | None
    rank: int | None
    advantage: float | None
    comparisons: int
    failed: int
    components: Mapping[str, float | None] | None = None
    shortened: int | None = None

    def group_name(self, line: int) -> str:
        """Return the key of the group; for a rollout of this line that belongs to none, a name of
        its own.
        """
        return f"(no group, line {line})" if self.group is None else self.group


class FailureRecord(Struct, frozen=True, kw_only=True):
    """Why a request has no answer."""

    kind: FailureKind
    detail: str


class ComparisonRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request about a group and its result; one line of the comparisons file.

    Attributes:
        i: index of the rollout shown first, `j` of the second; a graded rollout is `i` alone, a
            whole group neither.
        judge_idx: number of the repeat, from 0.
        component: component that was graded; None for a request whose verdict counts.
        shown: indices of a whole group, in the order shown.
        reply: the judge's reply, if replies are kept.
        journal_key: key of the reply in the journal.
        score_1: of the verdict that counts, as are `score_2` and `ranking`; None for grades, and
            for a failure without a default.
        grades: of the responses shown, None for those that the judge left out; None for a verdict.
    """

    format: Literal[1]
    group: str | None
    component: str | None = None
    i: int | None
    j: int | None
    shown: tuple[int, ...] | None = None
    judge_idx: int
    judge: str
    reply: str | None = None
    journal_key: str | None = None
    score_1: float | None
    score_2: float | None
    ranking: float | None
    failure: FailureRecord | None
    attempts: int
    latency_s: float
    prompt_tokens: int
    completion_tokens: int
    grades: tuple[float | None, ...] | None = None

    @property
    def indices(self) -> tuple[int, ...]:
        """Indices of the rollouts shown, in the order shown: two of a pair, one alone, or a whole
        group.
        """
        return self.shown or tuple(index for index in (self.i, self.j) if index is not None)

    @property
    def is_pair(self) -> bool:
        """Whether two rollouts were compared for a verdict that counts."""
        return len(self.indices) == 2 and self.component is None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None for a failure and for grades."""
        if (
            self.failure is not None
            or self.score_1 is None
            or self.score_2 is None
            or self.ranking is None
        ):
            return None
        return Verdict(self.score_1, self.score_2, self.ranking)


def outcome_fields(outcome: Outcome, verdict: Verdict | None) -> Record:
    """Return the fields of a record about the outcome of a request, with the verdict that counts
    for it.
    """
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
