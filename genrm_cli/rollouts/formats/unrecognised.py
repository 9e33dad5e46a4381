"""Describe a record in an unknown format, and say what to do."""

from genrm_cli.errors import Message
from genrm_cli.json_types import Record
from genrm_cli.rollouts.reading.account import describe_open, open_fields, settings_of_roles
from genrm_cli.rollouts.reading.known_names import REFERENCES, Fields
from genrm_cli.rollouts.reading.values import has_text

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


def describe_unrecognised(record: Record) -> Message:
    """Return the keys of a record in an unknown format, what it looks like, and what to do."""
    keys = sorted(record)
    shown = ", ".join(keys[:_SHOWN_KEYS]) or "none"
    more = f" and {len(keys) - _SHOWN_KEYS} more" if keys[_SHOWN_KEYS:] else ""
    told = f"unknown format with the keys {shown}{more}; "
    if (other := looks_like(record)) is not None:
        return Message.of(told, f"this looks like {other}")
    gold = next((name for name in REFERENCES if has_text(record.get(name))), None)
    if gold is not None:
        told += f"{gold} is a reference, which is judged only if it is named; "
    left = open_fields(record, Fields())
    names = Message.of("name its fields with ", settings_of_roles())
    advice = describe_open(left, "no format has these fields") if left else names
    return Message.of(told, advice, "; see `genrm formats`")


def looks_like(record: Record) -> str | None:
    """Return what other than rollouts a record looks like; None for nothing that is known."""
    found = (told for signs, told in _NOT_ROLLOUTS.items() if record.keys() >= {*signs.split()})
    return next(found, None)
