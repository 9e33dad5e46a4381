"""Replies and refusals, without an HTTP library."""

from typing import Any

from msgspec import Struct


class JsonReply(Struct, frozen=True):
    """A reply: JSON and the HTTP status."""

    content: Any
    status: int = 200


class RefusedError(Exception):
    """A request cannot be served."""

    status = 503
    kind = "unavailable"
