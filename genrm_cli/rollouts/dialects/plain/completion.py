"""Completion: a prompt and one response, each a string or messages.

Covers OpenRLHF's `input` and `output`, TRL's completion logs, question and answer, query and response, and so on.
"""

from collections.abc import Sequence

from genrm_cli.rollouts.reading.dialect import Dialect, annotate_line
from genrm_cli.rollouts.reading.fields import Record, rollout_of
from genrm_cli.rollouts.reading.messages import items_of_response, media_of_messages, turns_of_prompt
from genrm_cli.rollouts.record import Rollout, UnreadableRecordError

_PROMPTS = ("prompt", "input", "question", "query", "problem", "instruction")
_RESPONSES = ("completion", "response", "output", "generation")
_WEAK_RESPONSES = ("answer", "text")  # often a reference or the whole text: only where no other is there


def _recognise(record: Record) -> bool:
    return bool(_present(record, _PROMPTS)) and bool(_present(record, _RESPONSES) or _present(record, _WEAK_RESPONSES))


def _read(record: Record) -> list[Rollout]:
    response = _one_of(record, _RESPONSES if _present(record, _RESPONSES) else _WEAK_RESPONSES, "response")
    prompt = _one_of(record, _PROMPTS, "prompt")
    return [read_completion(record, record[prompt], record[response])]


def read_completion(record: Record, prompt: object, response: object) -> Rollout:
    """Read a rollout from the values of its two fields."""
    return rollout_of(
        record, turns_of_prompt(prompt), items_of_response(response), prompt_media=media_of_messages(prompt)
    )


def _present(record: Record, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in record]


def _one_of(record: Record, names: Sequence[str], role: str) -> str:
    """Return the name of the field to read; of several with different values none is guessed.

    Raises:
        UnreadableRecordError: none is there, or several could be meant; the message lists them.
    """
    present = _present(record, names)
    if not present:
        raise UnreadableRecordError(f"no {role}: none of the expected fields {', '.join(names)}")
    filled = [name for name in present if record[name] not in (None, "")]
    if any(record[name] != record[filled[0]] for name in filled):
        raise UnreadableRecordError(
            f"the {role} could be any of {', '.join(filled)}; name it with --{role}-field, as in "
            f"--{role}-field {filled[0]}"
        )
    return (filled or present)[0]


DIALECT = Dialect("completion", _recognise, _read, annotate_line)
