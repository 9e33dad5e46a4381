"""ShareGPT: `conversations` of `from` and `value` that end in the turn to be judged, one rollout per line."""

from collections.abc import Mapping

from genrm_cli.rollouts.formats.format import ANSWER, QUESTION, Format, annotate_line
from genrm_cli.rollouts.formats.plain.chat import read_chat
from genrm_cli.rollouts.reading.fields import Record
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

_ROLES = {"human": "user", "gpt": "assistant", "function_call": "assistant", "observation": "tool"}


def _recognise(record: Record) -> bool:
    return isinstance(record.get("conversations"), list)


def _read(record: Record) -> list[Rollout]:
    conversation = record.get("conversations")
    if not isinstance(conversation, list):
        raise UnreadableRecordError("no conversations, expected a list of turns with from and value")
    messages = [_message_of(turn) for turn in conversation]
    system = record.get("system")
    if isinstance(system, str) and system.strip():
        messages.insert(0, {"role": "system", "content": system})
    return [read_chat(record, messages)]


def _message_of(turn: object) -> object:
    if not isinstance(turn, Mapping) or "from" not in turn:
        return turn  # some tools write role and content here
    role = turn["from"]
    if role == "function_call":
        return {"role": "assistant", "content": None, "tool_calls": [turn.get("value")]}
    return {"role": _ROLES.get(role, role) if isinstance(role, str) else role, "content": turn.get("value")}


FORMAT = Format(
    "sharegpt",
    _recognise,
    _read,
    annotate_line,
    keys=("conversations",),
    example={"conversations": [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": ANSWER}]},
)
