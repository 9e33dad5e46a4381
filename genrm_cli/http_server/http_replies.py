"""Replies and refusals, without an HTTP library."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JsonReply:
    """A reply: JSON and the HTTP status."""

    content: Any
    status: int = 200


class RefusedError(Exception):
    """A request cannot be served."""

    status = 503
    kind = "unavailable"
