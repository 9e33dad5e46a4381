"""Atropos groups: `tokens`, `masks`, `scores` and `messages`, each a list with one entry per rollout.

Groups have messages only if the environment includes them. Source: NousResearch/atropos `atroposlib/envs/base.py`.
"""

from collections.abc import Sequence

from genrm_cli.rollouts.formats.format import ANSWERED, ANSWERED_TOO, ASKED, Format, Score, annotate_list, own_of_lists
from genrm_cli.rollouts.formats.plain.chat import read_chat
from genrm_cli.rollouts.reading.fields import Record
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

_PARALLEL = (
    *("tokens", "masks", "scores", "advantages", "ref_logprobs", "inference_logprobs", "overrides", "images"),
    *("distill_token_ids", "distill_logprobs"),
)


def _recognise(record: Record) -> bool:
    return isinstance(record.get("scores"), list) and "tokens" in record and "masks" in record


def _read(record: Record) -> list[Rollout]:
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UnreadableRecordError(
            "an Atropos group without messages, expected texts: set include_messages in the environment"
        )
    return [read_chat(record, each, line_is_group=True, task=None, index=None) for each in messages]


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    annotate_list(record, scores, field="scores")


FORMAT = Format(
    "atropos",
    _recognise,
    _read,
    _annotate,
    own_of_lists(_PARALLEL, ("messages",)),
    keys=("tokens", "masks", "scores", "messages"),
    example={
        "tokens": [[1], [2]],
        "masks": [[1], [2]],
        "scores": [1.0, 0.0],
        "messages": [[ASKED, ANSWERED], [ASKED, ANSWERED_TOO]],
    },
)
