"""Chat: `messages` that end in the turn to be judged, one rollout per line."""

from collections.abc import Sequence
from typing import Any

from genrm_cli.rollouts.formats.format import ANSWERED, ASKED, Format, annotate_line
from genrm_cli.rollouts.reading.content import media_of_messages
from genrm_cli.rollouts.reading.fields import Record, rollout_of
from genrm_cli.rollouts.reading.messages import items_of_messages, turns_of_messages
from genrm_cli.rollouts.rollout import Rollout, Turn, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return isinstance(record.get("messages"), list)


def _read(record: Record) -> list[Rollout]:
    return [read_chat(record, record.get("messages"))]


def read_chat(record: Record, messages: object, **known: Any) -> Rollout:
    """Read a conversation whose last assistant turn is judged, with the tool turns before it.

    Raises:
        UnreadableRecordError: it is not a list of messages.
    """
    if not isinstance(messages, list):
        raise UnreadableRecordError("no messages, expected a list of messages")
    turns = turns_of_messages(messages)
    start, end = _response_span(turns)
    response = items_of_messages(messages[start:end])
    media = media_of_messages(messages[:start])
    return rollout_of(record, turns[:start], response, prompt_media=media, **known)


def _response_span(turns: Sequence[Turn]) -> tuple[int, int]:
    """Return the span of the judged response: the last assistant turn with the tool turns before it.

    Without an assistant turn the span is empty and the whole conversation is the prompt.
    """
    end = len(turns)
    while end and turns[end - 1].role != "assistant":
        end -= 1
    if not end:
        return len(turns), len(turns)
    start = end
    while start and turns[start - 1].role in ("assistant", "tool"):
        start -= 1
    return start, end


FORMAT = Format(
    "chat",
    _recognise,
    _read,
    annotate_line,
    keys=("messages",),
    example={"messages": [ASKED, ANSWERED]},
)
