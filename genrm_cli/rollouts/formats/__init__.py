"""The formats, and the recognition of a record's format.

    >>> from genrm_cli.rollouts.formats import named_fields

    >>> TICKETS = named_fields(
    ...     "reply",
    ...     "question",
    ...     "ticket",  # the replies to one ticket are a group
    ...     name="tickets",
    ...     example={"ticket": 7, "question": "How do I reset it?", "reply": "Hold the button."},
    ... )
    >>> record = {"ticket": 8, "question": "Is it on?", "reply": "Press it."}
    >>> [(rollout.task, rollout.answer) for rollout in TICKETS.read(record)]
    [('ticket:8', 'Press it.')]

An installed package registers such an object as an entry point of the group `genrm.formats`. One
with lines of another shape is a `Format`, with functions that read a line and write its scores."""

from collections.abc import Collection, Iterable, Mapping

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats import eval_samples, nemo_rl_logs
from genrm_cli.rollouts.formats.episodes import agents, episode_lines, verifiers_traces
from genrm_cli.rollouts.formats.format import Format, Score
from genrm_cli.rollouts.formats.group_formats import GROUP_FORMATS
from genrm_cli.rollouts.formats.line_formats import LINE_FORMATS
from genrm_cli.rollouts.formats.named_fields import named_fields
from genrm_cli.rollouts.formats.nemo_gym_lines import NEMO_GYM_FORMATS
from genrm_cli.rollouts.formats.unrecognised import describe_unrecognised, looks_like
from genrm_cli.rollouts.reading.account import open_fields
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.rollout import UnreadableRecordError

# Recognised in this order, more specific shapes first.
_IN_ORDER = (
    *NEMO_GYM_FORMATS,
    verifiers_traces.FORMAT,
    episode_lines.FORMAT,
    agents.FORMAT,
    eval_samples.INSPECT,
    eval_samples.LM_EVAL,
    *GROUP_FORMATS,
    nemo_rl_logs.FORMAT,
    *LINE_FORMATS,
)
FORMATS: Mapping[str, Format] = {each.name: each for each in _IN_ORDER}


def recognise(
    record: Record, installed: Iterable[Format] = (), settled: Collection[str] = ()
) -> Format:
    """Return the format of a record; those of `installed` packages are tried first.

    If no format matches, or none accounts for every text of the line, the error names the fields,
    and what to do. `settled` are the paths of fields that the user has said something about."""
    for each in installed:
        if each.recognise(record):
            return each
    refused: UnreadableRecordError | None = None
    for each in _IN_ORDER:
        if each.recognise(record):
            try:
                each.refuse_open(record, settled)
            except UnreadableRecordError as error:
                refused = refused or error
            else:
                return each
    if refused is not None and looks_like(record) is None:
        raise refused
    # Lines of one shape are one problem, whatever the examples in its message.
    keys = ", ".join(sorted(record))
    raise UnreadableRecordError(describe_unrecognised(record), kind=f"unknown format: {keys}")


def open_fields_of(
    record: Record, installed: Iterable[Format] = (), settled: Collection[str] = ()
) -> dict[str, str]:
    """Return an example of each field that keeps the first format of a record from reading it."""
    for each in (*installed, *_IN_ORDER):
        if each.recognise(record):
            try:
                return each.open_fields(record, settled)
            except UnreadableRecordError:
                continue
    return open_fields(record, Fields(), settled)


__all__ = [
    "FORMATS",
    "Fields",
    "Format",
    "Score",
    "named_fields",
    "open_fields_of",
    "recognise",
]
