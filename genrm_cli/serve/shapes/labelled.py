"""Samples of trainers whose only field of the user's is the label."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from genrm_cli.groups.results import RolloutScore
from genrm_cli.rollouts.reading.decoded import messages_of_template
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.serve.answers import GroupAnswer
from genrm_cli.serve.shapes.call import Call
from genrm_cli.serve.shapes.fields import cohort_size_of, digest_of, identifier_of, line_of, member_of
from genrm_cli.storage.encoding.records import BadLineError, parse_record


class Sample(NamedTuple):
    """One response; the prompt is a decoded text or a list of messages."""

    prompt: object
    response: object
    label: object


async def join_sample(sample: Sample, call: Call) -> tuple[RolloutScore, GroupAnswer]:
    """Join the cohort of a sample, and return its result.

    Raises:
        UnreadableRecordError: the sample cannot be read, or its cohort's size is not known.
    """
    said = _said_by(sample.label)
    name = f"sample-{digest_of([sample.prompt, sample.label]).hex()[:24]}"
    if said.get("group_id") is not None:
        name = identifier_of(said["group_id"], "group_id of a label")
    size = cohort_size_of(said.get("size"), call)
    if not isinstance(sample.response, str):
        raise UnreadableRecordError("the response is not a text")
    messages = said.get("messages") or messages_of_template(sample.prompt)
    request = {"messages": messages, "principle": said.get("principle")}
    member = member_of("", line_of(name, request, {"text": sample.response}))
    return await call.rounds.join(name, size, member, call.is_gone, is_named=False)


def _said_by(label: object) -> Mapping[str, Any]:
    """Return what a label says, if it is a JSON object."""
    if isinstance(label, dict):
        return label
    if isinstance(label, str) and label.lstrip().startswith("{"):
        try:
            return parse_record(label.encode("utf-8", "replace"))
        except BadLineError:
            return {}
    return {}
