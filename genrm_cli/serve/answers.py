"""What a group is answered with."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

from genrm_cli.groups.results import GroupRewards, RolloutScore
from genrm_cli.rewards.estimators import Calibration


@dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """What the rewards of a group rest on beside its own verdicts.

    Attributes:
        groups: judged so far, this one included.
        comparisons: their verdicts.
        fitted: the calibration.
    """

    groups: int
    comparisons: int
    fitted: Calibration

    def as_dict(self) -> dict[str, Any]:
        """Return the record, JSON-ready."""
        fitted = self.fitted
        return {
            "groups": self.groups,
            "comparisons": self.comparisons,
            "gap_bias": fitted.gap_bias,
            "ranking_bias": fitted.ranking_bias,
            "first_share": fitted.first_share,
        }


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """The rewards of a group.

    Attributes:
        name: its id.
        ids: of the members that were judged together, in order.
        size: members that were expected.
        rewards: of these members, in the same order.
        calibration: what they rest on.
        counts: of members, comparisons and calls.
    """

    name: str
    ids: tuple[str, ...]
    size: int
    rewards: GroupRewards
    calibration: CalibrationRecord
    counts: dict[str, Any] = field(default_factory=dict)
    _indices: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._indices.update((id_, index) for index, id_ in enumerate(self.ids))
        if not self.counts:
            self.counts.update(_counts_of(self))

    def without_comparisons(self) -> Self:
        """Return the answer with the results of the members only."""
        return replace(self, rewards=replace(self.rewards, verdicts={}, by_judge={}, comparisons=[]))

    @property
    def has_reward(self) -> bool:
        """Whether any member has a reward."""
        return any(score.reward is not None for score in self.rewards.scores)

    @property
    def status(self) -> str:
        """`scored`, `partial` if a member or a reward is missing, `failed` if nobody has a reward."""
        if not self.has_reward:
            return "failed"
        missing = len(self.ids) < self.size or any(score.reward is None for score in self.rewards.scores)
        return "partial" if missing else "scored"

    def score_of(self, id_: str) -> RolloutScore:
        """Return the result of a member."""
        return self.rewards.scores[self._indices[id_]]


def _counts_of(answer: GroupAnswer) -> dict[str, Any]:
    comparisons, rewards = answer.rewards.comparisons, answer.rewards
    known = [reward for reward in rewards.rewards if reward is not None]
    mean = sum(known) / len(known) if known else None
    return {
        "size": answer.size,
        "came": len(answer.ids),
        "scored": len(known),
        "comparisons": len(comparisons),
        "failed": len(rewards.failures),
        "from_journal": sum(each.outcome.from_journal for each in comparisons),
        "calls": sum(each.outcome.attempts for each in comparisons if not each.outcome.from_journal),
        "reliability": rewards.reliability,
        "reward_mean": mean,
        "reward_spread": max(known) - min(known) if known else None,
    }
