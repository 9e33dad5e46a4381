"""A response in order: text, tool calls and reasoning of the policy, and answers of the environment."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import dropwhile
from typing import NamedTuple, Self


class Turn(NamedTuple):
    """One turn of a conversation; roles are `system`, `user`, `assistant` and `tool`.

    Within a response, it is a turn that the policy did not write.
    """

    role: str
    text: str


class CallingTurn(Turn):
    """A turn of a prompt that calls tools. It equals the plain turn with the calls as text.

    Attributes:
        words: text without the calls.
        calls: its calls.
    """

    words: str
    calls: "tuple[ToolCall, ...]"

    def __new__(cls, role: str, text: str, words: str = "", calls: "tuple[ToolCall, ...]" = ()) -> Self:
        """Return a turn; `text` is that of the plain turn."""
        turn = super().__new__(cls, role, text)
        turn.words, turn.calls = words, calls
        return turn


@dataclass(frozen=True, slots=True)
class Text:
    """Text that the policy wrote for its reader, without reasoning.

    Attributes:
        text: the text.
        stripped_tokens: number of chat-template tokens removed from its end.
    """

    text: str
    stripped_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning of the policy; never shown to a judge."""

    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal that the server marked as such."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; the arguments are JSON text, or whatever the policy wrote instead."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a file or another part that is not text, named by its kind."""

    kind: str


Item = Text | Reasoning | Refusal | ToolCall | ToolResult | Turn | Media


def join_texts(texts: Iterable[str]) -> str:
    """Join the texts that are not blank with a blank line between them."""
    return "\n\n".join(text for text in texts if text.strip())


def words_of(items: Iterable[Item]) -> str:
    """Return the policy's own text: texts and refusals, joined."""
    return join_texts(item.text for item in items if isinstance(item, Text | Refusal))


def reasoning_of(items: Iterable[Item]) -> str:
    """Return all reasoning, joined without a separator."""
    return "".join(item.text for item in items if isinstance(item, Reasoning))


def final_words_of(items: Iterable[Item]) -> str:
    """Return the policy's text after the last call, result or turn; empty if the response ends with one of these."""
    backwards = list(items)[::-1]
    last: list[Item] = []
    for item in backwards:
        if isinstance(item, ToolCall | ToolResult | Turn):
            break
        last.append(item)
    return words_of(last[::-1])


def last_arguments_of(items: Iterable[Item], tool: str) -> str | None:
    """Return the arguments of the last call of a tool; None if it was never called."""
    calls = [item.arguments for item in items if isinstance(item, ToolCall) and item.name == tool]
    return calls[-1] if calls else None


def media_of(items: Iterable[Item]) -> tuple[str, ...]:
    """Return the kinds of all media, in order."""
    return tuple(item.kind for item in items if isinstance(item, Media))


def only_words(items: Iterable[Item]) -> bool:
    """Whether a response consists only of the policy's text and reasoning."""
    return all(isinstance(item, Text | Refusal | Reasoning) for item in items)


def has_act(items: Iterable[Item]) -> bool:
    """Whether the policy did anything that can be judged: wrote text, refused, called a tool, or made media."""
    return any(
        bool(item.text.strip()) if isinstance(item, Text | Refusal) else isinstance(item, ToolCall | Media)
        for item in items
    )


def chars_of_items(items: Iterable[Item]) -> int:
    """Return the number of characters of a response without its reasoning."""
    chars = 0
    for item in items:
        if isinstance(item, ToolCall):
            chars += len(item.name) + len(item.arguments)
        elif not isinstance(item, Reasoning | Media):
            chars += len(item.text)
    return chars


def turns_of_items(items: Iterable[Item]) -> tuple[Turn, ...]:
    """Return a response as turns of a conversation, without reasoning; calls follow the text of their turn."""
    turns: list[Turn] = []
    calling = False  # whether a call belongs to the turn before it
    for item in items:
        if isinstance(item, ToolCall) and calling:
            turns[-1] = Turn("assistant", join_texts([turns[-1].text, call_text(item.name, item.arguments)]))
        elif not isinstance(item, Reasoning):
            turns.append(_turn_of_item(item))
            calling = isinstance(item, Text | Refusal | ToolCall)
    return tuple(turns)


def call_text(name: str, arguments: str) -> str:
    """Write out a tool call as one line of a conversation."""
    return f"[calls {name}({arguments})]" if name else f"[calls {arguments}]"


def has_client(items: Iterable[Item]) -> bool:
    """Whether a user answers the policy within a response, as in a session."""
    return any(isinstance(item, Turn) and item.role == "user" for item in items)


def split_opening(items: tuple[Item, ...]) -> tuple[tuple[Turn, ...], tuple[Item, ...]]:
    """Split off the turns before the first act of the policy; all turns if it never acts."""
    rest = tuple(dropwhile(lambda item: isinstance(item, Turn), items))
    opening = items[: len(items) - len(rest)]
    return tuple(turn for turn in opening if isinstance(turn, Turn)), rest


def _turn_of_item(item: Item) -> Turn:
    match item:
        case Turn():
            return item
        case ToolResult():
            return Turn("tool", item.text)
        case ToolCall():
            return Turn("assistant", call_text(item.name, item.arguments))
        case Media():
            return Turn("assistant", f"[{item.kind}]")
        case _:
            return Turn("assistant", item.text)
