"""What may be exported: candidates without their texts, why rollouts are left out, and the options of an export."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

from genrm_cli.export.messages import ReasoningPolicy

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


@dataclass(frozen=True, slots=True)
class PairOptions:
    """The pairs to make from a group.

    Attributes:
        selection: a name of `PAIR_SELECTIONS`.
        top: number of responses at each end, for `top-bottom`.
        min_gap: minimum difference of rewards.
        min_confidence: minimum probability that the order is right; None for no limit.
        max_length_ratio: maximum ratio between the lengths of the answers; None for no limit.
        seed: random seed.
    """

    selection: str = "best-worst"
    top: int = 2
    min_gap: float = 0.0
    min_confidence: float | None = None
    max_length_ratio: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of one export.

    Attributes:
        to: a name from `FORMATS`.
        pairs: the pairs to make from a group.
        balance_length: keep equal numbers of pairs in which the longer and the shorter answer is chosen.
        max_similarity: maximum similarity of the answers of a pair; None for no limit.
        max_pairs_per_prompt: maximum number of pairs per prompt; None for no limit.
        best_of: number of responses per prompt to imitate.
        min_reward: minimum reward of a response to imitate; None for no limit. With `pairs.min_confidence`
            responses are ranked by the bound that their reward exceeds with that probability, and the bound counts.
        threshold: minimum reward for a label of true; None for the median of the group.
        reasoning: what to do with reasoning.
        branch_at: number of the policy's turn to export; None for whole responses.
        split: share of prompts for validation; 0 for no split.
        mixed_settings: accept inputs that were scored with different settings.
        seed: random seed.
    """

    to: str
    pairs: PairOptions = field(default_factory=PairOptions)
    balance_length: bool = False
    max_similarity: float | None = None
    max_pairs_per_prompt: int | None = None
    best_of: int = 1
    min_reward: float | None = None
    threshold: float | None = None
    reasoning: ReasoningPolicy = "keep"
    branch_at: int | None = None
    split: float = 0.0
    mixed_settings: bool = False
    seed: int = 0

    @property
    def needs_comparisons(self) -> bool:
        """Whether the choice of pairs needs the judge's own comparisons."""
        return self.pairs.selection == "compared" or self.pairs.min_confidence is not None
