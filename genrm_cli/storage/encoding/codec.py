"""Streaming compression and decompression, selected by suffix: `.gz`, `.zst` or none."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

import zstandard

from genrm_cli.errors import InputError, StorageError

CHUNK_BYTES = 1 << 20
# A zstandard block of a few bytes can expand to 128 KiB, and the decoder does not limit the output
# of one call. Steps this small cost nothing and bound it at 16 MB for the most repetitive input.
_ZSTD_STEP_BYTES = 1 << 9
_GZIP_LEVEL = 6  # the default of gzip
_GZIP_WINDOW_BITS = 31  # 15 for the window, 16 for the gzip header, which zlib writes with mtime 0
_ZSTD_LEVEL = 3  # the default of zstd


class Encoder(NamedTuple):
    """Functions that add data to a stream, often returning nothing yet, and that end it."""

    compress: Callable[[bytes], bytes]
    flush: Callable[[], bytes]


def is_compressed(uri: str) -> bool:
    """Return whether the suffix of a URI means compressed content."""
    return uri.endswith((".gz", ".zst"))


def make_encoder(uri: str) -> Encoder:
    """Return the encoder for the suffix of a URI; equal data gives equal bytes."""
    if uri.endswith(".gz"):
        gzipped = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
        return Encoder(gzipped.compress, gzipped.flush)
    if uri.endswith(".zst"):
        packed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compressobj()
        return Encoder(packed.compress, packed.flush)
    return Encoder(bytes, bytes)


def pack(data: bytes) -> bytes:
    """Compress a small object in one piece."""
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(data)


def unpack(data: bytes, uri: str) -> bytes:
    """Decompress the output of `pack`, or raise `StorageError`."""
    try:
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise StorageError(
            f"{uri}: damaged, or not written by genrm ({error}); move it away"
        ) from error


def iter_decoded(stream: BinaryIO, uri: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of a stream; an empty stream yields nothing."""
    try:
        if uri.endswith(".gz"):
            yield from _iter_chunks(gzip.GzipFile(fileobj=stream))
        elif uri.endswith(".zst"):
            yield from iter_zstd(stream)
        else:
            yield from _iter_chunks(stream)
    except EOFError as error:
        raise InputError(
            f"{uri}: the compressed data is truncated; copy or write the file again"
        ) from error
    except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise InputError(
            f"{uri}: cannot be decompressed according to its suffix ({error}); check that it is "
            "complete and has the right name"
        ) from error


def _iter_chunks(stream: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def iter_zstd(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all frames; unlike zstandard, raise EOFError when the last one is
    truncated.
    """
    frames = zstandard.ZstdDecompressor()
    frame = None
    while data := stream.read(_ZSTD_STEP_BYTES):
        while data:
            frame = frame or frames.decompressobj()
            if content := frame.decompress(data):
                yield content
            data = b""
            if frame.eof:
                data = frame.unused_data
                frame = None
    if frame is not None:
        raise EOFError
