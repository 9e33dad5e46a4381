"""Groups as compressed blocks in the page, opened one at a time."""

import gzip
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager

from genrm_cli.json_types import Record
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.spool import Pieces, Spool

# A block is unpacked as a whole when one of its groups is opened: small enough to open at once,
# large enough that similar texts compress each other.
_GROUPS = 32
_BLOCK_BYTES = 1 << 19
_LEVEL = 5  # of gzip; 6 takes half as long again for 2 % less


class Blocks(AbstractContextManager["Blocks"]):
    """Blocks of groups in a temporary file; 16 bytes of memory per block."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._blocks = Pieces(self._spool)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    @property
    def size_bytes(self) -> int:
        """Bytes of all blocks as text."""
        return len(self._spool)

    def add(self, document: Record) -> tuple[int, int]:
        """Add a group; return the numbers of its block and of its place there."""
        line = render_record(document).rstrip()
        place = len(self._blocks), len(self._waiting)
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        if len(self._waiting) == _GROUPS or self._waiting_bytes >= _BLOCK_BYTES:
            self.finish()
        return place

    def finish(self) -> None:
        """Close the last block."""
        if self._waiting:
            self._blocks.add(len(self._blocks), packed(b"[" + b",".join(self._waiting) + b"]"))
            self._waiting = []
            self._waiting_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        return map(self._blocks.__getitem__, range(len(self._blocks)))


def packed(data: bytes) -> bytes:
    """Return data compressed, in base64: it cannot end a script element."""
    return b64encode(gzip.compress(data, _LEVEL, mtime=0))
