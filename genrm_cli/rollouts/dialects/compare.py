"""The compare request of NeMo Gym's `genrm_compare`: `conversation_history` and `response_objs`."""

from genrm_cli.rollouts.dialects.dialect import Dialect, annotate_list
from genrm_cli.rollouts.dialects.fields import Record, turns_of_prompt
from genrm_cli.rollouts.dialects.many import read_list
from genrm_cli.rollouts.record import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return "conversation_history" in record and isinstance(record.get("response_objs"), list)


def _read(record: Record) -> list[Rollout]:
    responses = record.get("response_objs")
    if not isinstance(responses, list):
        raise UnreadableRecordError("response_objs is not a list")
    return read_list(record, turns_of_prompt(record.get("conversation_history")), responses)


DIALECT = Dialect("compare", _recognise, _read, annotate_list)
