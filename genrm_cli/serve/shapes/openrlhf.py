"""`POST /openrlhf`: OpenRLHF's remote reward model, one sample a request, sometimes none.

Source: OpenRLHF `openrlhf/utils/agent.py`.
"""

import asyncio

from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.serve.shapes.call import Call, Json, Reply, Route, Shape
from genrm_cli.serve.shapes.fields import parse_body
from genrm_cli.serve.shapes.labelled import Sample, join_sample
from genrm_cli.serve.shapes.numbers import number_of

_LISTS = ("query", "prompts", "labels")
_SHORTEST_OVERLAP = 16  # characters of a truncated prompt that the query must begin with


async def _reward(call: Call) -> Reply:
    body = parse_body(call.take_body())
    queries, prompts, labels = (body.get(name) for name in _LISTS)
    if not isinstance(queries, list) or not isinstance(prompts, list) or len(queries) != len(prompts):
        raise UnreadableRecordError("query and prompts are not lists of the same length")
    if not isinstance(labels, list) or len(labels) != len(queries):
        labels = [None] * len(queries)
    samples = [
        Sample(prompt, response_in(query, prompt), label)
        for query, prompt, label in zip(queries, prompts, labels, strict=True)
    ]
    results = await asyncio.gather(*(join_sample(sample, call) for sample in samples))
    rewards = [number_of(score, answer, call) for score, answer in results]
    logs: Json = {}
    if results:
        logs = {
            "genrm_comparisons": [float(score.comparisons) for score, _ in results],
            "genrm_failed": [float(score.failed) for score, _ in results],
        }
    return Reply({"rewards": rewards, "scores": rewards, "extra_logs": logs})


def response_in(query: object, prompt: object) -> str:
    """Return the response in a query, which begins with its prompt, or with the end of it if it was truncated.

    Raises:
        UnreadableRecordError: it begins with neither.
    """
    if not isinstance(query, str) or not isinstance(prompt, str):
        raise UnreadableRecordError("query and prompts hold something else than texts")
    if query.startswith(prompt):
        return query[len(prompt) :]
    head = query[:_SHORTEST_OVERLAP]
    start = prompt.find(head) if len(head) == _SHORTEST_OVERLAP else -1
    while start >= 0:
        if query.startswith(prompt[start:]):
            return query[len(prompt) - start :]
        start = prompt.find(head, start + 1)
    raise UnreadableRecordError("a query does not begin with its prompt, nor with the end of it")


SHAPE = Shape("openrlhf", (Route("POST", "/openrlhf", _reward),))
