"""The endpoints of our own: all responses to one prompt in one request, or one response that waits
for its cohort.
"""

from collections.abc import Sequence
from urllib.parse import unquote

from msgspec import to_builtins

from genrm_cli.groups.line_records import ComparisonRecord, ScoredLine
from genrm_cli.http_server.http_replies import JsonReply
from genrm_cli.json_types import Record
from genrm_cli.products.serve.served_answers import GroupAnswer
from genrm_cli.products.serve.shapes.call import (
    MAX_SIZE,
    Call,
    Route,
    deadline_of,
    digest_of,
    identifier_of,
    rollout_of,
    size_of,
)
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.json_form import to_json
from genrm_cli.settings.checks import first_repeated

# What replies say of a response and of a comparison; the rest names them for readers of files.
_OF_RESPONSE = (
    *("reward", "status", "reason", "reason_text", "base_score", "standard_error", "rank"),
    *("advantage", "comparisons", "failed", "components", "shortened"),
)
_OF_COMPARISON = (
    *("score_1", "score_2", "ranking", "failure", "attempts", "latency_s", "prompt_tokens"),
    *("completion_tokens", "grades"),
)
_COHORTS = "/v1/cohorts/"
_MEMBERS = "/members/"
_MEMBER_PATH = f"{_COHORTS}{{group_id:any}}{_MEMBERS}{{member_id:any}}"


async def _judge(call: Call) -> JsonReply:
    body = call.take_json()
    responses = body.get("responses")
    if not isinstance(responses, list) or not 1 <= len(responses) <= MAX_SIZE:
        raise UnreadableRecordError(f"responses is not a list of 1 to {MAX_SIZE} responses")
    responses = [{"text": each} if isinstance(each, str) else each for each in responses]
    if not all(isinstance(response, dict) for response in responses):
        raise UnreadableRecordError("a response is no text, nor an object with text or item")
    name = body.get("id")
    # No part of the content: a client that asks again may wait for another time.
    deadline_s = deadline_of(body.pop("deadline_s", None))
    if name is None:
        name = digest_of(body).hex()[:32]
    name = identifier_of(name, "id")
    ids = [
        identifier_of(each.get("id", place), "id of a response")
        for place, each in enumerate(responses)
    ]
    twice = first_repeated(ids)
    if twice is not None:
        raise UnreadableRecordError(f"two responses have the id {twice!r}")
    service = call.service
    members = [
        rollout_of(id_, name, body, response, service.plan)
        for id_, response in zip(ids, responses, strict=True)
    ]
    judge = service.evaluate if call.evaluates(body.get("as")) else service.judge
    answer = await judge(name, members, deadline_s)
    scores = [answer.score_of(id_) for id_ in ids]
    content: Record = {
        "id": name,
        "status": answer.counts.status,
        "rewards": [score.reward for score in scores],
        "responses": [_response_record(id_, score) for id_, score in zip(ids, scores, strict=True)],
        "comparisons": [_comparison_record(each, answer) for each in answer.rewards.comparisons],
        "metrics": to_builtins(answer.counts),
    }
    return JsonReply(content)


async def _join(call: Call) -> JsonReply:
    body = call.take_json()
    name, member_id = _ids_in(call.path)
    size = size_of(body.get("size"))
    service = call.service
    rollout = rollout_of(member_id, name, body, body, service.plan)
    joining = (
        service.evaluate(name, [rollout])
        if call.evaluates(body.get("as"))
        else service.join(name, size, rollout)
    )
    del body, rollout  # the cohort has what it needs of them
    answer = await joining
    content: Record = {
        "group_id": name,
        "group_status": answer.counts.status,
        **_response_record(member_id, answer.score_of(member_id)),
        "members": list(answer.ids),
        "metrics": to_builtins(answer.counts),
    }
    return JsonReply(content)


async def _delete(call: Call) -> JsonReply:
    """A cohort whose step was cancelled, or a member that will not come: its generation was
    aborted, say.
    """
    # An id may hold anything, percent-encoded: the path that was decoded does not tell them apart.
    if _MEMBERS not in call.path:
        name = _id_in(call.path.removeprefix(_COHORTS), "the group id")
        return JsonReply({"group_id": name, "forgotten": call.service.forget(name)})
    name, member_id = _ids_in(call.path)
    size = call.cohort_size_of(None)
    is_absent = call.service.leave_out(name, size, member_id)
    return JsonReply({"group_id": name, "id": member_id, "absent": is_absent})


def _ids_in(path: str) -> tuple[str, str]:
    group, _, member = path.removeprefix(_COHORTS).rpartition(_MEMBERS)
    return _id_in(group, "the group id"), _id_in(member, "the member id")


def _id_in(quoted: str, name: str) -> str:
    """Return an id in a path; raise `UnreadableRecordError` if it is not one, or not UTF-8."""
    try:
        return identifier_of(unquote(quoted, errors="strict"), name)
    except UnicodeDecodeError:  # replaced bytes would give two ids one name
        raise UnreadableRecordError(f"{name} is not UTF-8") from None


def _response_record(id_: str, score: ScoredLine) -> Record:
    return {"id": id_, **_chosen(to_json(score), _OF_RESPONSE)}


def _comparison_record(comparison: ComparisonRecord, answer: GroupAnswer) -> Record:
    shown = [answer.ids[index] for index in comparison.indices]
    record: Record = {"shown": shown, "repeat": comparison.judge_idx, "judge": comparison.judge}
    if comparison.component is not None:
        record["component"] = comparison.component
    if comparison.reply is not None:  # dropped without keep_replies
        record["reply"] = comparison.reply
    return record | _chosen(to_json(comparison), _OF_COMPARISON)


def _chosen(written: Record, names: Sequence[str]) -> Record:
    return {name: written[name] for name in names if name in written}


ROUTES: Sequence[Route] = (
    ("POST", "/v1/groups", _judge),
    ("POST", _MEMBER_PATH, _join),
    ("DELETE", f"{_COHORTS}{{path:any}}", _delete),
)
