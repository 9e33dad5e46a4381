"""`POST /slime`: slime's `remote_rm`, one sample a request; the reply is a number.

Source: slime `slime/rollout/rm_hub/__init__.py`.
"""

from genrm_cli.serve.shapes.call import Call, Reply, Route, Shape
from genrm_cli.serve.shapes.fields import parse_body
from genrm_cli.serve.shapes.labelled import Sample, join_sample
from genrm_cli.serve.shapes.numbers import number_of


async def _reward(call: Call) -> Reply:
    body = parse_body(call.take_body())
    score, answer = await join_sample(Sample(body.get("prompt"), body.get("response"), body.get("label")), call)
    return Reply(number_of(score, answer, call))


SHAPE = Shape("slime", (Route("POST", "/slime", _reward),))
