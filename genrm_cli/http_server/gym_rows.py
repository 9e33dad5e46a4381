"""Rows as NeMo Gym's resources servers return them, and the metrics of many.

Source: NVIDIA-NeMo/Gym `nemo_gym/base_resources_server.py`, `nemo_gym/reward_profile.py`."""

import statistics
from collections import defaultdict
from collections.abc import Sequence

from genrm_cli.json_types import Record
from genrm_cli.rollouts.rollout import UnreadableRecordError

_TASK = "_ng_task_index"
_MOST = 1e100  # of a reward: sums and squares of those below it are finite


def masked(row: Record, reason: str | None, reward: float = 0.0) -> Record:
    """Return a row without a reward, marked where NeMo Gym and NeMo RL look; the number is a
    placeholder.
    """
    config = row.get("instance_config")
    nested = {**(config if isinstance(config, dict) else {}), "mask_sample": True}
    return row | {
        "reward": reward,
        "mask_sample": True,
        "instance_config": nested,
        "failure_reason": reason,
    }


def aggregate(body: Record) -> Record:
    """Return NeMo Gym's metrics of verified rows."""
    rows = body.get("verify_responses")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableRecordError("verify_responses is not a list of objects")
    tasks: dict[object, list[Record]] = defaultdict(list)
    for row in rows:
        task = row.get(_TASK)
        if not isinstance(task, int | str | None):
            raise UnreadableRecordError(f"{_TASK} is neither a number nor a text")
        tasks[task].append(row)
    overall = _profile(rows)
    return {
        "group_level_metrics": [
            {_TASK: task, **_profile(rows_of_task)} for task, rows_of_task in tasks.items()
        ],
        "agent_metrics": overall,
        "key_metrics": {name: value for name, value in overall.items() if name.startswith("mean/")},
    }


def _profile(rows: Sequence[Record]) -> dict[str, float]:
    """Return NeMo Gym's baseline statistics of the rewards, rows whose judge failed left out."""
    counted = [
        row for row in rows if not row.get("_ng_failure_class") and not row.get("mask_sample")
    ]
    given = [row["reward"] for row in counted if isinstance(row.get("reward"), (int, float))]
    rewards = [float(reward) for reward in given if abs(reward) < _MOST]
    if not rewards:
        return {}
    return {
        "mean/reward": statistics.fmean(rewards),
        "max/reward": max(rewards),
        "min/reward": min(rewards),
        "median/reward": statistics.median(rewards),
        "std/reward": statistics.stdev(rewards) if len(rewards) > 1 else 0.0,
    }
