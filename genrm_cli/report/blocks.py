"""Groups as compressed blocks, opened one at a time, in the page or in a folder next to it."""

import contextlib
import gzip
import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from genrm_cli.errors import UsageError, naming
from genrm_cli.json_types import Record
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.storage.location import S3Options, is_s3
from genrm_cli.storage.sink import is_streamed, make_folder, open_sink
from genrm_cli.storage.spool import Spool

_GROUPS = 32
_BLOCK_BYTES = 1 << 19
# The escape itself first. HTML changes the two next ones; the last could begin a tag or a comment.
_ESCAPED = {b"\x7f": b"e", b"\0": b"0", b"\r": b"r", b"<": b"l"}
_LEVEL = 5  # of gzip; 6 takes half as long again for 2 % less


class Blocks(AbstractContextManager["Blocks"]):
    """Blocks of groups in a temporary file; 16 bytes of memory per block."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._spans: list[tuple[int, int]] = []
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def size_bytes(self) -> int:
        """Bytes of all blocks as text."""
        return len(self._spool)

    def add(self, document: Record) -> tuple[int, int]:
        """Add a group; return the numbers of its block and of its place there."""
        line = render_record(document).rstrip()
        place = len(self._spans), len(self._waiting)
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        if len(self._waiting) == _GROUPS or self._waiting_bytes >= _BLOCK_BYTES:
            self.finish()
        return place

    def finish(self) -> None:
        """Close the last block."""
        if self._waiting:
            self._spans.append(self._spool.append(packed(b"[" + b",".join(self._waiting) + b"]")))
            self._waiting, self._waiting_bytes = [], 0

    def __iter__(self) -> Iterator[bytes]:
        for span in self._spans:
            yield self._spool.read(*span)


def packed(data: bytes) -> bytes:
    """Return data compressed, as ASCII that neither ends a script element nor is changed by an HTML parser.

    Each character holds seven bits, so a page is an eighth smaller than with base64. The script's `bytesOf` reads it.
    """
    bits = np.unpackbits(np.frombuffer(gzip.compress(data, _LEVEL, mtime=0), dtype=np.uint8))
    bits = np.pad(bits, (0, -len(bits) % 7))
    text = (np.packbits(bits.reshape(-1, 7), axis=1) >> 1).tobytes()
    for character, letter in _ESCAPED.items():
        text = text.replace(character, b"\x7f" + letter)
    return text


_DIGEST_BYTES = 6


class BlockFolder:
    """Blocks as files named after their content, so that an earlier page keeps its own until it is replaced.

    Attributes:
        name: name of the folder next to the page.
        prefix: of the files, `<prefix><number>.js`, as the page names them.
    """

    def __init__(self, target: str, blocks: Blocks, *, overwrite: bool) -> None:
        """Choose the place.

        Raises:
            UsageError: the page does not go to a local file, or the folder exists.
        """
        if is_s3(target) or is_streamed(target):
            raise UsageError(
                naming("the report is larger than $max_size; write it to a local file, or raise $max_size.")
            )
        self.name = f"{Path(target).name.removesuffix('.html')}_files"
        self._path = Path(target).parent / self.name
        if self._path.exists() and not overwrite:
            raise UsageError(
                f"{self._path} exists; ", naming("pass $force to replace it, or choose another output", force=True)
            )
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for block in blocks:
            digest.update(block)
        self.prefix = f"block-{digest.hexdigest()}-"
        self._blocks = blocks
        self._written: list[Path] = []

    def write(self, s3: S3Options, mode: int) -> None:
        """Write the blocks; the page that names them must follow.

        Raises:
            StorageError: a file cannot be written.
        """
        for number, block in enumerate(self._blocks):
            path = self._path / f"{self.prefix}{number}.js"
            if path.exists():
                continue  # an earlier report of the same content
            make_folder(str(path))
            self._written.append(path)
            sink = open_sink(str(path), s3, overwrite=True, mode=mode)
            try:
                sink.write(block_script(number, block))
                sink.commit()
            finally:
                sink.abort()

    def remove_earlier(self) -> None:
        """Remove the blocks of earlier pages; other files are left alone."""
        with contextlib.suppress(OSError):  # they only take up space
            for path in self._path.glob("block-*.js"):
                if not path.name.startswith(self.prefix):
                    path.unlink()

    def discard(self) -> None:
        """Remove the files of a page that was not written."""
        with contextlib.suppress(OSError):
            for path in self._written:
                path.unlink(missing_ok=True)
            self._path.rmdir()  # unless it holds anything else


def block_script(number: int, block: bytes) -> bytes:
    """Return a block as a script: a page opened from disk may read no other files."""
    for character, escaped in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n")):
        block = block.replace(character, escaped)
    return b'genrmBlock(%d, "%s");\n' % (number, block)
