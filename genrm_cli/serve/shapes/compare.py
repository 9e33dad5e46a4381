"""`POST /compare`: the request and the reply of NeMo Gym's `genrm_compare`.

Source: NVIDIA-NeMo/Gym `resources_servers/genrm_compare/app.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from genrm_cli.jobs.compare_request import compare_reply, parse_request
from genrm_cli.serve.cohorts.member import Member
from genrm_cli.serve.shapes.call import Call, Reply, Route, Shape
from genrm_cli.serve.shapes.fields import digest_of, member_of, parse_body
from genrm_cli.serve.shapes.numbers import number_of


async def _compare(call: Call) -> Reply:
    body = call.take_body()
    record = parse_body(body)
    as_gym = call.service.plan.shows_as_gym
    group = parse_request(body, "the request", as_gym=as_gym)
    if not group.rollouts:
        return Reply({"rewards": [], "comparison_results": None, "metrics": None})
    name = digest_of(record).hex()[:32]
    if as_gym:
        pairs = enumerate(zip(group.rollouts, group.records, strict=True))
        members = [Member.of(str(place), line, rollout, digest_of(line)) for place, (rollout, line) in pairs]
    else:
        lines = _lines(record, name)
        members = [member_of(str(place), line) for place, line in enumerate(lines)]
    answer = await call.service.judge(name, members)
    rewards = [number_of(score, answer, call) for score in answer.rewards.scores]
    return Reply(compare_reply(answer.rewards, rewards))


def _lines(record: Mapping[str, Any], name: str) -> Sequence[dict[str, Any]]:
    """Return the responses of a compare request as lines; a message without a role is the user's."""
    history = [{"role": "user", **message} for message in record["conversation_history"]]
    rest = {} if record.get("principle") is None else {"principle": record["principle"]}
    return [
        {"prompt": history, "completion": response, "prompt_id": name, **rest} for response in record["response_objs"]
    ]


SHAPE = Shape("compare", (Route("POST", "/v1/compare", _compare), Route("POST", "/compare", _compare)))
