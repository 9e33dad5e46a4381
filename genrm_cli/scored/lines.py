"""Scored lines and comparison records, and the groups that they form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rewards.shaping import Adjustments
from genrm_cli.rollouts.formats import Score
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.scored.json_form import to_json
from genrm_cli.typed_json import FormError, from_json
from genrm_cli.verdicts import FailureKind, Reason, Verdict

FORMAT: Literal[1] = 1
"""Version of scored lines and of comparison records; increased when a key changes its meaning or is
removed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutResult:
    """The reward of a rollout and its basis, in scored lines and in responses of the server.

    Attributes:
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
    shortened: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalRecord:
    """The derivation of a reward from components."""

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
        adjustments: contribution of each length and style term.
        group: key of the group, None for a rollout that belongs to none; the group had `group_size`
            rollouts.
        index: of the rollout in its group; `i` and `j` of comparison records.
        defaulted: comparisons that count with a default.
        is_baseline: whether the judge is the built-in lexical baseline.
        component_notes: evidence for the values of components.
        component_failures: why values of components are missing.
        neutralised: places where the text was broken up for the judge; None for none.
        equal_to: index of the rollout whose comparisons count for this one, too: judges see no
            difference; None for its own.
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
    total: TotalRecord | None = None
    diversity: DiversityRecord | None = None
    neutralised: int | None = None
    equal_to: int | None = None

    def group_name(self, line: int) -> str:
        """Return the key of the group; for a rollout of this line that belongs to none, a name of
        its own.
        """
        return f"(no group, line {line})" if self.group is None else self.group

    def as_score(self) -> Score:
        """Return the reward and the `genrm` object, as formats write them into a line."""
        # Formats decide where a line has its reward; it stands once in a line.
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
        score_1: of the verdict that counts, as are `score_2` and `ranking`; None for a failure and
            for grades.
        grades: of the responses shown, None for those that the judge left out; None for a verdict.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRecord(OutcomeRecord):
    """One line of the comparisons file: a request about a group, and its result.

    Attributes:
        i: index of the rollout shown first, `j` of the second; a graded rollout is `i` alone, a
            whole group neither.
        judge_idx: number of the repeat, from 0.
        component: component that was graded; None for a request whose verdict counts.
        shown: indices of a whole group, in the order shown.
        reply: the judge's reply, if replies are kept.
        journal_key: key of the reply in the journal.
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


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """A rollout with its scored line, and the fields of the line that belong to it where they are
    needed.
    """

    rollout: Rollout
    line: ScoredLine
    record: Record = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """The rollouts of one task by index, and the requests about them in the order of the
    comparisons file.
    """

    key: str
    members: tuple[ScoredRollout, ...]
    comparisons: tuple[ComparisonRecord, ...]

    @property
    def line(self) -> ScoredLine:
        """The scored line of any rollout: its statements about the group and the judge are the same
        in all.
        """
        return self.members[0].line

    @property
    def rewards(self) -> list[float]:
        """The rewards that are known."""
        return [each.line.reward for each in self.members if each.line.reward is not None]


def parse_scored_line(score: Score) -> ScoredLine:
    """Return the scored line that a format found in a line.

    Raises:
        UnreadableRecordError: it was not written by `genrm score`, or was changed since.
    """
    try:
        return from_json(ScoredLine, {**score.detail, "reward": score.reward})
    except FormError as error:
        raise UnreadableRecordError(f"genrm: {error}; run `genrm score` on it again") from error
