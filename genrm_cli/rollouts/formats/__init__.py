"""The formats, and the recognition of a record's format.

    >>> from genrm_cli.rollouts.formats import Fields, having, line_format

    >>> TICKETS = line_format(
    ...     "tickets",
    ...     Fields(prompt=("question",), response=("reply",), metadata=("ticket",)),
    ...     recognise=having("ticket", "question", "reply"),
    ...     task="ticket",  # the replies to one ticket are a group
    ...     example={"ticket": 7, "question": "How do I reset it?", "reply": "Hold the button."},
    ... )
    >>> record = {"ticket": 8, "question": "Is it on?", "reply": "Press it."}
    >>> [(rollout.task, rollout.answer) for rollout in TICKETS.read(record)]
    [('task:8', 'Press it.')]

An installed package registers such an object as an entry point of the group `genrm.formats`. One
with lines of another shape is a `Format`, with functions that read a line and write its scores."""

from collections.abc import Iterable, Mapping

from genrm_cli.errors import Message
from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats import (
    api_calls,
    eval_samples,
    nemo_gym_lines,
    nemo_rl_logs,
    verifiers_traces,
)
from genrm_cli.rollouts.formats.format import Format, Score
from genrm_cli.rollouts.formats.group_formats import GROUP_FORMATS
from genrm_cli.rollouts.formats.line_formats import LINE_FORMATS, having, line_format, named_fields
from genrm_cli.rollouts.formats.nested_responses import NESTED_FORMATS
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.unrecognised import describe_unrecognised, is_known_otherwise
from genrm_cli.rollouts.rollout import UnreadableRecordError

# Recognised in this order, more specific shapes first.
_IN_ORDER = (
    nemo_gym_lines.FORMAT,
    nemo_gym_lines.COMPARE,
    nemo_gym_lines.OBJECT,
    verifiers_traces.FORMAT,
    *NESTED_FORMATS,
    eval_samples.INSPECT,
    api_calls.FORMAT,
    eval_samples.LM_EVAL,
    *GROUP_FORMATS,
    nemo_rl_logs.FORMAT,
    *LINE_FORMATS,
)
FORMATS: Mapping[str, Format] = {each.name: each for each in _IN_ORDER}


def recognise(record: Record, installed: Iterable[Format] = ()) -> Format:
    """Return the format of a record; those of `installed` packages are tried first.

    If no format matches, or none accounts for every field that could hold a prompt or a response,
    the error names the fields, and what to do."""
    for each in installed:
        if each.recognise(record):
            return each
    left: Message | None = None
    for each in _IN_ORDER:
        if each.recognise(record):
            try:
                found = each.unexplained(record)
            except UnreadableRecordError as error:
                found = error.message
            if found is None:
                return each
            left = left or found
    if left is not None and not is_known_otherwise(record):
        raise UnreadableRecordError(left)
    raise UnreadableRecordError(describe_unrecognised(record))


__all__ = [
    "FORMATS",
    "Fields",
    "Format",
    "Score",
    "having",
    "line_format",
    "named_fields",
    "recognise",
]
