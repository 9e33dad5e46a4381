"""NeMo Gym: `responses_create_params` and a Responses API object as `response`, one rollout per
line; and the requests of its `genrm_compare`.

Source: the record format of NVIDIA NeMo Gym's `gym eval run` (formerly `ng_collect_rollouts`).
"""

from collections.abc import Sequence

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import Format, Score, annotate_line
from genrm_cli.rollouts.formats.shapes import read_alternatives
from genrm_cli.rollouts.reading.answers import (
    asked_in_messages,
    is_empty,
    items_of_output,
    messages_of_request,
)
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.record_fields import (
    UNJUDGED_MARKS,
    is_truncated,
    is_unjudged,
    rollout_of,
)
from genrm_cli.rollouts.rollout import (
    Rollout,
    UnreadableRecordError,
    has_client,
    split_opening,
)


def _read(record: Record) -> list[Rollout]:
    request = record.get("responses_create_params")
    if not isinstance(request, dict):
        raise UnreadableRecordError("responses_create_params is not an object")
    messages = messages_of_request(request.get("input"), request.get("instructions"))
    asked = asked_in_messages(messages)
    response = record.get("response")
    if is_empty(response):
        return [rollout_of(record, asked.turns, None, prompt_media=asked.media)]
    if not isinstance(response, dict):
        raise UnreadableRecordError("response is not an object, expected one with output")
    # Some environments put the task into the first turns of the output, with an empty input.
    opening, items = split_opening(items_of_output(response))
    return [
        rollout_of(
            record,
            asked.turns + opening,
            items,
            prompt_media=asked.media,
            is_truncated=is_truncated(record) or is_truncated(response),
            is_session=has_client(items),  # `gymnasium_agent` writes its turns among the policy's
        )
    ]


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    """Annotate a line; NeMo RL requires that `reward_components`, if present, add up to
    `reward`. A row that was masked because its judge failed counts once it has a reward.
    """
    annotate_line(record, scores)
    if is_unjudged(record) and record["reward"] is not None:
        counted = unmasked(record)
        marks = {
            f"previous_{name}": value
            for name, value in record.items()
            if counted.get(name) is not value
        }
        record.clear()
        record.update(counted)
        record["genrm"] |= marks
    if before := record.get("reward_components"):
        reward = record["reward"]
        record["genrm"]["previous_reward_components"] = before
        record["reward_components"] = {} if reward is None else {"genrm": reward}


def unmasked(row: JsonObject) -> Record:
    """Return a row, now that it has a reward, without the marks of a judge that failed before."""
    row = {**row}
    if not is_unjudged(row):
        return row
    for name in UNJUDGED_MARKS:
        row.pop(name, None)
    if "mask_sample" in row:
        row["mask_sample"] = False
    config = row.get("instance_config")
    if isinstance(config, dict) and "mask_sample" in config:
        row["instance_config"] = {**config, "mask_sample": False}
    return row


def _read_compare(record: Record) -> list[Rollout]:
    responses = record.get("response_objs")
    history = record.get("conversation_history")
    if not isinstance(responses, list) or not isinstance(history, list | None):
        raise UnreadableRecordError("expected response_objs and conversation_history as lists")
    # As for NeMo Gym, a message without a role is the user's.
    asked = [{"role": "user", **each} if isinstance(each, dict) else each for each in history or ()]
    return read_alternatives(record, asked, responses)


NEMO_GYM_FORMATS = (
    Format(
        "nemo_gym",
        lambda record: isinstance(record.get("responses_create_params"), dict),
        _read,
        annotate_rollout=_annotate,
        fields=Fields(prompt=("responses_create_params",), response=("response",)),
        owns_line=True,
    ),
    Format(
        "compare",
        lambda record: (
            "conversation_history" in record and isinstance(record.get("response_objs"), list)
        ),
        _read_compare,
        rows=lambda record: record["response_objs"],
        fields=Fields(prompt=("conversation_history",), response=("response_objs",)),
        owns_line=True,
    ),
)
