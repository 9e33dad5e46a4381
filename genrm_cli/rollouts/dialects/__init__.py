"""The dialects, and which one a record is written in."""

from genrm_cli.rollouts.dialects import chat, compare, completion, episode, many, nemo_gym, verifiers
from genrm_cli.rollouts.dialects.dialect import Dialect, Score
from genrm_cli.rollouts.dialects.fields import Record
from genrm_cli.rollouts.record import UnreadableRecordError

# Recognised in this order: the more particular shapes first.
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        nemo_gym.DIALECT,
        compare.DIALECT,
        many.DIALECT,
        verifiers.DIALECT,
        episode.DIALECT,
        completion.DIALECT,
        chat.DIALECT,
    )
}


def recognise(record: Record) -> Dialect:
    """Return the dialect that a record is written in.

    Raises:
        UnreadableRecordError: none; the message names the keys that are there.
    """
    for dialect in DIALECTS.values():
        if dialect.recognise(record):
            return dialect
    keys = ", ".join(sorted(record)[:8]) or "none"
    raise UnreadableRecordError(f"unknown shape, no dialect has these keys: {keys}")


__all__ = ["DIALECTS", "Dialect", "Record", "Score", "recognise"]
