"""Many responses in one line: `prompt` with a list of `responses` or `completions`; the line is a whole group."""

from genrm_cli.rollouts.formats.format import ANSWER, OTHER_ANSWER, QUESTION, Format, annotate_list, own_of_lists
from genrm_cli.rollouts.reading.content import media_of_messages
from genrm_cli.rollouts.reading.fields import Record, is_truncated, rollout_of
from genrm_cli.rollouts.reading.messages import turns_of_prompt
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Rollout, Turn, UnreadableRecordError

LIST_FIELDS = ("responses", "completions")
# One entry per response, if the list has the same length; all other fields belong to the line.
PARALLEL = (
    *("rewards", "scores", "advantages", "ids", "response_ids", "rollout_ids", "finish_reasons", "stop_reasons"),
    *("lengths", "logprobs", "response_logprobs", "token_ids", "masks", "sampling_params", "seeds", "models"),
    *("reward_components", "predicted_answers", "labels", "is_correct", "metrics"),
)


def _recognise(record: Record) -> bool:
    return "prompt" in record and any(isinstance(record.get(name), list) for name in LIST_FIELDS)


def _read(record: Record) -> list[Rollout]:
    for name in LIST_FIELDS:
        if isinstance(record.get(name), list):
            media = media_of_messages(record.get("prompt"))
            return read_list(record, turns_of_prompt(record.get("prompt")), record[name], media)
    raise UnreadableRecordError(f"no list of responses: expected {' or '.join(LIST_FIELDS)}")


def read_list(
    record: Record, prompt: tuple[Turn, ...], responses: list[object], media: tuple[str, ...] = ()
) -> list[Rollout]:
    """Read a list of responses to one prompt as one group, in the order of the list.

    They have no rollout index: if `--group-by` joins lines, their positions would look like duplicates.
    """
    if not responses:
        raise UnreadableRecordError("the list of responses is empty")
    reasons = record.get("finish_reasons", record.get("stop_reasons"))
    stops = reasons if isinstance(reasons, list) and len(reasons) == len(responses) else [None] * len(responses)
    return [
        rollout_of(
            record,
            prompt,
            items_of_response(response),
            index=None,
            task=None,
            line_is_group=True,
            is_truncated=is_truncated({"finish_reason": stop})
            or (isinstance(response, dict) and is_truncated(response)),
            prompt_media=media,
        )
        for response, stop in zip(responses, stops, strict=True)
    ]


FORMAT = Format(
    "many",
    _recognise,
    _read,
    annotate_list,
    own_of_lists(PARALLEL, LIST_FIELDS),
    keys=("prompt", *LIST_FIELDS),
    example={"prompt": QUESTION, "responses": [ANSWER, OTHER_ANSWER]},
)
