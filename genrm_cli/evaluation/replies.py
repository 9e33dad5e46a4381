"""Read recorded replies of a judge to labelled pairs, to measure it without making calls."""

from typing import Any

from genrm_cli.errors import InputError
from genrm_cli.storage.formats.location import S3Options
from genrm_cli.storage.formats.records import BadLineError, parse_record
from genrm_cli.storage.source import open_source

Replies = dict[tuple[str, bool], str]
"""Replies by the id of the pair, and whether its chosen response was shown first."""

_EXPECTED = "expected id, chosen_first and reply, or an output of JudgeBench (pair_id, label, judgments)"


def read_replies(uri: str, s3: S3Options, max_line_bytes: int) -> Replies:
    """Read a file of replies: lines of `id`, `chosen_first` and `reply`, or JudgeBench's outputs.

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
            except (BadLineError, KeyError, TypeError, IndexError) as error:
                raise InputError(f"{where}: no recorded reply ({error!r}); {_EXPECTED}.") from error
            if repeated := found.keys() & replies.keys():
                raise InputError(f"{where}: a second reply for {next(iter(repeated))[0]!r} in the same order.")
            replies |= found
    return replies


def _replies_of(record: dict[str, Any]) -> Replies:
    if "judgments" not in record:
        return {(str(record["id"]), bool(record["chosen_first"])): str(record["reply"])}
    # The first judgment shows A first, the second B; a call that failed left none.
    is_a_chosen = record["label"] == "A>B"
    return {
        (str(record["pair_id"]), is_a_chosen == (number == 0)): str(judgment["judgment"]["response"])
        for number, judgment in enumerate(record["judgments"][:2])
        if judgment is not None
    }
