"""Events of requests and replies in files, and of batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from genrm_cli.json_types import Record
from genrm_cli.metrics.event import Event
from genrm_cli.verdicts import FailureKind


class WrittenRequests(NamedTuple):
    """A file of requests."""

    uri: str
    model: str
    requests: int


@dataclass(frozen=True, slots=True)
class RequestsEvent(Event):
    """Files of requests were written.

    Attributes:
        failures: why earlier replies gave no verdict, by kind: how many, and the first reason.
    """

    files: Sequence[WrittenRequests]
    failures: Mapping[FailureKind, tuple[int, str]]

    def as_dict(self) -> Record:
        """Return the fields of a log line, with each file as an object."""
        return Event.as_dict(self) | {"files": [file._asdict() for file in self.files]}


@dataclass(frozen=True, slots=True)
class RepliesEvent(Event):
    """Replies were read from files; `used` of them answer requests of this run.

    Attributes:
        refused: replies that were refused: their number, some of their places, and the reason.
    """

    replies: int
    used: int
    refused: Sequence[tuple[int, str, str]]
