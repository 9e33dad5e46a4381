"""The formats of trainers whose lines hold batches or groups of rollouts."""

from collections.abc import Sequence
from typing import Any

from genrm_cli.errors import counted
from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import Format
from genrm_cli.rollouts.formats.shapes import read_completion, read_conversation
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.record_fields import excluded_of, identifier, list_at
from genrm_cli.rollouts.reading.values import (
    list_or_empty,
    object_or_empty,
    objects_in,
    words,
)
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

_COLUMNS = Fields(
    prompt=("prompt", "prompts"),
    response=words("responses completion completions outputs generations"),
    metadata=("scores", "messages"),  # ROLL has the messages that its prompts were rendered from
)
_CUT_OFF = ("max_", "timeout", "truncat")  # prefixes of termination reasons that are limits


def _column(record: Record, names: Sequence[str]) -> tuple[str, list[Any]]:
    """Return the first of these fields that is a list of texts or of lists, with its name; empty if
    there is none.
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, list) and not any(isinstance(each, dict) for each in value):
            return name, value
    return "", []


def _is_columns(record: Record) -> bool:
    _, prompts = _column(record, _COLUMNS.prompt)
    if not prompts:
        return False
    _, responses = _column(record, _COLUMNS.response)
    if len(prompts) != len(responses):
        return False
    # Lists of texts alone may be the turns of one conversation: a batch has another column.
    named = (*_COLUMNS.prompt, *_COLUMNS.response)
    others = (value for name, value in record.items() if name not in named)
    is_batch = any(isinstance(value, list) and len(value) == len(prompts) for value in others)
    return is_batch or len(prompts) == 1 or any(map(_is_nested, responses))


def _is_nested(response: object) -> bool:
    return isinstance(response, list) and all(isinstance(each, (str, list)) for each in response)


def _rows_of_columns(record: Record) -> list[Record]:
    """Return the row of each rollout: every list as long as the column of prompts is a column, and
    a response may be a list of alternatives.
    """
    _, prompts = _column(record, _COLUMNS.prompt)
    name, responses = _column(record, _COLUMNS.response)
    if not prompts or len(prompts) != len(responses):
        found = f"{counted(len(prompts), 'prompt')} but {counted(len(responses), 'response')}"
        raise UnreadableRecordError(f"{found}, expected equal numbers")
    rows = []
    for at, response in enumerate(responses):
        row = {
            each: value[at] if isinstance(value, list) and len(value) == len(prompts) else value
            for each, value in record.items()
        }
        rows += [{**row, name: each} for each in (response if _is_nested(response) else [response])]
    return rows


def _read_columns(record: Record) -> list[Rollout]:
    rows = _rows_of_columns(record)
    if not rows:
        raise UnreadableRecordError("the lists of responses are empty")
    prompt, _ = _column(record, _COLUMNS.prompt)
    response, _ = _column(record, _COLUMNS.response)
    return [read_completion(row, row[prompt], row[response]) for row in rows]


def _read_atropos(record: Record) -> list[Rollout]:
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UnreadableRecordError(
            "an Atropos group without messages, expected texts: set include_messages in the "
            "environment"
        )
    return [
        read_conversation(record, each, line_is_group=True, task=None, index=None)
        for each in messages
    ]


def _trajectories(record: Record) -> list[Any]:
    return list_at(record, "trajectories") if "trajectories" in record else [record]


# rLLM


def _is_rllm(record: Record) -> bool:
    names = {"task_hash", "termination_reason"}
    return isinstance(record.get("trajectories"), list) and not names.isdisjoint(record)


def _read_rllm(record: Record) -> list[Rollout]:
    reason = str(record.get("termination_reason") or "").lower()
    name = identifier(record.get("task_hash"))
    known = {
        "task": None if name is None else f"task:{name}",
        "is_truncated": reason.startswith(_CUT_OFF),
        "excluded": excluded_of(record) or ("failed (error)" if reason == "error" else None),
    }
    return [
        read_conversation(record, _messages_of_steps(each), "policy", **known)
        for each in _trajectories(record)
    ]


def _messages_of_steps(trajectory: object) -> list[Any]:
    """Return the messages of the last step that has any: those of each step begin with those of
    earlier steps.
    """
    steps = object_or_empty(trajectory).get("steps")
    if not isinstance(steps, list):
        raise UnreadableRecordError("a trajectory has no steps, expected a list")
    logs = [step.get("chat_completions") for step in objects_in(steps)]
    return next((log for log in reversed(logs) if isinstance(log, list) and log), [])


# ART


def _is_art(record: Record) -> bool:
    steps = record.get("messages_and_choices")
    if isinstance(steps, list):
        return any("message" in step for step in objects_in(steps))
    trajectories = list_or_empty(record.get("trajectories"))
    return bool(trajectories) and all(
        "messages_and_choices" in object_or_empty(each) for each in trajectories
    )


def _read_trajectory(record: Record, trajectory: object) -> Rollout:
    """Read a trajectory: the policy's part begins with its first choice; assistant messages before
    it are context.
    """
    steps = object_or_empty(trajectory).get("messages_and_choices")
    if not isinstance(steps, list):
        raise UnreadableRecordError("a trajectory has no messages_and_choices, expected a list")
    is_choice = ["message" in object_or_empty(step) for step in steps]
    first = is_choice.index(True) if True in is_choice else len(steps)
    messages = [
        step["message"] if chosen else step for step, chosen in zip(steps, is_choice, strict=True)
    ]
    reason = steps[-1].get("finish_reason") if any(is_choice[-1:]) else None
    return read_conversation(record, messages, first, is_truncated=reason == "length")


GROUP_FORMATS = (
    # Source: rllm-org/rllm `rllm/utils/episode_logger.py`.
    Format(
        "rllm",
        _is_rllm,
        _read_rllm,
        rows=_trajectories,
        fields=Fields(prompt=("trajectories",), response=("trajectories",)),
        owns_line=True,
    ),
    # Source: OpenPipe/ART `src/art/utils/trajectory_logging.py`.
    Format(
        "art",
        _is_art,
        lambda record: [_read_trajectory(record, each) for each in _trajectories(record)],
        rows=lambda record: list_or_empty(record.get("trajectories")),
        fields=Fields(
            prompt=("trajectories", "messages_and_choices"),
            response=("trajectories", "messages_and_choices"),
        ),
        owns_line=True,
    ),
    # Groups have messages only if the environment includes them.
    # Source: NousResearch/atropos `atroposlib/envs/base.py`.
    Format(
        "atropos",
        lambda record: (
            isinstance(record.get("scores"), list) and "tokens" in record and "masks" in record
        ),
        _read_atropos,
        rows=lambda record: list_or_empty(record.get("messages")),
        fields=Fields(prompt=("messages",), response=("messages",)),
        owns_line=True,
        restating=("scores",),
    ),
    # `rollout_dump_data.step_N.jsonl` of ROLL and `completions.jsonl` of ms-swift. Source:
    # alibaba/ROLL `roll/pipeline/rlvr/utils.py`, modelscope/ms-swift
    # `swift/rlhf_trainers/grpo_trainer.py`.
    Format(
        "columns",
        _is_columns,
        _read_columns,
        rows=_rows_of_columns,
        fields=_COLUMNS,
        restating=("scores",),
    ),
)
