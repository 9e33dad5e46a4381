"""rLLM's episode files: one JSON object per episode, one rollout for each of its `trajectories`.

Source: rllm-org/rllm `rllm/utils/episode_logger.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import (
    ANSWERED,
    ANSWERED_TOO,
    ASKED,
    Fields,
    Format,
    Score,
    annotate_list,
    own_of_lists,
)
from genrm_cli.rollouts.formats.shapes import read_trajectory
from genrm_cli.rollouts.reading.record_fields import excluded_of, identifier, list_at
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

_CUT_OFF = ("max_", "timeout", "truncat")  # prefixes of termination reasons that are limits


def _recognise(record: Record) -> bool:
    return isinstance(record.get("trajectories"), list) and ("task_hash" in record or "termination_reason" in record)


def _read(record: Record) -> list[Rollout]:
    return [_read_trajectory(record, trajectory) for trajectory in list_at(record, "trajectories")]


def _read_trajectory(record: Record, trajectory: object) -> Rollout:
    messages = _messages_of(trajectory)
    reason = str(record.get("termination_reason") or "").lower()
    name = identifier(record.get("task_hash"))
    failed = "failed (error)" if reason == "error" else None
    return read_trajectory(
        record,
        messages,
        task=None if name is None else f"task:{name}",
        is_truncated=reason.startswith(_CUT_OFF),
        excluded=excluded_of(record) or failed,
    )


def _messages_of(trajectory: object) -> list[Any]:
    """Return the messages of the last step that has any: those of each step begin with those of earlier steps."""
    steps = trajectory.get("steps") if isinstance(trajectory, Mapping) else None
    if not isinstance(steps, list):
        raise UnreadableRecordError("a trajectory has no steps, expected a list")
    logs = [step.get("chat_completions") for step in steps if isinstance(step, Mapping)]
    return next((log for log in reversed(logs) if isinstance(log, list) and log), [])


def annotate_trajectories(record: Record, scores: Sequence[Score]) -> None:
    """Set each trajectory's reward, and `rewards` of the episode."""
    trajectories = [dict(trajectory) for trajectory in record["trajectories"]]
    before = [trajectory.get("reward") for trajectory in trajectories]
    for trajectory, score in zip(trajectories, scores, strict=True):
        trajectory["reward"] = score.reward
    record["trajectories"] = trajectories
    annotate_list(record, scores)
    record["genrm"]["previous_trajectory_rewards"] = before


FORMAT = Format(
    "rllm",
    _recognise,
    _read,
    annotate_trajectories,
    own_of_lists(("rewards",), ("trajectories",)),
    fields=Fields(
        prompt=("trajectories",), response=("trajectories",), metadata=("task_hash", "termination_reason", "rewards")
    ),
    owns_line=True,
    example={
        "task_hash": "river",
        "trajectories": [{"steps": [{"chat_completions": [ASKED, message]}]} for message in (ANSWERED, ANSWERED_TOO)],
    },
)
