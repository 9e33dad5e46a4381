"""The endpoints of a NeMo Gym resources server; `/verify` waits for the cohort of its row.

Source: NVIDIA-NeMo/Gym `nemo_gym/base_resources_server.py`, `nemo_gym/judge.py`, `nemo_gym/reward_profile.py`.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from genrm_cli.rollouts.grouping import digest_of_prompt, group_key
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.serve.shapes.call import Call, Json, NoRewardError, Reply, Route, Shape
from genrm_cli.serve.shapes.fields import cohort_size_of, member_of, parse_body
from genrm_cli.serve.shapes.numbers import number_of

_TASK = "_ng_task_index"


async def _verify(call: Call) -> Reply:
    row = parse_body(call.take_body())
    member = member_of("", row, "nemo_gym")
    index = member.rollout.index
    if index is not None:
        member = replace(member, id=str(index))
    # A task index is used for other prompts, too, as in validation.
    name = f"{group_key(member.rollout, 1)} {digest_of_prompt(member.rollout.prompt):016x}"
    size = cohort_size_of(row.get("cohort_size"), call)
    score, answer = await call.rounds.join(name, size, member, call.is_gone, is_named=index is not None)
    try:
        reward = number_of(score, answer, call)
    except NoRewardError as error:
        return Reply(row | _judge_error(str(error)))
    return Reply(row | {"reward": reward})


def _judge_error(message: str) -> Json:
    """Return what NeMo Gym's own servers add where a judge failed: the row goes to its failures, without a reward."""
    return {
        "reward": 0.0,
        "mask_sample": True,
        "failure_reason": message,
        "_ng_failure_class": "judge_failed",
        "_ng_failure_judge_error": message,
    }


async def _seed_session(call: Call) -> Reply:
    given = parse_body(call.take_body()) if call.body.strip() else {}
    session = given.get("resources_session_id")
    return Reply({} if session is None else {"resources_session_id": session})


async def _aggregate_metrics(call: Call) -> Reply:
    return Reply(aggregate(parse_body(call.take_body())))


def aggregate(body: Json) -> Json:
    """Return NeMo Gym's metrics of verified rows.

    Raises:
        UnreadableRecordError: `verify_responses` is not a list of rows.
    """
    rows = body.get("verify_responses")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableRecordError("verify_responses is not a list of objects")
    tasks: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        tasks[row.get(_TASK)].append(row)
    overall = _profile(rows)
    return {
        "group_level_metrics": [{_TASK: task, **_profile(rows_of_task)} for task, rows_of_task in tasks.items()],
        "agent_metrics": overall,
        "key_metrics": {name: value for name, value in overall.items() if name.startswith("mean/")},
    }


def _profile(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return NeMo Gym's baseline statistics of the rewards, rows whose judge failed left out."""
    counted = [row for row in rows if not row.get("_ng_failure_class") and not row.get("mask_sample")]
    rewards = [row["reward"] for row in counted if isinstance(row.get("reward"), int | float)]
    if not rewards:
        return {}
    return {
        "mean/reward": statistics.fmean(rewards),
        "max/reward": max(rewards),
        "min/reward": min(rewards),
        "median/reward": statistics.median(rewards),
        "std/reward": statistics.stdev(rewards) if len(rewards) > 1 else 0.0,
    }


async def _reverify_mode(call: Call) -> Reply:
    del call
    return Reply("unsupported")  # a reward depends on the whole cohort


async def _alive(call: Call) -> Reply:
    del call
    return Reply({"status": "ok"})


SHAPE = Shape(
    "nemo-gym",
    (
        Route("POST", "/verify", _verify),
        Route("POST", "/seed_session", _seed_session),
        Route("POST", "/aggregate_metrics", _aggregate_metrics),
        Route("GET", "/reverify_mode", _reverify_mode),
        Route("GET", "/", _alive),
    ),
)
