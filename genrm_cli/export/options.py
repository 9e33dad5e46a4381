"""What an export should hold."""

from dataclasses import dataclass, field

from genrm_cli.export.choosing.pairs import PairOptions
from genrm_cli.export.messages import ReasoningPolicy


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of one export.

    Attributes:
        to: a name of `FORMATS`.
        pairs: which pairs to make of a group.
        balance_length: keep as many pairs with the longer answer chosen as with the shorter.
        max_similarity: drop pairs whose answers are more alike; None for no limit.
        max_pairs_per_prompt: None for no limit.
        best_of: responses of a prompt to imitate.
        min_reward: of a response to imitate; None for no limit. With `pairs.min_confidence` responses are ranked by
            the bound that their reward exceeds with that probability, and the bound must reach it.
        threshold: of the label of a response; None for the median of its group.
        reasoning: what to do with reasoning.
        branch_at: number of the policy's turn to export; None for whole responses.
        split: share of prompts for validation; 0 for no split.
        mixed_settings: accept inputs that were scored with different settings.
        seed: of everything random.
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
        """Whether pairs are chosen by the judge's own comparisons."""
        return self.pairs.selection == "compared" or self.pairs.min_confidence is not None
