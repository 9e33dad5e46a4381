"""OpenAI chat completions and completions: an object with `choices`, all of them responses to one prompt.

The object does not contain its prompt. `messages` or `prompt` beside the choices, if present, are used instead.
"""

from collections.abc import Mapping
from typing import Any

from genrm_cli.rollouts.formats.format import ANSWERED, ANSWERED_TOO, ASKED, Format, annotate_list, own_of_lists
from genrm_cli.rollouts.reading.content import media_of_messages
from genrm_cli.rollouts.reading.fields import Record, is_truncated, list_at, rollout_of, task_of
from genrm_cli.rollouts.reading.messages import turns_of_prompt
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    choices = record.get("choices")
    return isinstance(choices, list) and bool(choices) and all(isinstance(choice, Mapping) for choice in choices)


def _read(record: Record) -> list[Rollout]:
    prompt = record.get("messages", record.get("prompt"))
    choices = list_at(record, "choices")
    group = len(choices) > 1 or task_of(record) is None
    return read_choices(record, choices, prompt, line_is_group=group)


def read_choices(record: Record, choices: list[Any], prompt: object, **known: Any) -> list[Rollout]:
    """Read each choice as a rollout.

    Raises:
        UnreadableRecordError: a choice is not an object with a message or a text.
    """
    turns, media = turns_of_prompt(prompt), media_of_messages(prompt)
    rollouts = []
    for choice in choices:
        if not isinstance(choice, Mapping):
            raise UnreadableRecordError("a choice is not an object, expected one with message or text")
        response = items_of_response(choice)
        said = known | {"is_truncated": is_truncated(choice), "prompt_media": media}
        rollouts.append(rollout_of(record, turns, response, **said))
    return rollouts


FORMAT = Format(
    "openai_chat",
    _recognise,
    _read,
    annotate_list,
    own_of_lists((), ("choices",)),
    keys=("choices", "messages", "prompt"),
    example={"messages": [ASKED], "choices": [{"message": ANSWERED}, {"message": ANSWERED_TOO}]},
)
