"""What is known of a scored rollout without its texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

Preferences = Mapping[tuple[int, int], int]
"""By two indices i < j: 1 where the judge prefers i in each order asked, -1 where j, 0 where it contradicts itself."""

LEFT_OUT = {
    "unscored": "unscored",
    "single": "alone in its group",
    "defaulted": "rests on a defaulted verdict",
    "response": "no response",
    "prompt": "no prompt",
    "blank": "blank response",
    "media": "holds media",
    "excluded": "excluded by its writer",
    "turn": "the policy has fewer turns than --branch-at",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rollout that can be exported; rewards of one group are comparable.

    Attributes:
        row: number of the rollout, over all inputs.
        index: in its group, as in the comparisons file.
        reward: that it was scored with.
        error: standard error of its base score; NaN where unknown.
        base_score: by the judge alone; NaN where unknown.
        chars: of its answer, reasoning left out.
        text: digest of what is exported: equal texts, equal digests.
        prompt: digest of the prompt that it answers.
        is_gated: whether it broke a gate, and so must not be chosen.
        is_teacher: whether a teacher made it, to be imitated by the policy.
    """

    row: int
    index: int
    reward: float
    error: float
    base_score: float
    chars: int
    text: int
    prompt: int
    is_gated: bool
    is_teacher: bool = False

    def lower_bound(self, confidence: float | None) -> float:
        """Return the bound that the reward exceeds with this probability; the reward itself without one.

        It is the reward less the quantile of the normal distribution times the standard error; NaN if that is unknown.
        """
        return self.reward if confidence is None else self.reward - NormalDist().inv_cdf(confidence) * self.error


@dataclass(frozen=True, slots=True)
class GroupOfCandidates:
    """The candidates of a group, in the order of their indices; `number` counts the groups over all inputs."""

    number: int
    candidates: tuple[Candidate, ...]
