"""JSON as an instance of a class, checked while it is read."""

from threading import Lock
from typing import TypeVar

import msgspec

_T = TypeVar("_T")
# Threads that read a class for the first time together crash the process: `msgspec` shows each of
# them the description of the class that another still writes. Reading holds the interpreter's lock
# anyway.
_ONE_AT_A_TIME = Lock()

FormError = msgspec.ValidationError
"""A JSON value does not have the form of a class; the message has the path of the member, what was
found and what was expected.
"""


def from_json(form: type[_T], value: object) -> _T:
    """Return the instance that a JSON object holds, or raise `FormError`."""
    with _ONE_AT_A_TIME:
        return msgspec.convert(value, form)


def parse_json(form: type[_T], raw: bytes) -> _T:
    """Return the instance that JSON text holds; NaN is not JSON.

    Raises:
        ValueError: it is not JSON, or, as a `FormError`, it has another form.
    """
    try:
        with _ONE_AT_A_TIME:
            return msgspec.json.decode(raw, type=form)
    # Not a ValueError: the decoder recurses as deep as the text nests.
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
