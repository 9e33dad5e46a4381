"""Parse what `genrm compare` is given: a compare request, or a conversation."""

from collections.abc import Sequence

from genrm_cli.errors import InputError
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.dialects import DIALECTS
from genrm_cli.rollouts.reading.messages import turns_of_prompt
from genrm_cli.rollouts.record import Rollout, Turn, UnreadableRecordError
from genrm_cli.storage.formats.records import BadLineError, parse_record, parse_value


def parse_request(text: bytes, where: str, require_metadata: Sequence[str] = ()) -> list[Rollout]:
    """Read a compare request: `conversation_history`, `response_objs`, and perhaps a `principle`.

    Args:
        text: the request.
        where: its name in errors.
        require_metadata: `FIELD=VALUE` pairs that the request must declare.

    Raises:
        InputError: it cannot be read, or does not declare what it must.
    """
    requirements = [parse_requirement(required) for required in require_metadata]
    try:
        record = parse_record(text)
        rollouts = DIALECTS["compare"].read(record)
    except (BadLineError, UnreadableRecordError) as error:
        raise InputError(
            f"{where}: {error}. Expected a compare request, as in "
            '{"conversation_history": [{"role": "user", "content": "..."}], "response_objs": [...]}.'
        ) from error
    try:
        check_declared(record, requirements)
    except UnreadableRecordError as error:
        raise InputError(f"{where}: {error}.") from error
    return rollouts


def parse_history(text: bytes, where: str) -> tuple[Turn, ...]:
    """Read a conversation: a JSON list of messages, or an object with `messages` or `conversation_history`.

    Raises:
        InputError: it is neither of them.
    """
    try:
        value = parse_value(text)
        if isinstance(value, dict):
            value = value.get("messages", value.get("conversation_history"))
        if not isinstance(value, list):
            raise UnreadableRecordError("no list of messages")
        return turns_of_prompt(value)
    except (BadLineError, UnreadableRecordError) as error:
        raise InputError(
            f'{where}: {error}. Expected messages, as in [{{"role": "user", "content": "..."}}].'
        ) from error
