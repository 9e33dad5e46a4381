"""The options of an export."""

from dataclasses import dataclass, field

from genrm_cli.export.choosing.pairs import PairOptions
from genrm_cli.export.messages import ReasoningPolicy


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
