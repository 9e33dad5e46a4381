"""Atropos' SFT text: `prefix`, `completion`, `score`, one rollout per line.

Source: NousResearch/atropos `atroposlib/cli/sft.py`.
"""

from collections.abc import Sequence

from genrm_cli.rollouts.formats.format import ANSWER, QUESTION, Format, Score, annotate_line
from genrm_cli.rollouts.reading.decoded import turns_of_template
from genrm_cli.rollouts.reading.fields import Record, first_of, has_all, rollout_of
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return has_all(record, ("prefix", "completion")) and "prompt" not in record


def _read(record: Record) -> list[Rollout]:
    prefix = record.get("prefix")
    if not isinstance(prefix, str):
        raise UnreadableRecordError("prefix is not a string, expected the text before the completion")
    return [rollout_of(record, turns_of_template(prefix), items_of_response(first_of(record, ("completion",))))]


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    annotate_line(record, scores, also=("score",))


FORMAT = Format(
    "atropos_text",
    _recognise,
    _read,
    _annotate,
    keys=("prefix", "completion"),
    example={"prefix": QUESTION, "completion": ANSWER},
)
