"""What is known about a scored rollout, without its texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

Preferences = Mapping[tuple[int, int], int]
"""By two indices i < j: 1 if the judge prefers i in every order asked, -1 if j, 0 if it contradicts itself."""

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
    """A rollout that can be exported. Rewards of one group are comparable.

    Attributes:
        row: number of the rollout, over all inputs.
        index: index in its group, as in the comparisons file.
        reward: reward that it was scored with.
        error: standard error of its base score; NaN if unknown.
        base_score: score from the judge alone; NaN if unknown.
        chars: characters of its answer, without reasoning.
        text: digest of the exported text; equal texts have equal digests.
        prompt: digest of its prompt.
        is_gated: whether it broke a gate, so that it must not be chosen.
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
