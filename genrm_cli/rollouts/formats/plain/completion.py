"""Completion: a prompt and one response, each a string or messages.

Covers OpenRLHF's `input` and `output`, TRL's completion logs, question and answer, query and response, and so on.
"""

from collections.abc import Sequence

from genrm_cli.rollouts.formats.format import ANSWER, QUESTION, Format, annotate_line
from genrm_cli.rollouts.reading.content import media_of_messages
from genrm_cli.rollouts.reading.fields import Record, rollout_of
from genrm_cli.rollouts.reading.messages import turns_of_prompt
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

_PROMPTS = ("prompt", "input")
_WEAK_PROMPTS = ("question", "query", "problem", "instruction")  # often a part of the prompt
_RESPONSES = ("completion", "response", "output", "generation")
_WEAK_RESPONSES = ("answer", "text")  # often a reference or the whole text


def _recognise(record: Record) -> bool:
    return bool(_names_in(record, _PROMPTS, _WEAK_PROMPTS) and _names_in(record, _RESPONSES, _WEAK_RESPONSES))


def _read(record: Record) -> list[Rollout]:
    response = _one_of(record, _names_in(record, _RESPONSES, _WEAK_RESPONSES), "response")
    prompt = _one_of(record, _names_in(record, _PROMPTS, _WEAK_PROMPTS), "prompt")
    return [read_completion(record, record[prompt], record[response])]


def read_completion(record: Record, prompt: object, response: object) -> Rollout:
    """Read a rollout from the values of its two fields."""
    return rollout_of(
        record, turns_of_prompt(prompt), items_of_response(response), prompt_media=media_of_messages(prompt)
    )


def _names_in(record: Record, strong: Sequence[str], weak: Sequence[str]) -> list[str]:
    """Return the names that a record has; weak names only if it has none of the strong ones."""
    return [name for name in strong if name in record] or [name for name in weak if name in record]


def _one_of(record: Record, present: Sequence[str], role: str) -> str:
    """Return the name of the field to read. If several have different values, guess none.

    Raises:
        UnreadableRecordError: no field matches, or several do; the message lists them.
    """
    if not present:
        raise UnreadableRecordError(f"no {role}: expected a field such as {role}; name another one with --{role}-field")
    filled = [name for name in present if record[name] not in (None, "")]
    if any(record[name] != record[filled[0]] for name in filled):
        raise UnreadableRecordError(
            f"the {role} could be any of {', '.join(filled)}; name it with --{role}-field, as in "
            f"--{role}-field {filled[0]}"
        )
    return (filled or present)[0]


FORMAT = Format(
    "completion",
    _recognise,
    _read,
    annotate_line,
    keys=(*_PROMPTS, *_WEAK_PROMPTS, *_RESPONSES, *_WEAK_RESPONSES),
    example={"prompt": QUESTION, "completion": ANSWER},
)
