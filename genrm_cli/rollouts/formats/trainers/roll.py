"""ROLL's `rollout_dump_data.step_N.jsonl`: lines of columns, including `prompt`, `responses` and `scores`.

Source: alibaba/ROLL `roll/pipeline/rlvr/utils.py`.
"""

from collections.abc import Sequence

from genrm_cli.rollouts.formats.format import (
    ANSWER,
    OTHER_ANSWER,
    QUESTION,
    Format,
    Score,
    annotate_list,
    own_of_columns,
)
from genrm_cli.rollouts.formats.plain.columns import read_columns
from genrm_cli.rollouts.reading.decoded import messages_of_template
from genrm_cli.rollouts.reading.fields import Record, list_at
from genrm_cli.rollouts.rollout import Rollout

_own_row = own_of_columns("responses")


def _recognise(record: Record) -> bool:
    prompts, responses = record.get("prompt"), record.get("responses")
    return (
        isinstance(prompts, list)
        and isinstance(responses, list)
        and len(prompts) == len(responses) > 0
        and all(isinstance(each, str) for each in (*prompts, *responses))
    )


def _read(record: Record) -> list[Rollout]:
    prompts = [messages_of_template(prompt) for prompt in list_at(record, "prompt")]
    return read_columns(record, prompts, list_at(record, "responses"), _own_row)


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    annotate_list(record, scores, field="scores")


FORMAT = Format(
    "roll",
    _recognise,
    _read,
    _annotate,
    _own_row,
    keys=("prompt", "responses"),
    example={"prompt": [QUESTION, QUESTION], "responses": [ANSWER, OTHER_ANSWER], "scores": [1.0, 0.0]},
)
