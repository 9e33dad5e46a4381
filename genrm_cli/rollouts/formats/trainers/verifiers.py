"""verifiers `results.jsonl`: `example_id`, `prompt`, `completion`, one rollout per line.

A row whose generation failed has a null completion: an input without a response.
"""

from genrm_cli.rollouts.formats.format import ANSWERED, ASKED, Format, annotate_line
from genrm_cli.rollouts.reading.content import media_of_messages
from genrm_cli.rollouts.reading.fields import Record, excluded_of, failure_of, first_of, has_all, rollout_of
from genrm_cli.rollouts.reading.messages import turns_of_prompt
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Rollout


def _recognise(record: Record) -> bool:
    return has_all(record, ("example_id", "prompt", "completion"))


def _read(record: Record) -> list[Rollout]:
    prompt = first_of(record, ("prompt",))
    response = items_of_response(first_of(record, ("completion",)))
    excluded = excluded_of(record) or failure_of(record.get("error"))
    media = media_of_messages(prompt)
    return [rollout_of(record, turns_of_prompt(prompt), response, prompt_media=media, excluded=excluded)]


FORMAT = Format(
    "verifiers",
    _recognise,
    _read,
    annotate_line,
    keys=("example_id", "prompt", "completion"),
    example={"example_id": 0, "prompt": [ASKED], "completion": [ANSWERED]},
)
