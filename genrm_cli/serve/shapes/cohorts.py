"""`POST /v1/cohorts/{group_id}/members/{member_id}`: one response a request, which waits for its cohort."""

from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.serve.shapes.call import Call, Json, Reply, Route, Shape
from genrm_cli.serve.shapes.fields import deadline_of, identifier_of, line_of, member_of, parse_body, size_of
from genrm_cli.serve.shapes.render import response_record


async def _join(call: Call) -> Reply:
    body = parse_body(call.take_body())
    name = identifier_of(call.parameters["group_id"], "the group id")
    member_id = identifier_of(call.parameters["member_id"], "the member id")
    size = size_of(body.get("size"))
    member = member_of(member_id, line_of(name, body, body))
    joining = call.service.join(name, size, member, declared=_declared(body, size), deadline_s=deadline_of(body))
    del body, member  # the cohort has what it needs of them
    answer = await joining
    content: Json = {
        "group_id": name,
        "group_status": answer.status,
        **response_record(member_id, answer.score_of(member_id), answer),
        "members": list(answer.ids),
        "metrics": answer.counts,
        "calibration": answer.calibration.as_dict(),
    }
    return Reply(content)


def _declared(body: Json, size: int) -> list[str]:
    members = body.get("members")
    if members is None:
        return []
    if not isinstance(members, list) or len(members) != size:
        raise UnreadableRecordError(f"members is not a list of {size} ids")
    ids = [identifier_of(member, "an id in members") for member in members]
    if len(set(ids)) < size:
        raise UnreadableRecordError("members names an id twice")
    return ids


SHAPE = Shape("cohorts", (Route("POST", "/v1/cohorts/{group_id:path}/members/{member_id}", _join),))
