"""Columns: one line with a list of prompts and a list of responses (or of lists of responses)."""

from collections.abc import Callable, Sequence

from genrm_cli.rollouts.formats.format import (
    ANSWER,
    OTHER_ANSWER,
    QUESTION,
    Format,
    Score,
    annotate_list,
    own_of_columns,
    set_detail,
)
from genrm_cli.rollouts.formats.plain.completion import read_completion
from genrm_cli.rollouts.reading.fields import Record, list_at
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

_RESPONSES = ("responses", "completions", "outputs", "generations")
_own_row = own_of_columns("prompts")


def _recognise(record: Record) -> bool:
    return isinstance(record.get("prompts"), list) and any(isinstance(record.get(name), list) for name in _RESPONSES)


def _read(record: Record) -> list[Rollout]:
    prompts, responses = list_at(record, "prompts"), list_at(record, _responses_field(record))
    return read_columns(record, prompts, responses, _own_row)


def read_columns(
    record: Record, prompts: list[object], responses: list[object], own_row: Callable[[Record, int], Record]
) -> list[Rollout]:
    """Read rollouts from two columns; a list of texts is one response per text.

    Args:
        record: the line.
        prompts: its column of prompts.
        responses: its column of responses.
        own_row: returns the row at a position.

    Raises:
        UnreadableRecordError: the columns differ in length.
    """
    if len(prompts) != len(responses):
        raise UnreadableRecordError(f"{len(prompts)} prompts but {len(responses)} responses, expected equal numbers")
    rollouts = [
        read_completion(own_row(record, position), prompt, each)
        for position, (prompt, response) in enumerate(zip(prompts, responses, strict=True))
        for each in _flattened(response)
    ]
    if not rollouts:
        raise UnreadableRecordError("the lists of responses are empty")
    return rollouts


def _flattened(response: object) -> list[object]:
    return response if isinstance(response, list) and _is_nested(response) else [response]


def _is_nested(response: object) -> bool:
    return isinstance(response, list) and all(isinstance(each, str | list) for each in response)


def _responses_field(record: Record) -> str:
    return next((name for name in _RESPONSES if isinstance(record.get(name), list)), _RESPONSES[0])


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    responses = record[_responses_field(record)]
    if not any(_is_nested(response) for response in responses):
        annotate_list(record, scores)
        return
    sizes = [len(_flattened(response)) for response in responses]
    ends = [sum(sizes[: row + 1]) for row in range(len(sizes))]
    rows = [scores[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    detail = {"rollouts": [[score.detail for score in row] for row in rows], "previous_rewards": record.get("rewards")}
    record["rewards"] = [[score.reward for score in row] for row in rows]
    set_detail(record, detail)


def _own_record(record: Record, position: int) -> Record:
    responses = record[_responses_field(record)]
    rows = [row for row, each in enumerate(responses) for _ in _flattened(each)]
    return _own_row(record, rows[position])


FORMAT = Format(
    "columns",
    _recognise,
    _read,
    _annotate,
    _own_record,
    keys=("prompts", *_RESPONSES),
    example={"prompts": [QUESTION], "responses": [[ANSWER, OTHER_ANSWER]]},
)
