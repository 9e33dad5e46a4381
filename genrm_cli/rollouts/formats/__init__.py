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

from genrm_cli.errors import Message
from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats import eval_samples, nemo_rl_logs
from genrm_cli.rollouts.formats.episodes import agents, episode_lines, verifiers_traces
from genrm_cli.rollouts.formats.format import Format, Score
from genrm_cli.rollouts.formats.group_formats import GROUP_FORMATS
from genrm_cli.rollouts.formats.line_formats import LINE_FORMATS
from genrm_cli.rollouts.formats.named_fields import named_fields
from genrm_cli.rollouts.formats.nemo_gym_lines import NEMO_GYM_FORMATS
from genrm_cli.rollouts.reading.all_texts import describe_open, open_fields, settings_of_roles
from genrm_cli.rollouts.reading.known_names import REFERENCES, Fields
from genrm_cli.rollouts.reading.values import has_text
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


_PAIRS = "labelled pairs: use `genrm eval`"
# Files that are easily mistaken for rollouts, because they lie beside them: keys that tell them,
# and what to do instead.
_NOT_ROLLOUTS = {
    "chosen rejected": _PAIRS,
    "response_A response_B": _PAIRS,
    "response_a response_b": _PAIRS,
    "output_1 output_2": _PAIRS,
    "response1 response2": _PAIRS,
    "response_1 response_2": _PAIRS,
    "conversation_a conversation_b": _PAIRS,
    "response_0 response_1": _PAIRS,
    "answer_0 answer_1": _PAIRS,
    "question_id choices": "answers whose prompts are in another file: join them by question_id",
    "custom_id method url": "the input of an OpenAI batch: pass its output file",
    "custom_id params": "the input of an Anthropic batch: pass the responses",
    "group_level_metrics": "metrics: pass the file of rollouts",
    "settings_digest": "metrics of genrm: pass the file of rollouts",
    "mean/reward": "a reward profile: pass the file of rollouts",
    "score_1 score_2": "verdicts: pass the file of rollouts",
    "response_i response_j": "comparisons: pass the file of rollouts",
}
# Enough to recognise the writer.
_SHOWN_KEYS = 8


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
    signs = (told for names, told in _NOT_ROLLOUTS.items() if record.keys() >= {*names.split()})
    other = next(signs, None)
    if refused is not None and other is None:
        raise refused
    # Lines of one shape are one problem, whatever the examples in its message.
    keys = ", ".join(sorted(record))
    raise UnreadableRecordError(_describe_unknown(record, other), kind=f"unknown format: {keys}")


def _describe_unknown(record: Record, other: str | None) -> Message:
    """Return the keys of a record in an unknown format, what it looks like, and what to do."""
    keys = sorted(record)
    shown = ", ".join(keys[:_SHOWN_KEYS]) or "none"
    more = f" and {len(keys) - _SHOWN_KEYS} more" if keys[_SHOWN_KEYS:] else ""
    told = f"unknown format with the keys {shown}{more}; "
    if other is not None:
        return Message.of(told, f"this looks like {other}")
    gold = next((name for name in REFERENCES if has_text(record.get(name))), None)
    if gold is not None:
        told += f"{gold} is a reference, which is judged only if it is named; "
    left = open_fields(record, Fields())
    names = Message.of("name its fields with ", settings_of_roles())
    advice = describe_open(left, "no format has these fields") if left else names
    return Message.of(told, advice, "; see `genrm formats`")


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
