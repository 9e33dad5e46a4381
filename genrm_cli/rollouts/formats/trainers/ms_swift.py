"""ms-swift's `completions.jsonl`: a line is a batch of columns `step`, `prompt`, `completion`, rewards, `advantages`.

Source: modelscope/ms-swift `swift/rlhf_trainers/grpo_trainer.py`.
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

_own_row = own_of_columns("completion")


def _recognise(record: Record) -> bool:
    prompts, completions = record.get("prompt"), record.get("completion")
    return (
        isinstance(prompts, list)
        and isinstance(completions, list)
        and len(prompts) == len(completions) > 0
        and not any(isinstance(each, dict) for each in (*prompts, *completions))
    )


def _read(record: Record) -> list[Rollout]:
    prompts = [messages_of_template(prompt) for prompt in list_at(record, "prompt")]
    return read_columns(record, prompts, list_at(record, "completion"), _own_row)


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    annotate_list(record, scores)


FORMAT = Format(
    "ms_swift",
    _recognise,
    _read,
    _annotate,
    _own_row,
    keys=("prompt", "completion"),
    example={"prompt": [QUESTION, QUESTION], "completion": [ANSWER, OTHER_ANSWER]},
)
