"""Fields of JSON lines that appear too late for `datasets`.

Source: datasets 5.2.0, `packaged_modules/json/json.py`: it infers the fields of a file from its first 10 MiB.
"""

from collections.abc import Iterator
from typing import Any

_INFERRED_BYTES = 10 << 20


class LateFields:
    """Find the fields, including nested ones, that no row in the first 10 MiB of a file has."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._bytes = 0
        self.names: set[str] = set()

    def add(self, row: dict[str, Any], size_bytes: int) -> None:
        """Look at the next row of the file."""
        fields = set(_iter_fields(row))
        if self._bytes < _INFERRED_BYTES:
            self._known |= fields
        else:
            self.names |= fields - self._known
        self._bytes += size_bytes


def _iter_fields(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield path + name
            yield from _iter_fields(each, f"{path}{name}.")
    elif isinstance(value, list):
        for each in value:
            yield from _iter_fields(each, path)
