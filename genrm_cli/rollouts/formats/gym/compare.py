"""The compare request of NeMo Gym's `genrm_compare`: `conversation_history` and `response_objs`."""

from collections.abc import Mapping

from genrm_cli.rollouts.formats.format import ANSWERED, ANSWERED_TOO, ASKED, Format, annotate_list, own_of_lists
from genrm_cli.rollouts.formats.plain.many import PARALLEL, read_list
from genrm_cli.rollouts.reading.content import media_of_messages
from genrm_cli.rollouts.reading.fields import Record
from genrm_cli.rollouts.reading.messages import turns_of_prompt
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return "conversation_history" in record and isinstance(record.get("response_objs"), list)


def _read(record: Record) -> list[Rollout]:
    responses = record.get("response_objs")
    if not isinstance(responses, list):
        raise UnreadableRecordError("response_objs is not a list")
    history = record.get("conversation_history")
    if isinstance(history, list):  # as for NeMo Gym, a message without a role is the user's
        history = [{"role": "user", **message} if isinstance(message, Mapping) else message for message in history]
    return read_list(record, turns_of_prompt(history), responses, media_of_messages(history))


FORMAT = Format(
    "compare",
    _recognise,
    _read,
    annotate_list,
    own_of_lists(PARALLEL, ("response_objs",)),
    keys=("conversation_history", "response_objs"),
    example={"conversation_history": [ASKED], "response_objs": [{"output": [ANSWERED]}, {"output": [ANSWERED_TOO]}]},
)
