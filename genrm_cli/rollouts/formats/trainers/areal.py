"""AReaL's rollout dumps: `task_id`, `sample_idx`, `prompt` and `completion` decoded with their special tokens.

Source: inclusionAI/AReaL `areal/infra/workflow_executor.py`.
"""

from genrm_cli.rollouts.formats.format import ANSWER, QUESTION, Format, annotate_line
from genrm_cli.rollouts.reading.decoded import turns_of_template
from genrm_cli.rollouts.reading.fields import Record, first_of, has_all, identifier, integer, rollout_of
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return has_all(record, ("task_id", "sample_idx", "prompt", "completion"))


def _read(record: Record) -> list[Rollout]:
    prompt = record.get("prompt")
    if not isinstance(prompt, str):
        raise UnreadableRecordError("prompt is not a string, expected the decoded prompt")
    name = identifier(record.get("task_id"))
    return [
        rollout_of(
            record,
            turns_of_template(prompt),
            items_of_response(first_of(record, ("completion",))),
            task=None if name is None else f"task:{name}",
            index=integer(record.get("sample_idx")),
        )
    ]


FORMAT = Format(
    "areal",
    _recognise,
    _read,
    annotate_line,
    keys=("task_id", "sample_idx", "prompt", "completion"),
    example={"task_id": 0, "sample_idx": 0, "prompt": QUESTION, "completion": ANSWER},
)
