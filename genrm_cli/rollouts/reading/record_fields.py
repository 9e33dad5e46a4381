"""Read record fields that several formats share: names, attempts, principle, exclusion,
truncation.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.chat_messages import REASONING
from genrm_cli.rollouts.rollout import Item, Media, Rollout, Turn, UnreadableRecordError

# Looked up in this order; the first field with a value names the task.
_TASK_FIELDS = (
    ("_ng_group_id", "group"),
    ("_ng_task_index", "task"),
    ("task_index", "task"),
    ("task_idx", "task"),  # NeMo Gym's aviary server
    ("prompt_id", "prompt_id"),
    ("example_id", "example"),
)
_INDEX_FIELDS = ("_ng_rollout_index", "rollout_index", "episode_index")
_WITH_TOOLS = ("responses_create_params", "request", "response")
_MEDIA_FIELDS = (
    "image",
    "images",
    "video",
    "videos",
    "audio",
    "audios",
)  # of the prompt, beside its text
_CUT_OFF = frozenset(
    (
        "length",
        "max_tokens",
        "max_output_tokens",
        "max_length",
        "model_length",
        "token_limit",
        "max_seq_len",
    )
)


def rollout_of(
    record: JsonObject, prompt: tuple[Turn, ...], response: tuple[Item, ...] | None, **known: Any
) -> Rollout:
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
        "is_truncated": "is_truncated" not in known and is_truncated(record),
        "excluded": excluded_of(record),
    }
    media = tuple(
        Media(name.removesuffix("s"))
        for name in _MEDIA_FIELDS
        if (held := record.get(name)) and isinstance(held, list | dict)
    )
    return Rollout(
        tuple(turn for turn in prompt if turn.role != REASONING),
        response,
        **(said | known | {"prompt_media": (*known.get("prompt_media", ()), *media)}),
    )


def task_of(record: JsonObject) -> str | None:
    """Return the name of the group in the line: group id, task index, prompt id, or else example or
    scenario id.
    """
    for name, kind in _TASK_FIELDS:
        if (value := identifier(record.get(name))) is not None:
            return f"{kind}:{value}"
    scenario = record.get("scenario")
    if (
        isinstance(scenario, dict)
        and (value := identifier(scenario.get("scenario_id"))) is not None
    ):
        return f"scenario:{value}"
    return None


def index_of(record: JsonObject) -> int | None:
    """Return the index of the rollout in its group; None if the line has none."""
    return next(
        (value for name in _INDEX_FIELDS if (value := integer(record.get(name))) is not None), None
    )


def principle_of(record: JsonObject) -> str | None:
    """Return the line's principle; several become a numbered list."""
    principle = record.get("principle")
    if isinstance(principle, list):
        lines = [
            f"{number}. {text}" for number, text in enumerate(principle, 1) if isinstance(text, str)
        ]
        return "\n".join(lines) or None
    return principle if isinstance(principle, str) and principle.strip() else None


def tools_of(record: JsonObject) -> tuple[str, ...]:
    """Return the tools of a line, a list or its JSON text; definitions of the Responses API are
    nested.
    """
    for holder in (record, *(record.get(name) for name in _WITH_TOOLS)):
        value = holder.get("tools") if isinstance(holder, dict) else None
        if isinstance(value, str) and value.startswith("["):
            with suppress(ValueError, RecursionError):
                value = json.loads(value)
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            return tuple(json.dumps(_nested(each), ensure_ascii=False) for each in value)
    return ()


def _nested(tool: JsonObject) -> JsonObject:
    if tool.get("type", "function") != "function" or isinstance(tool.get("function"), dict):
        return tool
    return {
        "type": "function",
        "function": {name: value for name, value in tool.items() if name != "type"},
    }


def excluded_of(record: JsonObject) -> str | None:
    """Return why a rollout must not be compared according to its writer: it is masked, or it
    failed.
    """
    settings = record.get("instance_config")
    nested = isinstance(settings, dict) and settings.get("mask_sample") is True
    if record.get("mask_sample") is True or nested:
        return "masked (mask_sample)"
    if _is_masked(record.get("sample_loss_mask")):
        return "masked (sample_loss_mask)"
    if failure := record.get("_ng_failure_class"):
        return f"failed ({identifier(failure) or 'unknown'})"
    if _is_slime(record) and (
        record["remove_sample"] is True or record.get("status") in ("aborted", "failed")
    ):
        return (
            "masked (remove_sample)"
            if record["remove_sample"] is True
            else f"failed (status {record['status']})"
        )
    if "example_id" in record and (
        failure := failure_of(record.get("error"))
    ):  # verifiers, tinker-cookbook
        return failure
    return "failed (ok is false)" if record.get("ok") is False else None


def _is_slime(record: JsonObject) -> bool:
    """Whether it is a slime Sample, whose `status` is that of its generation."""
    return "remove_sample" in record and "status" in record


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
    """Whether a record, a choice or a Responses API object says that a limit cut the response
    off.
    """
    details = record.get("incomplete_details")
    inner = details.get("reason") if isinstance(details, dict) else None
    for reason in (record.get("finish_reason"), record.get("stop_reason"), inner):
        if isinstance(reason, str) and reason.lower() in _CUT_OFF:
            return True
    cut_off = _is_slime(record) and record["status"] == "truncated"
    return cut_off or record.get("truncated") is True or record.get("is_truncated") is True


def identifier(value: object) -> str | None:
    """Return a text or an integer as a name; None for anything else and for an empty text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def integer(value: object) -> int | None:
    """Return an integer of at most 62 bits; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62:
        return value
    return None


def first_of(record: JsonObject, names: Sequence[str]) -> Any:
    """Return the value of the first of these fields that exists; one must."""
    for name in names:
        if name in record:
            return record[name]
    raise UnreadableRecordError(f"none of the expected fields {', '.join(names)}")


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
    return isinstance(mask, int | float) and not mask
