"""Chat: `messages` that end in the turn to be judged, one rollout a line."""

from genrm_cli.rollouts.dialects.dialect import Dialect, annotate_line
from genrm_cli.rollouts.dialects.fields import (
    Record,
    index_of,
    principle_of,
    response_of_messages,
    task_of,
    turns_of_messages,
)
from genrm_cli.rollouts.record import Rollout, Turn, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return isinstance(record.get("messages"), list)


def _read(record: Record) -> list[Rollout]:
    messages = record.get("messages")
    if not isinstance(messages, list):
        raise UnreadableRecordError("a chat needs a list of messages")
    turns = turns_of_messages(messages)
    start, end = _response_span(turns)
    answer, reasoning = response_of_messages(messages[start:end])
    return [
        Rollout(turns[:start], answer, reasoning, principle_of(record), task_of(record), index_of(record)),
    ]


def _response_span(turns: tuple[Turn, ...]) -> tuple[int, int]:
    """Return where the judged response begins and ends: the last assistant turn with the tool turns before it.

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


DIALECT = Dialect("chat", _recognise, _read, annotate_line)
