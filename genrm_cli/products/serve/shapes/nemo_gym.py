"""NeMo Gym's resources server, whose `/verify` waits for the cohort of its row, and its
`genrm_compare`.

Source: NVIDIA-NeMo/Gym `nemo_gym/base_resources_server.py`, `nemo_gym/judge.py`,
`nemo_gym/reward_profile.py`, `resources_servers/genrm_compare/app.py` (its cohorts of a group's
attempt: pull request 2814); what NeMo RL reads of a
row: NVIDIA-NeMo/RL 7ea279ab, `nemo_rl/experience/rollouts.py` and
`nemo_rl/environments/nemo_gym.py`."""

import math
import statistics
from collections.abc import Sequence

from msgspec.structs import replace

from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.http_server.gym_rows import aggregate, masked
from genrm_cli.http_server.http_replies import JsonReply
from genrm_cli.jobs.compare_request import compare_reply, parse_request
from genrm_cli.json_types import Record
from genrm_cli.products.serve.cohorts.cohort import Member
from genrm_cli.products.serve.served_answers import GroupAnswer
from genrm_cli.products.serve.shapes.call import (
    Call,
    Handler,
    NoRewardError,
    Route,
    digest_of,
    member_of,
    shown_of,
)
from genrm_cli.rollouts.formats.nemo_gym_lines import unmasked
from genrm_cli.rollouts.group_keys import digest_of_prompt, group_key
from genrm_cli.rollouts.gym_view import refuse_as_gym, refuse_unanswered
from genrm_cli.rollouts.reading.record_fields import UNSCORED_MARK
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.verdicts import Reason


async def _verify(call: Call) -> JsonReply:
    row = call.take_json()
    if call.service.plan.shows_as_gym:
        refuse_as_gym(row)
        refuse_unanswered(row)
    member = member_of("", row, call.service.plan, "nemo_gym")
    rollout = member.rollout
    # A task index is used for other prompts, too, as in validation.
    group = f"{group_key(rollout, 1)} {digest_of_prompt(rollout.prompt):016x}"
    attempt = rollout.group_attempt
    given = row.get("_ng_group_attempt")
    if given not in (None, attempt):
        raise UnreadableRecordError(
            f"_ng_group_attempt is {given!r}, expected an integer of 0 or more"
        )
    if rollout.index is not None:
        member = replace(member, id=str(rollout.index))
    if call.evaluates(row.get("genrm_as")):
        answer = await call.service.evaluate(group, [member])
        return JsonReply(_verified(row, answer.rewards.scores[0], answer, call))
    size = call.cohort_size_of(row.get("cohort_size"))
    name = f"{group} attempt {attempt}"
    is_of_step = (rollout.task or "").startswith("group:")  # of one prompt and step
    if rollout.index is not None and is_of_step:
        answer = await call.service.join(name, size, member)
        score = answer.score_of(member.id)
        return JsonReply(_verified(row, score, answer, call))
    score, answer = await call.rounds.join(
        name, size, member, call.is_gone, is_named=rollout.index is not None
    )
    row = _verified(row, score, answer, call)
    if answer.counts.earlier:  # those may be of another epoch
        row = masked(row, row["failure_reason"], row["reward"])
    return JsonReply(row)


def _verified(row: Record, score: ScoredLine, answer: GroupAnswer, call: Call) -> Record:
    """Return a row with its reward, or masked and with a placeholder.

    Masked rows may count in the baseline of their group, so the placeholder is the mean of the
    group's rewards (0 if there are none)."""
    rewards = call.service.plan.rewards
    why = score.reason_text or answer.counts.shortfall
    try:
        reward = call.number_of(score, answer)
        row = unmasked(row) | {"reward": reward, "failure_reason": why}
        counted = [] if score.reward is None else [score]
    except NoRewardError as error:
        counted = [each for each in answer.rewards.scores if each.reward is not None]
        row = masked(
            row,
            score.reason_text,
            statistics.fmean(each.reward or 0.0 for each in counted or [score]),
        )
        if score.reason is not None and not score.reason.is_exclusion:
            row[UNSCORED_MARK] = score.reason  # `genrm score` judges the row again
        missing = (
            score.total.missing[:1]
            if score.total and score.reason is Reason.COMPONENT_MISSING
            else ()
        )
        if score.reason is Reason.INCOMPLETE or any(
            rewards.sources[name] == "judge" for name in missing
        ):
            row |= {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": str(error)}
    parts = [_components_of(each) for each in counted if each.total is not None]
    if parts:
        names = sorted({name for part in parts for name in part})
        row["reward_components"] = {
            name: statistics.fmean(part.get(name, 0.0) for part in parts) for name in names
        }
    return row


def _components_of(score: ScoredLine) -> dict[str, float]:
    """Return the weighted components of a reward; `limits` is what gates change, as they must
    add up.
    """
    parts = {} if score.total is None else dict(score.total.terms)
    limits = (score.reward or 0.0) - math.fsum(parts.values())
    return parts if math.isclose(limits, 0, abs_tol=1e-9) else parts | {"limits": limits}


async def _seed_session(call: Call) -> JsonReply:
    given = call.take_json() if call.body.strip() else {}
    session = given.get("resources_session_id")
    return JsonReply({} if session is None else {"resources_session_id": session})


async def _aggregate_metrics(call: Call) -> JsonReply:
    return JsonReply(aggregate(call.take_json()))


def _always(content: object) -> Handler:
    async def reply(call: Call) -> JsonReply:
        del call
        return JsonReply(content)

    return reply


async def _compare(call: Call) -> JsonReply:
    body = call.body
    record = call.take_json()
    plan = call.service.plan
    group = parse_request(body, "the request", plan)
    if not group.rollouts:
        return JsonReply({"rewards": [], "comparison_results": None, "metrics": None})
    name = digest_of(record).hex()[:32]
    if plan.shows_as_gym:
        pairs = enumerate(zip(group.rollouts, group.records, strict=True))
        members = [
            Member.of(str(place), line, shown_of(line), rollout) for place, (rollout, line) in pairs
        ]
    else:
        lines = _lines(record, name, plan.chosen_fields)
        members = [member_of(str(place), line, plan) for place, line in enumerate(lines)]
    answer = await call.service.judge(name, members)
    rewards = [call.number_of(score, answer) for score in answer.rewards.scores]
    return JsonReply(compare_reply(answer.rewards, rewards))


def _lines(record: Record, name: str, chosen_fields: Sequence[str]) -> list[Record]:
    """Return the responses of a compare request as lines; a message without a role is the
    user's.
    """
    kept = {
        "principle",
        *(path.partition(".")[0] for path in chosen_fields),
    }
    history = record.get("conversation_history")
    if isinstance(history, list) and all(isinstance(message, dict) for message in history):
        history = [{"role": "user", **message} for message in history]
    rest = {field: value for field, value in record.items() if field in kept and value is not None}
    return [
        {"prompt": history, "completion": response, "prompt_id": name, **rest}
        for response in record["response_objs"]
    ]


ROUTES: Sequence[Route] = (
    ("POST", "/verify", _verify),
    ("POST", "/seed_session", _seed_session),
    ("POST", "/aggregate_metrics", _aggregate_metrics),
    ("GET", "/reverify_mode", _always("unsupported")),  # a reward depends on the whole cohort
    ("GET", "/", _always({"status": "ok"})),
    ("POST", "/compare", _compare),
)
