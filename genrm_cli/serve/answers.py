"""What a group is answered with."""

from dataclasses import dataclass, field
from typing import Any

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
    """

    name: str
    ids: tuple[str, ...]
    size: int
    rewards: GroupRewards
    calibration: CalibrationRecord
    _indices: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._indices.update((id_, index) for index, id_ in enumerate(self.ids))

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
