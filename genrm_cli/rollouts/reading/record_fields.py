"""Read record fields that several formats share: names, attempts, principle, exclusion,
truncation.
"""

import json
from functools import partial
from typing import Any

from genrm_cli.json_types import JsonObject, field_at
from genrm_cli.rollouts.reading.messages import REASONING
from genrm_cli.rollouts.reading.values import is_objects, json_in, json_of, object_or_empty, words
from genrm_cli.rollouts.rollout import Items, Media, Rollout, Turns, UnreadableRecordError

# Looked up in this order; the first field with a value names the task.
_TASK_FIELDS = (
    ("_ng_group_id", "group"),
    ("_ng_task_index", "task"),
    ("task_index", "task"),
    ("task_idx", "task"),  # NeMo Gym's aviary server
    ("prompt_id", "prompt_id"),
    ("example_id", "example"),
    ("scenario.scenario_id", "scenario"),
)
# Of a line with none of these, no field names the task.
_NAMING = frozenset(name for path, _ in _TASK_FIELDS for name in (path, path.partition(".")[0]))
_INDEX_FIELDS = ("_ng_rollout_index", "rollout_index", "episode_index")
# Where NeMo Gym and logs of calls keep the tools.
_WITH_TOOLS = ("responses_create_params", "request", "response")
# NeMo Gym's environments have the mask in the line or in the configuration of its instance.
_MASKS = ("mask_sample", "instance_config.mask_sample")
# What says that a row has no reward although its rollout is whole: NeMo Gym's class of a failure,
# and the reason that `/verify` gives for its mask.
FAILURE_CLASS = "_ng_failure_class"
JUDGE_FAILED = "judge_failed"
UNSCORED_MARK = "_genrm_unscored"
UNJUDGED_MARKS = (FAILURE_CLASS, "_ng_failure_judge_error", UNSCORED_MARK)
# Columns of the prompt, beside its text.
_MEDIA_FIELDS = words("image images video videos audio audios")
# OpenAI, Anthropic, Gemini, Bedrock.
_STOP_FIELDS = words("finish_reason stop_reason finishReason stopReason")
_NESTED_STOPS = words("incomplete_details.reason message.stop_reason")
# Of a line with none of these, no limit is known that cut it off.
_ENDS = frozenset(
    (*_STOP_FIELDS, *words("incomplete_details message remove_sample truncated is_truncated"))
)
# Of a line with none of these, no reason is known to exclude it.
_EXCLUDING = frozenset(
    words("mask_sample instance_config sample_loss_mask remove_sample error ok _ng_failure_class")
)
_CUT_OFF = frozenset(
    words("length max_tokens max_output_tokens max_length model_length token_limit max_seq_len")
)


def rollout_of(record: JsonObject, prompt: Turns, response: Items | None, **known: Any) -> Rollout:
    """Return a rollout with all attributes from its part of a line; `known` are those that the
    format overrides.
    """
    said = {
        "principle": principle_of(record),
        "tools": tools_of(record),
        "task": task_of(record),
        "index": index_of(record),
        "group_attempt": _count(record.get("_ng_group_attempt")),
        "attempt": _count(record.get("_ng_attempt_index")),
        "is_truncated": is_truncated(record),
        "excluded": excluded_of(record),
    }
    prompt = tuple([turn for turn in prompt if turn.role != REASONING])
    prompt_media = (*known.pop("prompt_media", ()), *media_beside(record))
    return Rollout(prompt, response, prompt_media=prompt_media, **(said | known))


def media_beside(record: JsonObject) -> list[Media]:
    """Return the images and files that a line has beside its messages."""
    return [
        Media(name.removesuffix("s"))
        for name in filter(record.__contains__, _MEDIA_FIELDS)
        if record[name] and isinstance(record[name], (list, dict))
    ]


def task_of(record: JsonObject) -> str | None:
    """Return the name of the group in the line: group id, task index, prompt id, or else example or
    scenario id.
    """
    if _NAMING.isdisjoint(record):
        return None
    named = ((kind, identifier(field_at(record, path))) for path, kind in _TASK_FIELDS)
    return next((f"{kind}:{name}" for kind, name in named if name is not None), None)


def index_of(record: JsonObject) -> int | None:
    """Return the index of the rollout in its group; None if the line has none."""
    values = (integer(record[name]) for name in _INDEX_FIELDS if name in record)
    return next((value for value in values if value is not None), None)


def principle_of(record: JsonObject) -> str | None:
    """Return the line's principle; several become a numbered list."""
    principle = record.get("principle")
    if isinstance(principle, list):
        texts = enumerate(principle, 1)
        lines = [f"{number}. {text}" for number, text in texts if isinstance(text, str)]
        return "\n".join(lines) or None
    return principle if isinstance(principle, str) and principle.strip() else None


def tools_of(record: JsonObject) -> tuple[str, ...]:
    """Return the tools of a line, a list or its JSON text; definitions of the Responses API are
    nested.
    """
    for holder in (record, *(record[name] for name in _WITH_TOOLS if name in record)):
        value = object_or_empty(holder).get("tools")
        tools = json_in(value) if isinstance(value, str) else value
        if tools and is_objects(tools):
            # In a JSON text, a null is the writer's own.
            text_of = json_of if tools is value else partial(json.dumps, ensure_ascii=False)
            return tuple(text_of(_nested_tool(tool)) for tool in tools)
    return ()


def _nested_tool(tool: JsonObject) -> JsonObject:
    if tool.get("type", "function") == "function" and not isinstance(tool.get("function"), dict):
        function = {name: value for name, value in tool.items() if name != "type"}
        return {"type": "function", "function": function}
    return tool


def excluded_of(record: JsonObject) -> str | None:
    """Return why a rollout must not be compared according to its writer: it is masked, or it
    failed. What a judge failed to verify can be judged: its mask is no word about the rollout.
    """
    if _EXCLUDING.isdisjoint(record):
        return None
    failure = record.get(FAILURE_CLASS)
    is_whole = is_unjudged(record)
    if not is_whole and any(field_at(record, path) is True for path in _MASKS):
        return "masked (mask_sample)"
    if _is_masked(record.get("sample_loss_mask")):
        return "masked (sample_loss_mask)"
    if failure and not is_whole:
        return f"failed ({identifier(failure) or 'unknown'})"
    if "remove_sample" in record:  # slime, whose `status` is that of its generation
        if record["remove_sample"] is True:
            return "masked (remove_sample)"
        if record.get("status") in ("aborted", "failed"):
            return f"failed (status {record['status']})"
    error = record.get("error") if "example_id" in record else None  # verifiers, tinker-cookbook
    return failure_of(error) or ("failed (ok is false)" if record.get("ok") is False else None)


def is_unjudged(record: JsonObject) -> bool:
    """Whether a row has no reward because of its judge or its siblings alone."""
    return record.get(FAILURE_CLASS) == JUDGE_FAILED or UNSCORED_MARK in record


def failure_of(error: object) -> str | None:
    """Return why a rollout is excluded, from the error field of a format; None if the field is
    empty.
    """
    if not error:
        return None
    last = error[-1] if isinstance(error, list) else error
    if isinstance(last, dict):
        last = last.get("type") or last.get("code") or last.get("message")
    words = " ".join(last.split())[:60] if isinstance(last, str) else "error"
    return f"failed ({words or 'error'})"


def is_truncated(record: JsonObject) -> bool:
    """Whether a record, a reply or its choice says that a limit cut the response off."""
    if _ENDS.isdisjoint(record):
        return False
    reasons = list(map(record.get, _STOP_FIELDS))
    reasons += [field_at(record, path) for path in _NESTED_STOPS]
    if any(isinstance(reason, str) and reason.lower() in _CUT_OFF for reason in reasons):
        return True
    is_slime = "remove_sample" in record and record.get("status") == "truncated"
    return is_slime or record.get("truncated") is True or record.get("is_truncated") is True


def identifier(value: object) -> str | None:
    """Return a text or an integer as a name; None for anything else and for an empty text."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return str(value) or None


def integer(value: object) -> int | None:
    """Return an integer of at most 62 bits; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62:
        return value
    return None


def list_at(record: JsonObject, name: str) -> list[Any]:
    """Return a field that must be a non-empty list."""
    value = record.get(name)
    if not isinstance(value, list) or not value:
        raise UnreadableRecordError(f"{name} is empty or missing, expected a list")
    return value


def _count(value: object) -> int:
    number = integer(value)
    return number if number is not None and 0 <= number < 2**31 else 0


def _is_masked(mask: object) -> bool:
    """Whether a loss mask is all zero: a number, or lists of numbers that are not empty."""
    if isinstance(mask, list):
        return bool(mask) and all(_is_masked(each) for each in mask)
    return isinstance(mask, (int, float)) and not mask
