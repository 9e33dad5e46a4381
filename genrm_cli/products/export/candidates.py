"""Candidates for export, and reasons for leaving rollouts out."""

import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from genrm_cli.errors import Message, naming
from genrm_cli.rollouts.rollout import Item, Reasoning, Turn
from genrm_cli.scored.lines import ScoredRollout
from genrm_cli.verdicts import Reason

Preferences = Mapping[tuple[int, int], int]
"""By two indices i < j: 1 if the judge prefers i in every order asked, -1 if j, 0 if it contradicts
itself.
"""


class Drop(Enum):
    """The reason why a rollout is left out of an export, or a row is dropped. Manifests have the
    names in lower case, and the values are what users read.

    A member named after an option is the filter that dropped the row; `REVIEW_PENDING`,
    `REVIEW_HELD` and `REVIEW_REJECTED` are statuses of a review.
    """

    # rollouts
    UNSCORED = "unscored"
    SINGLE = "only rollout in its group"
    DEFAULTED = "rests on a defaulted verdict"
    NO_RESPONSE = "no response"
    NO_PROMPT = "no prompt"
    BLANK = "blank response"
    MEDIA = "holds media"
    EXCLUDED = "excluded by its writer"
    TOO_FEW_TURNS = "the policy has fewer turns than $branch_at"
    REVIEW_PENDING = "withheld until an expert has reviewed them, or with $include_pending"
    REVIEW_HELD = "withheld by review (held)"
    REVIEW_REJECTED = "withheld by review (rejected)"
    # rows
    TOO_FEW = "fewer than two usable rollouts in the group"
    NONE_PASSES_GATES = "no response of the group passes the gates"
    GATED = "a response that broke a gate would be preferred"
    NO_TEACHER = "no rollout of a teacher answers the same prompt"
    TEACHER_WORSE = "the policy did better than the teacher"
    TIE = "tie"
    MIXED_PROMPTS = "different prompts or histories"
    EQUAL_TEXTS = "equal texts"
    ORDERS_DISAGREE = "the judge's verdicts on the pair disagree"
    AGAINST_REWARDS = "the judge's verdict contradicts the rewards"
    REPEATED_PAIR = "repeated pair"
    REPEATED_TEXT = "repeated text"
    REPEATED_PROMPT = "repeated prompt"
    AT_MEDIAN = "at the median of its group"
    UNFIT = "the format cannot represent the row"
    MIN_GAP = "$min_gap"
    MIN_REWARD = "$min_reward"
    MAX_LENGTH_RATIO = "$max_length_ratio"
    MAX_PAIRS_PER_PROMPT = "$max_pairs_per_prompt"
    BALANCE_LENGTH = "$balance_length"
    BEST_OF = "$best_of"

    @property
    def code(self) -> str:
        """The name in manifests."""
        return self.name.lower()

    @property
    def message(self) -> Message:
        """What users read."""
        return naming(self.value)


def code_of(reason: Drop | Reason) -> str:
    """Return the name of a reason in manifests."""
    return reason.code if isinstance(reason, Drop) else reason.value


def message_of(code: str) -> Message:
    """Return the reason for a code of a manifest: a `Drop`, or the `Reason` why a rollout is
    unscored.
    """
    known = Drop.__members__.get(code.upper())
    return Message.of(f"unscored: {Reason(code).text}") if known is None else known.message


class Candidate(Struct, frozen=True):
    """A rollout that can be exported. Rewards of one group are comparable.

    Attributes:
        scored: the rollout with its scored line.
        index: in its group, as in the comparisons file.
        chars: characters of its answer, without reasoning.
        text: digest of the exported text, as `prompt` is of the prompt: equal texts have equal
            digests.
        is_gated: whether it failed a gate and must not be chosen.
        is_teacher: whether a teacher wrote it, for the policy to imitate.
        id: file, group and index.
    """

    scored: ScoredRollout
    index: int
    reward: float
    chars: int
    text: int
    prompt: int
    is_gated: bool
    is_teacher: bool = False
    id: str = ""

    @property
    def items(self) -> tuple[Item, ...]:
        """The response."""
        return self.scored.rollout.response or ()


def digest_of_items(items: Sequence[Item], *, with_reasoning: bool) -> int:
    """Return a 64-bit digest of a response: equal responses, equal digests."""
    kept = [item for item in items if with_reasoning or not isinstance(item, Reasoning)]
    # Not `hash()`: the digest is the `prompt_id` of rows, and must be the same in every run.
    text = repr([(type(item).__name__, *_texts_of(item)) for item in kept])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _texts_of(item: Item) -> tuple[str, ...]:
    if isinstance(item, Turn):
        return tuple(item)
    named = (getattr(item, name, None) for name in ("text", "name", "arguments", "kind"))
    return tuple(text.strip() for text in named if isinstance(text, str))
