"""The formats of lines with a prompt and a response, or several alternatives; and of conversations
that end in the response. They are recognised by the names and contents of their fields,
not by their writer."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from genrm_cli.errors import SettingRef
from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import Format, Score, annotate_line
from genrm_cli.rollouts.formats.shapes import (
    read_alternatives,
    read_completion,
    read_conversation,
)
from genrm_cli.rollouts.reading.all_texts import repeated_reference
from genrm_cli.rollouts.reading.answers import (
    FAILED,
    alternatives_of,
    is_reply,
    refuse_unknown_objects,
)
from genrm_cli.rollouts.reading.known_names import MANY_RESPONSES, REFERENCES, Fields
from genrm_cli.rollouts.reading.line_fields import (
    CONVERSATIONS,
    LINE_FIELDS,
    has_prompt,
    has_response,
    line_fields,
    parts_of,
    prompt_of,
    resolved_once,
    with_parts,
)
from genrm_cli.rollouts.reading.messages import items_of_text, role_of
from genrm_cli.rollouts.reading.record_fields import failure_of, identifier, task_of
from genrm_cli.rollouts.reading.values import (
    is_messages,
    iter_texts,
    messages_in,
    object_or_empty,
)
from genrm_cli.rollouts.rollout import Items, Rollout, ToolResult, Turn, UnreadableRecordError
from genrm_cli.texts.late_pattern import late_pattern

_REQUEST_IDS = ("custom_id", "key", "recordId")  # of batches: OpenAI and Anthropic, Gemini, Bedrock
# Beside one of these, `score` is the reward: verl, SkyRL and Atropos. For others, it may be any.
_SCORING = frozenset(("gts", "step", "output_response", "prefix"))
_OUTPUT_UID = late_pattern(r"(?P<task>.+)_(?P<session>\d{1,9})_(?P<output>\d{1,9})", re.DOTALL)
# Looked up for each conversation, of which few have any.
_REFERENCES = frozenset(REFERENCES)


# A prompt and a response


def _is_completion(record: Record) -> bool:
    if has_prompt(record):
        return has_response(record)
    # The result of a request in another file.
    replies = (record.get(name) for name in LINE_FIELDS.response)
    return _request_id(record) is not None and (_has_failed(record) or any(map(is_reply, replies)))


def _has_failed(record: Record) -> bool:
    """Whether a line is an error instead of a reply."""
    return bool(record.get("error")) and record.get("response") is None and not has_prompt(record)


def _request_id(record: Record) -> str | None:
    """Return the task of a line whose prompt is in another file: each request has its own id."""
    names = ((name, identifier(record[name])) for name in _REQUEST_IDS if name in record)
    return next((f"{name}:{value}" for name, value in names if value is not None), None)


def _fields_of_completion(record: Record) -> Fields:
    if _has_failed(record):
        return Fields(metadata=("error", "response"))
    return line_fields(record)


def _read_completion(record: Record) -> list[Rollout]:
    read = _fields_of_completion(record)
    known: Record = {} if read.prompt else {"task": task_of(record) or _request_id(record)}
    asked = prompt_of(record, read)
    response = record[read.response[0]] if read.response else None
    responses = _alternatives_in(record, read)
    failure = _failure_of(record, response)
    if failure is not None:
        rollouts = [read_completion(record, asked, None, excluded=failure, **known)]
    elif responses is None:
        rollouts = [read_completion(record, asked, response, **known)]
    else:
        if read.response and isinstance(response, list):
            refuse_unknown_objects(read.response[0], response)
        # Other calls may have had the prompt of a reply.
        is_group = not (read.prompt and isinstance(response, dict))
        rollouts = read_alternatives(record, asked, responses, is_group=is_group, **known)
    return with_parts(record, read, [_as_output(record, each) for each in rollouts])


def _as_output(record: Record, rollout: Rollout) -> Rollout:
    """Return a rollout whose line is one output of a session, as verl writes them: the last output
    supersedes the others, and the turns before it are a part of its response.

    Source: verl 0.9.1, `trainer/ppo/v1/trainer_base.py`."""
    uid = record.get("uid")
    named = _OUTPUT_UID.fullmatch(uid) if isinstance(uid, str) else None
    if named is None or not record.keys() >= {"input", "output"} or _SCORING.isdisjoint(record):
        return rollout
    output = int(named["output"])
    start = len(rollout.prompt)
    if output:  # its prompt holds the session up to here
        roles = [turn.role for turn in rollout.prompt]
        start = roles.index("assistant") if "assistant" in roles else start
    before = [item for turn in rollout.prompt[start:] for item in _items_of_turn(turn)]
    response = rollout.response and (*before, *rollout.response)
    return replace(
        rollout,
        prompt=rollout.prompt[:start],
        response=response,
        task=f"uid:{named['task']}",
        index=int(named["session"]),
        attempt=output,
    )


def _items_of_turn(turn: Turn) -> Items:
    if turn.role == "assistant":
        return items_of_text(turn.text)
    return (ToolResult(turn.text) if turn.role == "tool" else turn,)


def _failure_of(record: Record, reply: object) -> str | None:
    """Return why the request of a line failed; None if it did not, or the line is no call."""
    errors = [] if _request_id(record) is None else [record.get("error")]
    if isinstance(reply, dict) and is_reply(reply):
        errors.append(object_or_empty(reply.get("body", reply)).get("error"))
        errors.append(reply.get("type") if reply.get("type") in FAILED else None)
    return next(filter(None, map(failure_of, errors)), None)


def _alternatives_in(record: Record, read: Fields) -> Sequence[object] | None:
    """Return the alternatives that the field of the response holds; None if it is one response, or
    there is none.
    """
    if not read.response:
        return None
    (name,) = read.response
    value = record[name]
    if name == "choices" or not isinstance(value, list):
        choices = alternatives_of({name: value} if name == "choices" else value)
        return None if choices == [value] else choices
    named = name in MANY_RESPONSES
    if is_messages(value):
        # Reasoning and answer in two messages are one response.
        roles = {role_of(each) for each in value if isinstance(each.get("role"), str)}
        return value if named and roles == {"assistant"} else None
    is_texts = any(value) and all(isinstance(each, str | None) for each in value)
    return value if named or is_texts else None


def _rows_of_completion(record: Record) -> Sequence[object]:
    values = map(record.get, filter(record.__contains__, LINE_FIELDS.response))
    if not any(isinstance(each, (list, dict)) for each in values):
        return ()  # a text is one response
    read = _fields_of_completion(record)
    alternatives = _alternatives_in(record, read)
    # An object holds a list only if there are several.
    if not alternatives or not isinstance(record[read.response[0]], list):
        return alternatives if alternatives and len(alternatives) > 1 else ()
    return alternatives


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    annotate_line(record, scores, () if _SCORING.isdisjoint(record) else ("score",))


# Conversations that end in the response


def _conversation_field(record: JsonObject) -> str | None:
    values = ((name, messages_in(record.get(name))) for name in CONVERSATIONS)
    return next((name for name, value in values if is_messages(value)), None)


@resolved_once
def _fields_of_conversation(record: JsonObject) -> Fields:
    field = _conversation_field(record) or CONVERSATIONS[0]
    read = parts_of(record, Fields(prompt=(field,), response=(field,)))
    messages = messages_in(record.get(field))
    last = "".join(iter_texts(messages[-1])) if is_messages(messages) else ""
    gold = None if _REFERENCES.isdisjoint(record) else repeated_reference(record, last)
    if gold is not None:
        raise UnreadableRecordError(
            f"the conversation ends in the known answer ({gold}), which the policy did not write; "
            "name the response with ",
            SettingRef("response_field"),
            " if it did",
        )
    return read


def _read_conversation(record: Record) -> list[Rollout]:
    """Read messages that end in the response. Messages that wait for an answer are a prompt without
    a response.
    """
    field = _conversation_field(record)
    if field is None:
        raise UnreadableRecordError("no messages, expected a list of messages")
    rollout = read_conversation(record, messages_in(record[field]))
    return with_parts(record, _fields_of_conversation(record), [rollout])


LINE_FORMATS = (
    # AReaL, Alpaca, AlpacaEval, distilabel, LLaMA-Factory, OpenRLHF, SkyRL, slime, TRL, verifiers,
    # UltraFeedback, verl, vLLM and others; logs of calls, and the results of batches.
    Format(
        "completion",
        _is_completion,
        _read_completion,
        rows=_rows_of_completion,
        annotate_rollout=_annotate,
        fields=LINE_FIELDS,
        resolve=_fields_of_completion,
    ),
    # Also ShareGPT, LMSYS, WildChat, arena-hard and tinker-cookbook.
    Format(
        "chat",
        lambda record: _conversation_field(record) is not None,
        _read_conversation,
        fields=Fields(prompt=CONVERSATIONS, response=CONVERSATIONS),
        resolve=_fields_of_conversation,
    ),
)
