"""Candidates for export, and reasons for leaving rollouts out."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from genrm_cli.errors import Message, naming
from genrm_cli.rollouts.rollout import Item, Reasoning, Turn
from genrm_cli.scored.lines import ScoredRollout
from genrm_cli.verdicts import Reason

Preferences = Mapping[tuple[int, int], int]
"""By two indices i < j: 1 if the judge prefers i in every order asked, -1 if j, 0 if it contradicts
itself.
"""


class Drop(StrEnum):
    """The reason why a rollout is left out of an export, or a row is dropped. The values appear in
    manifests.

    A member named after an option is the filter that dropped the row; `PENDING`, `HELD` and
    `REJECTED` are statuses of a review.
    """

    message: Message

    # rollouts
    UNSCORED = "unscored", naming("unscored")
    SINGLE = "single", naming("only rollout in its group")
    DEFAULTED = "defaulted", naming("rests on a defaulted verdict")
    NO_RESPONSE = "no_response", naming("no response")
    NO_PROMPT = "no_prompt", naming("no prompt")
    BLANK = "blank", naming("blank response")
    MEDIA = "media", naming("holds media")
    EXCLUDED = "excluded", naming("excluded by its writer")
    TOO_FEW_TURNS = "too_few_turns", naming("the policy has fewer turns than $branch_at")
    PENDING = (
        "review_pending",
        naming("withheld until an expert has reviewed them, or with $include_pending"),
    )
    HELD = "review_held", naming("withheld by review (held)")
    REJECTED = "review_rejected", naming("withheld by review (rejected)")
    # rows
    TOO_FEW = "too_few", naming("fewer than two usable rollouts in the group")
    NONE_PASSES_GATES = "none_passes_gates", naming("no response of the group passes the gates")
    GATED = "gated", naming("a response that broke a gate would be preferred")
    NO_TEACHER = "no_teacher", naming("no rollout of a teacher answers the same prompt")
    TEACHER_WORSE = "teacher_worse", naming("the policy did better than the teacher")
    TIE = "tie", naming("tie")
    MIXED_PROMPTS = "mixed_prompts", naming("different prompts or histories")
    EQUAL_TEXTS = "equal_texts", naming("equal texts")
    ORDERS_DISAGREE = "orders_disagree", naming("the judge's verdicts on the pair disagree")
    NO_VERDICT = "no_verdict", naming("the judge's reply has no verdict")
    NOT_IN_JOURNAL = (
        "not_in_journal",
        naming(
            "no reply in the journal to this request (judge, prompt and sampling have to be those "
            "of the run)"
        ),
    )
    OTHER_FORM = "other_form", naming("the text of the reply alone does not give its verdict")
    ONE_ORDER = "one_order", naming("no reply in the other order")
    BALANCE_TIES = "balance_ties", naming("tie beyond the number of each other outcome")
    AGAINST_REWARDS = "against_rewards", naming("the judge's verdict contradicts the rewards")
    REPEATED_PAIR = "repeated_pair", naming("repeated pair")
    REPEATED_TEXT = "repeated_text", naming("repeated text")
    REPEATED_PROMPT = "repeated_prompt", naming("repeated prompt")
    AT_MEDIAN = "at_median", naming("at the median of its group")
    UNFIT = "unfit", naming("the format cannot represent the row")
    MIN_GAP = "min_gap", naming("$min_gap")
    MIN_REWARD = "min_reward", naming("$min_reward")
    MAX_LENGTH_RATIO = "max_length_ratio", naming("$max_length_ratio")
    MAX_PAIRS_PER_PROMPT = "max_pairs_per_prompt", naming("$max_pairs_per_prompt")
    BALANCE_LENGTH = "balance_length", naming("$balance_length")
    BEST_OF = "best_of", naming("$best_of")

    def __new__(cls, code: str, message: Message) -> Self:
        """Create a member whose value is the code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.message = message
        return member


def message_of(code: str) -> Message:
    """Return the reason for a code of a manifest: a `Drop`, or the `Reason` why a rollout is
    unscored.
    """
    message = _MESSAGES.get(code)
    return Message.of(f"unscored: {Reason(code).text}") if message is None else message


_MESSAGES = {each.value: each.message for each in Drop}


@dataclass(frozen=True, slots=True)
class Candidate:
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
    text = repr([(type(item).__name__, *_texts_of(item)) for item in kept])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _texts_of(item: Item) -> tuple[str, ...]:
    if isinstance(item, Turn):
        return tuple(item)
    named = (getattr(item, name, None) for name in ("text", "name", "arguments", "kind"))
    return tuple(text.strip() for text in named if isinstance(text, str))
