"""Samples of trainers that pass the user's data in the label only: OpenRLHF and slime, one sample a
request.

Source: OpenRLHF `openrlhf/utils/agent.py`, whose requests are sometimes empty; slime
`slime/rollout/rm_hub/__init__.py`, whose `remote_rm` takes the whole reply as the reward.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.http_server.http_replies import JsonReply
from genrm_cli.json_types import Record
from genrm_cli.products.serve.served_answers import GroupAnswer
from genrm_cli.products.serve.shapes.call import (
    Call,
    Route,
    digest_of,
    identifier_of,
    line_of,
    member_of,
)
from genrm_cli.rollouts.reading.templates import messages_of, read_prompt
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.storage.encoding.records import BadLineError, parse_record

_LISTS = ("query", "prompts", "labels")
_SHORTEST_OVERLAP = 16  # characters of a truncated prompt that the query must begin with


async def _openrlhf(call: Call) -> JsonReply:
    body = call.take_json()
    queries, prompts, labels = (body.get(name) for name in _LISTS)
    if (
        not isinstance(queries, list)
        or not isinstance(prompts, list)
        or len(queries) != len(prompts)
    ):
        raise UnreadableRecordError("query and prompts are not lists of the same length")
    if not isinstance(labels, list) or len(labels) != len(queries):
        labels = [None] * len(queries)
    samples = zip(prompts, map(response_in, queries, prompts), labels, strict=True)
    results = await asyncio.gather(*[join_sample(*sample, call) for sample in list(samples)])
    rewards = [each.number() for each in results]
    # What OpenRLHF filters groups by; its default range is (0, 1). Nothing else uses it.
    worth = [each.answer.counts.worth_training is not False for each in results]
    scores = [0.5 if is_worth else 0.0 for is_worth in worth]
    logs: Record = {}
    if results:
        logs = {
            "genrm_comparisons": [float(each.score.comparisons) for each in results],
            "genrm_failed": [float(each.score.failed) for each in results],
            "genrm_unscored": [float(each.score.reward is None) for each in results],
            "genrm_came": [float(each.answer.counts.came) for each in results],
            "genrm_late": [float(bool(each.answer.counts.earlier)) for each in results],
            "genrm_worth_training": [float(is_worth) for is_worth in worth],
        }
    return JsonReply({"rewards": rewards, "scores": scores, "extra_logs": logs})


def response_in(query: object, prompt: object) -> str:
    """Return the response in a query, which begins with its prompt, or with the end of it if it was
    truncated.
    """
    if not isinstance(query, str) or not isinstance(prompt, str):
        raise UnreadableRecordError("query or prompts contains something other than texts")
    if query.startswith(prompt):
        return query[len(prompt) :]
    head = query[:_SHORTEST_OVERLAP]
    start = prompt.find(head) if len(head) == _SHORTEST_OVERLAP else -1
    while start >= 0:
        if query.startswith(prompt[start:]):
            return query[len(prompt) - start :]
        start = prompt.find(head, start + 1)
    raise UnreadableRecordError("a query does not begin with its prompt, nor with the end of it")


async def _slime(call: Call) -> JsonReply:
    body = call.take_json()
    result = await join_sample(body.get("prompt"), body.get("response"), body.get("label"), call)
    return JsonReply(result.number())


class SampleResult(Struct, frozen=True):
    """The result of a sample, and that of its cohort."""

    call: Call
    score: ScoredLine
    answer: GroupAnswer

    def number(self) -> float:
        """Return the reward, or its replacement; see `Call.number_of`.

        A late one may have been compared with another epoch, which this shape cannot say, so it is
        replaced where the user says by what.
        """
        score = self.score
        answer = self.answer
        if answer.counts.earlier and self.call.on_failure is not None:
            score = replace(score, reward=None)
            answer = replace(answer, counts=replace(answer.counts, reward_mean=None))
        return self.call.number_of(score, answer)


async def join_sample(prompt: object, response: object, label: object, call: Call) -> SampleResult:
    """Join the cohort of a response to a decoded text or a list of messages, and return its
    result.
    """
    said = _said_by(label)
    name = f"sample-{digest_of([prompt, label]).hex()[:24]}"
    if said.get("group_id") is not None:
        name = identifier_of(said["group_id"], "group_id of a label")
    if not isinstance(response, str):
        raise UnreadableRecordError("the response is not a text")
    messages = prompt
    text = response
    if isinstance(prompt, str):
        asked = read_prompt(prompt)
        messages = messages_of(asked.turns)
        text = asked.opened + text
    request = {"messages": said.get("messages") or messages, "principle": said.get("principle")}
    member = member_of("", line_of(name, request, {"text": text}), call.service.plan)
    if call.evaluates(said.get("as")):
        answer = await call.service.evaluate(name, [member])
        return SampleResult(call, answer.rewards.scores[0], answer)
    size = call.cohort_size_of(said.get("size"))
    asks_again = call.on_failure is None  # its client takes an error for a reason to ask again
    score, answer = await call.rounds.join(
        name, size, member, call.is_gone, is_named=False, asks_again=asks_again
    )
    return SampleResult(call, score, answer)


def _said_by(label: object) -> Record:
    if isinstance(label, dict):
        return label
    if isinstance(label, str) and label.lstrip().startswith("{"):
        try:
            return parse_record(label.encode("utf-8", "replace"))
        except BadLineError:
            return {}
    return {}


ROUTES: Sequence[Route] = (("POST", "/openrlhf", _openrlhf), ("POST", "/slime", _slime))
