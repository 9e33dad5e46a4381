"""Alpaca: `instruction`, optionally an `input`, and `output`, one rollout per line."""

from genrm_cli.rollouts.formats.format import ANSWER, QUESTION, Format, annotate_line
from genrm_cli.rollouts.formats.plain.completion import read_completion
from genrm_cli.rollouts.reading.fields import Record, has_all
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return has_all(record, ("instruction", "output")) and "prompt" not in record


def _read(record: Record) -> list[Rollout]:
    instruction, given = record.get("instruction"), record.get("input")
    if not isinstance(instruction, str) or "output" not in record:
        raise UnreadableRecordError("no instruction or output, expected texts")
    prompt = f"{instruction}\n\n{given}" if isinstance(given, str) and given.strip() else instruction
    return [read_completion(record, prompt, record["output"])]


FORMAT = Format(
    "alpaca",
    _recognise,
    _read,
    annotate_line,
    keys=("instruction", "output"),
    example={"instruction": QUESTION, "input": "", "output": ANSWER},
)
