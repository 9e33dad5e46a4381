"""Replies in files that another program wrote, by the request that each one answers.

Lines stay in a spool and are parsed when a request asks for them. What no request of the run asked
for in the end was written for another run.
"""

from array import array
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from genrm_cli.errors import BadInputLineError, naming
from genrm_cli.judging.client import CallError
from genrm_cli.judging.offline import parse_reply_line
from genrm_cli.judging.requests import Reply
from genrm_cli.metrics.event import Event
from genrm_cli.storage.encoding.records import Line, parse_record
from genrm_cli.storage.source import Source
from genrm_cli.storage.spool import Pieces, Spool
from genrm_cli.texts.late_pattern import late_pattern

_ID = late_pattern("[0-9a-f]{64}")  # hexadecimal SHA-256 of a request
_FOREIGN = "it answers no request of this run (other rollouts, another model, or other settings)"
_NAMED = 3  # places shown with each reason


class RepliesEvent(Event, frozen=True):
    """Replies were read from files; `used` of them answer requests of this run.

    Attributes:
        refused: replies that were refused: their number, some of their places, and the reason.
    """

    replies: int
    used: int
    refused: Sequence[tuple[int, str, str]]


class Replies(AbstractContextManager["Replies"]):
    """Replies by request, in a temporary file; some 400 bytes of memory each."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._lines = Pieces(self._spool)
        self.uris: list[str] = []
        self._places = array("Q")  # of each reply: its file and its line
        self._numbers: dict[bytes, list[int]] = {}
        self._is_used = bytearray()
        self._refused: dict[str, tuple[int, list[str]]] = {}

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def __len__(self) -> int:
        return len(self._is_used)

    @property
    def used(self) -> int:
        """Number of replies to requests of this run."""
        return sum(self._is_used)

    def add(self, source: Source) -> None:
        """Add the replies of a file; lines that are not replies are counted as refused.

        Raises:
            InputError: the file is damaged.
        """
        self.uris.append(source.uri)
        for line in source.iter_lines():
            try:
                id_ = _id_in(line)
            except BadInputLineError as error:
                _add(self._refused, str(error), f"{source.uri}:{line.number}")
                continue
            number = len(self)
            self._numbers.setdefault(id_, []).append(number)
            self._lines.add(number, line.raw)
            self._is_used.append(False)
            self._places.extend((len(self.uris) - 1, line.number))

    def replies_to(self, id_: bytes) -> Iterable[Reply | CallError]:
        """Return the replies to a request of this run, parsed one by one."""
        numbers = self._numbers.get(id_, [])
        # At once, and not as they are parsed: a reply that is not needed is not foreign.
        for number in numbers:
            self._is_used[number] = True
        lines = (self._lines[number] for number in numbers)
        replies = (parse_reply_line(parse_record(line)) for line in lines)
        return (reply for reply in replies if reply is not None)

    def refused(self) -> list[tuple[int, str, str]]:
        """Return the reply lines ignored so far: their number, some places, and the reason."""
        found = dict(self._refused)
        for number, is_used in enumerate(self._is_used):
            if not is_used:
                file, line = self._places[2 * number : 2 * number + 2]
                _add(found, _FOREIGN, f"{self.uris[file]}:{line}")
        return [(count, ", ".join(places), reason) for reason, (count, places) in found.items()]


def _add(refused: dict[str, tuple[int, list[str]]], reason: str, place: str) -> None:
    count, places = refused.get(reason, (0, []))
    refused[reason] = count + 1, [*places, place][:_NAMED]


def _id_in(line: Line) -> bytes:
    """Return the id of the request that a line answers; refuse anything but a reply to one of our
    requests.
    """
    if line.oversize is not None:
        raise BadInputLineError(
            f"it has {line.oversize:,} bytes; ", naming("raise $max_line_bytes")
        )
    try:
        record = parse_record(line.raw)
    except BadInputLineError as error:
        raise BadInputLineError(f"{error.kind}: the file is cut off or damaged") from error
    if "response" not in record and "body" in record:
        raise BadInputLineError(
            "it is a request, not a reply: name the file that was written from it"
        )
    id_ = record.get("custom_id")
    if not isinstance(id_, str) or _ID.fullmatch(id_) is None:
        raise BadInputLineError("its custom_id is not that of a request of genrm")
    return bytes.fromhex(id_)
