"""verl's rollout dumps: `input`, `output`, `gts`, `score`, `step`, one rollout per line.

The input is decoded from tokens, so it has role words between its turns; so has an output of several turns.
Source: verl `trainer/ppo/ray_trainer.py`.
"""

import re
from collections.abc import Sequence

from genrm_cli.rollouts.formats.format import ANSWER, QUESTION, Format, Score, annotate_line
from genrm_cli.rollouts.reading.decoded import turns_of_template
from genrm_cli.rollouts.reading.fields import Record, rollout_of
from genrm_cli.rollouts.reading.messages import items_of_text
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Item, Rollout, ToolResult, Turn, UnreadableRecordError

_TURN = re.compile(r"\n(?P<role>user|tool|assistant)\n(?!\Z)")


def _recognise(record: Record) -> bool:
    texts = isinstance(record.get("input"), str) and isinstance(record.get("output"), str)
    return texts and "prompt" not in record and ("gts" in record or ("score" in record and "step" in record))


def _read(record: Record) -> list[Rollout]:
    given, output = record.get("input"), record.get("output")
    if not isinstance(given, str):
        raise UnreadableRecordError("input is not a string, expected the decoded prompt")
    response = items_of_turns(output) if isinstance(output, str) else items_of_response(output)
    return [rollout_of(record, turns_of_template(given), response)]


def items_of_turns(output: str) -> tuple[Item, ...]:
    """Return a decoded output as items. It has several turns if a role word is followed by `assistant`."""
    marks = list(_TURN.finditer(output))
    if not any(mark["role"] == "assistant" for mark in marks) or marks[0]["role"] == "assistant":
        return items_of_text(output)
    starts = [0, *(mark.end() for mark in marks)]
    ends = [*(mark.start() for mark in marks), len(output)]
    roles = ["assistant", *(mark["role"] for mark in marks)]
    items: list[Item] = []
    for role, start, end in zip(roles, starts, ends, strict=True):
        text = output[start:end]
        if role == "assistant":
            items += items_of_text(text)
        else:
            items.append(ToolResult(text) if role == "tool" else Turn("user", text))
    return tuple(items)


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    annotate_line(record, scores, also=("score",))


FORMAT = Format(
    "verl",
    _recognise,
    _read,
    _annotate,
    keys=("input", "output", "gts", "score", "step"),
    example={"input": QUESTION, "output": ANSWER, "gts": "Volga", "score": 1.0, "step": 1},
)
