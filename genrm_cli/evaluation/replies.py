"""Read recorded replies of a judge to labelled pairs, to measure it without making calls."""

from typing import Any

from genrm_cli.errors import InputError
from genrm_cli.storage.encoding.records import parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.source import open_source

Replies = dict[tuple[str, bool], str]
"""Replies by the id of the pair, and whether its chosen response was shown first."""

_EXPECTED = "expected id, chosen_first and reply, or an output of JudgeBench (pair_id, label, judgments)"


def read_replies(uri: str, s3: S3Options, max_line_bytes: int) -> Replies:
    """Read a file of replies: lines of `id`, `chosen_first` and `reply`, or JudgeBench's outputs.

    A reply that is null is that of a call that failed: there is none.

    Raises:
        InputError: a line is neither, or repeats a reply.
        StorageError: the file cannot be read.
    """
    replies: Replies = {}
    with open_source(uri, s3, max_line_bytes) as source:
        for line in source.iter_lines():
            where = f"{uri}: line {line.number}"
            try:
                found = _replies_of(parse_record(line.raw))
            except ValueError as error:
                raise InputError(f"{where}: {error}; {_EXPECTED}.") from error
            except (AttributeError, KeyError, TypeError) as error:
                raise InputError(f"{where}: no recorded reply; {_EXPECTED}.") from error
            if repeated := found.keys() & replies.keys():
                raise InputError(f"{where}: a second reply for {next(iter(repeated))[0]!r} in the same order.")
            replies |= found
    return replies


def _replies_of(record: dict[str, Any]) -> Replies:
    found: dict[tuple[str, bool], object]
    if "judgments" not in record:
        if not isinstance(record["chosen_first"], bool):
            raise ValueError(f"chosen_first is {record['chosen_first']!r}, not true or false")
        found = {(str(record["id"]), record["chosen_first"]): record["reply"]}
    else:
        if record["label"] not in ("A>B", "B>A"):
            raise ValueError(f"label is {record['label']!r}, not 'A>B' or 'B>A'")
        # The first judgment shows A first, the second B.
        found = {
            (str(record["pair_id"]), (record["label"] == "A>B") == (number == 0)): judgment["judgment"]["response"]
            for number, judgment in enumerate(record["judgments"][:2])
            if judgment is not None
        }
    return {order: str(reply) for order, reply in found.items() if reply is not None}
