"""Many responses in one line: `prompt` with a list of `responses` or `completions`; the line is a whole group."""

from genrm_cli.rollouts.dialects.completion import read_response
from genrm_cli.rollouts.dialects.dialect import Dialect, annotate_list
from genrm_cli.rollouts.dialects.fields import Record, principle_of, turns_of_prompt
from genrm_cli.rollouts.record import Rollout, Turn, UnreadableRecordError

_LIST_FIELDS = ("responses", "completions")


def _recognise(record: Record) -> bool:
    return "prompt" in record and any(isinstance(record.get(name), list) for name in _LIST_FIELDS)


def _read(record: Record) -> list[Rollout]:
    for name in _LIST_FIELDS:
        if isinstance(record.get(name), list):
            return read_list(record, turns_of_prompt(record.get("prompt")), record[name])
    raise UnreadableRecordError("neither responses nor completions is a list")


def read_list(record: Record, prompt: tuple[Turn, ...], responses: list[object]) -> list[Rollout]:
    """Read a list of responses to one prompt as one group, in the order of the list.

    They have no rollout index: where `--group-by` joins lines, their places would look like duplicates.
    """
    if not responses:
        raise UnreadableRecordError("the list of responses is empty")
    principle = principle_of(record)
    return [Rollout(prompt, *read_response(response), principle, line_is_group=True) for response in responses]


_PARALLEL = (*_LIST_FIELDS, "rewards", "scores", "advantages", "ids")
DIALECT = Dialect("many", _recognise, _read, annotate_list, _PARALLEL)
