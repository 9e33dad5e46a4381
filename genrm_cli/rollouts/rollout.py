"""A rollout, independently of the format of its line, and its response in order.

A response holds text, tool calls and reasoning of the policy, and what the environment answered.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from itertools import dropwhile
from typing import NamedTuple, Self

from msgspec import Struct

from genrm_cli.errors import BadInputLineError
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import Explanation


class Turn(NamedTuple):
    """One turn of a conversation; roles are `system`, `user`, `assistant` and `tool`.

    Within a response, it is a turn that the policy did not write.
    """

    role: str
    text: str


class CallingTurn(Turn):
    """A turn of a prompt that calls tools. It equals the plain turn with the calls as text; `words`
    lacks them.
    """

    words: str
    calls: "tuple[ToolCall, ...]"

    def __new__(
        cls, role: str, text: str, words: str = "", calls: "tuple[ToolCall, ...]" = ()
    ) -> Self:
        turn = super().__new__(cls, role, text)
        turn.words = words
        turn.calls = calls
        return turn


class Criterion(NamedTuple):
    """One criterion of a row's rubric; those that describe a flaw have negative points."""

    text: str
    points: float = 1.0


class Text(Struct, frozen=True):
    """Text that the policy wrote for its reader; `stripped_tokens` of a chat template were removed
    from its end.
    """

    text: str
    stripped_tokens: int = 0


class Reasoning(Struct, frozen=True):
    """Reasoning of the policy, not shown to a judge; unless it `is_opened`, only a closing tag says
    what it is.
    """

    text: str
    is_opened: bool = True


class Refusal(Struct, frozen=True):
    """A refusal that the server marked as such."""

    text: str


class ToolCall(Struct, frozen=True):
    """A tool call; the arguments are JSON text, or whatever the policy wrote instead."""

    name: str
    arguments: str


class ToolResult(Struct, frozen=True):
    """The result of a tool call."""

    text: str
    name: str = ""


class Media(Struct, frozen=True):
    """An image, a file or another part that is not text; `url`, also `data:`, of an image that
    could be shown.
    """

    kind: str
    url: str | None = None

    @property
    def mark(self) -> str:
        """Its place in a text; that of an image with a URL names its content, which no other text
        can know.
        """
        return (
            f"[{self.kind}]"
            if self.url is None
            else f"[{self.kind} {sha256(self.url.encode()).hexdigest()[:16]}]"
        )


Item = Text | Reasoning | Refusal | ToolCall | ToolResult | Turn | Media
Items = tuple[Item, ...]
Turns = tuple[Turn, ...]
_WORDS = (Text, Refusal)  # a union would be made at every use
_ENDS_OF_TEXT = (ToolCall, ToolResult, Turn)
# A response of these alone is shown as its answer.
_WORDS_AND_REASONING = (*_WORDS, Reasoning)


def join_texts(texts: Iterable[str]) -> str:
    """Join the texts that are not blank with a blank line between them."""
    return "\n\n".join([text for text in texts if text.strip()])


def words_of(items: Iterable[Item]) -> str:
    """Return the policy's own text: texts and refusals, joined."""
    return join_texts([item.text for item in items if isinstance(item, _WORDS)])


def media_of(items: Iterable[Item]) -> tuple[Media, ...]:
    """Return all media, in order."""
    return tuple([item for item in items if isinstance(item, Media)])


def only_words(items: Iterable[Item]) -> bool:
    """Whether a response consists only of the policy's text and reasoning."""
    return all(isinstance(item, _WORDS_AND_REASONING) for item in items)


# White space, control, format and filler characters, and markup that renders as nothing. An answer
# may be one sign of punctuation, such as `*` or `**`, in backticks.
_NOTHING = late_pattern(
    r"(?:[\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]++"
    r"|&(?:nbsp|ensp|emsp|thinsp|zwj|zwnj|shy|lrm|rlm|#0*(?:32|160|173|820[3-7])|#x0*"
    r"(?:20|a0|ad|200[b-f]));"
    r"|<!--.*?-->|</?(?:br|p|div|span|b|i|u|em|strong|hr|center|font"
    r"|answer|response|output)\b[^<>]*+>"
    r"|\*{2,}+|_{2,}+|-{3,}+|~{3,}+|`{3,}+[a-z]*+|\#++(?=\s|\Z))",
    re.IGNORECASE | re.DOTALL,
)


def is_blank_text(text: str) -> bool:
    """Whether a reader would see nothing: white space, invisible characters and empty markup
    only.
    """
    end = 0
    while (found := _NOTHING.match(text, end)) is not None:
        end = found.end()
    return end == len(text)


def has_act(items: Iterable[Item]) -> bool:
    """Whether the policy did anything that can be judged: wrote text, refused, called a tool, or
    made media.
    """
    return any(
        not is_blank_text(item.text)
        if isinstance(item, _WORDS)
        else isinstance(item, (ToolCall, Media))
        for item in items
    )


def chars_of_items(items: Iterable[Item]) -> int:
    """Return the number of characters of a response without its reasoning."""
    chars = 0
    for item in items:
        if isinstance(item, ToolCall):
            chars += len(item.name) + len(item.arguments)
        elif not isinstance(item, (Reasoning, Media)):
            chars += len(item.text)
    return chars


def turns_of_items(items: Iterable[Item]) -> Turns:
    """Return a response as turns of a conversation, without reasoning; calls follow the text of
    their turn.
    """
    turns: list[Turn] = []
    calling = False  # whether a call belongs to the turn before it
    for item in items:
        match item:
            case Reasoning():
                continue
            case Turn():
                turn = item
            case ToolResult():
                turn = Turn("tool", item.text)
            case Media():
                turn = Turn("assistant", f"[{item.kind}]")
            case ToolCall():
                before = [turns.pop().text] if calling else []
                called = call_text(item.name, item.arguments)
                turn = Turn("assistant", join_texts([*before, called]))
            case _:
                turn = Turn("assistant", item.text)
        turns.append(turn)
        calling = isinstance(item, (Text, Refusal, ToolCall))
    return tuple(turns)


def call_text(name: str, arguments: str) -> str:
    """Write out a tool call as one line of a conversation."""
    return f"[calls {name}({arguments})]" if name else f"[calls {arguments}]"


def has_client(items: Iterable[Item]) -> bool:
    """Whether a user answers the policy within a response, as in a session."""
    return any(isinstance(item, Turn) and item.role == "user" for item in items)


def split_opening(items: Items) -> tuple[Turns, Items]:
    """Split off the turns before the first act of the policy; all turns if it never acts."""
    rest = tuple(dropwhile(lambda item: isinstance(item, Turn), items))
    opening = items[: len(items) - len(rest)]
    return tuple(turn for turn in opening if isinstance(turn, Turn)), rest


class UnreadableRecordError(BadInputLineError):
    """A line is JSON, but no rollout can be read from it; the message says why."""


class Rollout(Struct, frozen=True, dict=True):
    """One response (or episode) of the policy to one task.

    Attributes:
        prompt: the conversation that the policy answered.
        response: its response in order; empty if it did nothing; None if the line has no response
            (only inputs, or a failed generation).
        task: name of the group in the line (`task:3`, `prompt_id:x`); None if it has none.
        group_attempt: number of the attempt at the whole group; a later attempt replaces an earlier
            one.
        attempt: number of the attempt at this rollout; a later attempt replaces an earlier one.
        is_session: whether it is an episode, so that the whole session is judged instead of one
            answer.
        opens_freely: whether episodes of its group may begin with other words; otherwise a group
            answers one prompt.
        line_is_group: whether all rollouts of the line form one group (several responses in one
            line).
        is_truncated: whether a token, turn or time limit cut the response off.
        excluded: why it must not be compared (masked, failed); None if it may be.
        left_out: why this run excludes it, rather than its line: a later attempt replaces it, or a
            trial does not reach it.
        reference: the known answer of the task, if the judge is to be shown one; never a response.
        scenario: of a session, for the judge: its goal, constraints and the like; None if it has
            none.
        criteria: the rubric of its row, if the judge is to be shown one.
        gated_by: of a session, the gates that it broke when it was collected: its reward is the
            lowest of its group.
        tools: the functions that the policy could call: JSON texts in the shape of OpenAI's chat
            completions.
    """

    prompt: Turns
    response: Items | None
    principle: str | None = None
    task: str | None = None
    index: int | None = None
    group_attempt: int = 0
    attempt: int = 0
    is_session: bool = False
    opens_freely: bool = False
    line_is_group: bool = False
    is_truncated: bool = False
    excluded: str | None = None
    left_out: Explanation | None = None
    prompt_media: tuple[Media, ...] = ()
    reference: str | None = None
    tools: tuple[str, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    scenario: str | None = None
    gated_by: tuple[str, ...] = ()

    @cached_property
    def answer(self) -> str | None:
        """All text of the policy, joined, without reasoning; empty if it wrote none, None without a
        response.
        """
        return None if self.response is None else words_of(self.response)

    @cached_property
    def final_answer(self) -> str:
        """The text after the last call, result or turn of the environment; empty if the response
        ends with one.
        """
        items = self.response or ()
        start = len(items)
        while start and not isinstance(items[start - 1], _ENDS_OF_TEXT):
            start -= 1
        return words_of(items[start:])

    @cached_property
    def reasoning(self) -> str:
        """The policy's reasoning, joined without a separator; never shown to a judge."""
        return "".join([item.text for item in self.response or () if isinstance(item, Reasoning)])

    @cached_property
    def session(self) -> Turns | None:
        """For an episode, all turns after the prompt, without reasoning; None otherwise."""
        return turns_of_items(self.response or ()) if self.is_session else None

    @property
    def is_comparable(self) -> bool:
        """Whether it has a response and is not excluded."""
        return self.response is not None and self.excluded is None and self.left_out is None

    @property
    def media(self) -> tuple[Media, ...]:
        """The images and files in prompt and response."""
        return self.prompt_media + media_of(self.response or ())

    @property
    def stripped_tokens(self) -> int:
        """Number of chat-template tokens removed from the ends of its texts."""
        return sum(item.stripped_tokens for item in self.response or () if isinstance(item, Text))

    @property
    def has_prompt(self) -> bool:
        """Whether any turn of the prompt has text."""
        return any(turn.text.strip() for turn in self.prompt)


__all__ = ["Rollout", "Turn", "UnreadableRecordError"]
