"""NeMo Gym's resources server, whose `/verify` waits for the cohort of its row, and its `genrm_compare`.

Source: NVIDIA-NeMo/Gym `nemo_gym/base_resources_server.py`, `nemo_gym/judge.py`, `nemo_gym/reward_profile.py`,
`resources_servers/genrm_compare/app.py`.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.compare_request import compare_reply, parse_request
from genrm_cli.rollouts.group_keys import digest_of_prompt, group_key
from genrm_cli.rollouts.gym_view import refuse_as_gym, refuse_unanswered
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.json_form import Json
from genrm_cli.serve.cohort import Member
from genrm_cli.serve.shapes.call import (
    Call,
    JsonReply,
    NoRewardError,
    Route,
    cohort_size_of,
    digest_of,
    member_of,
    number_of,
)
from genrm_cli.storage.encoding.records import parse_record

_TASK = "_ng_task_index"


async def _verify(call: Call) -> JsonReply:
    row = parse_record(call.take_body())
    if call.service.plan.shows_as_gym:
        refuse_as_gym(row)
        refuse_unanswered(row)
    member = member_of("", row, call.service.plan, "nemo_gym")
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
        return JsonReply(row | _judge_error(str(error)))
    return JsonReply(row | {"reward": reward})


def _judge_error(message: str) -> Json:
    """Return the fields that NeMo Gym adds when a judge fails: the row goes to its failures, without a reward."""
    return {
        "reward": 0.0,
        "mask_sample": True,
        "failure_reason": message,
        "_ng_failure_class": "judge_failed",
        "_ng_failure_judge_error": message,
    }


async def _seed_session(call: Call) -> JsonReply:
    given = parse_record(call.take_body()) if call.body.strip() else {}
    session = given.get("resources_session_id")
    return JsonReply({} if session is None else {"resources_session_id": session})


async def _aggregate_metrics(call: Call) -> JsonReply:
    return JsonReply(aggregate(parse_record(call.take_body())))


def aggregate(body: Json) -> Json:
    """Return NeMo Gym's metrics of verified rows.

    Raises:
        UnreadableRecordError: `verify_responses` is not a list of rows.
    """
    rows = body.get("verify_responses")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableRecordError("verify_responses is not a list of objects")
    tasks: dict[object, list[Json]] = defaultdict(list)
    for row in rows:
        tasks[row.get(_TASK)].append(row)
    overall = _profile(rows)
    return {
        "group_level_metrics": [{_TASK: task, **_profile(rows_of_task)} for task, rows_of_task in tasks.items()],
        "agent_metrics": overall,
        "key_metrics": {name: value for name, value in overall.items() if name.startswith("mean/")},
    }


def _profile(rows: Sequence[Json]) -> dict[str, float]:
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


async def _reverify_mode(call: Call) -> JsonReply:
    del call
    return JsonReply("unsupported")  # a reward depends on the whole cohort


async def _alive(call: Call) -> JsonReply:
    del call
    return JsonReply({"status": "ok"})


async def _compare(call: Call) -> JsonReply:
    body = call.take_body()
    record = parse_record(body)
    plan = call.service.plan
    group = parse_request(body, "the request", plan)
    if not group.rollouts:
        return JsonReply({"rewards": [], "comparison_results": None, "metrics": None})
    name = digest_of(record).hex()[:32]
    if plan.shows_as_gym:
        pairs = enumerate(zip(group.rollouts, group.records, strict=True))
        members = [Member.of(str(place), line, rollout, digest_of(line)) for place, (rollout, line) in pairs]
    else:
        lines = _lines(record, name, plan)
        members = [member_of(str(place), line, plan) for place, line in enumerate(lines)]
    answer = await call.service.judge(name, members)
    rewards = [number_of(score, answer, call) for score in answer.rewards.scores]
    return JsonReply(compare_reply(answer.rewards, rewards))


def _lines(record: Json, name: str, plan: GroupPlan) -> list[Json]:
    """Return the responses of a compare request as lines; a message without a role is the user's."""
    kept = {"principle", *((path or "").partition(".")[0] for path in (plan.reference_field, plan.rubric_field))}
    history = [{"role": "user", **message} for message in record["conversation_history"]]
    rest = {field: value for field, value in record.items() if field in kept and value is not None}
    return [
        {"prompt": history, "completion": response, "prompt_id": name, **rest} for response in record["response_objs"]
    ]


ROUTES = (
    Route("POST", "/verify", _verify),
    Route("POST", "/seed_session", _seed_session),
    Route("POST", "/aggregate_metrics", _aggregate_metrics),
    Route("GET", "/reverify_mode", _reverify_mode),
    Route("GET", "/", _alive),
    Route("POST", "/v1/compare", _compare),
    Route("POST", "/compare", _compare),
)
