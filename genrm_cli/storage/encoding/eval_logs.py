"""inspect_ai logs (`.eval`): zip archives with each sample as a JSON file.

Source: UKGovernmentBEIS/inspect_ai `log/_recorders/eval.py`, `_util/zipfile.py` (zstandard frames
as zip method 93)."""

import io
import shlex
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

import zstandard

from genrm_cli.errors import InputError
from genrm_cli.storage.encoding.codec import CHUNK_BYTES, iter_zstd
from genrm_cli.storage.encoding.records import EXCERPT_BYTES, Line
from genrm_cli.storage.location import is_remote, is_stream, stem_of
from genrm_cli.texts.late_pattern import late_pattern

_SAMPLE = late_pattern(r"samples/.+\.json")
_IN_PARTS = late_pattern(r"samples/.+/sample\.json")
# Of the zip format: APPNOTE 4.4.5, 4.4.4 and 4.3.7.
_ZSTANDARD = 93
_ENCRYPTED = 0x1
_LOCAL_HEADER_BYTES = 30
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
    struct.error,
    EOFError,
    NotImplementedError,
    UnicodeDecodeError,
)
# A dump of slime holds `samples`. Without `weights_only`, loading a file runs any code in it.
TORCH_ADVICE = (
    "convert it: python3 -c 'import json, sys, torch; "
    'samples = torch.load(sys.argv[1], weights_only=True)["samples"]; '
    "[print(json.dumps(each, default=str)) for each in samples]' {file} > {new}"
)
_PICKLE = late_pattern(r"(.*/)?data\.pkl$")


def refusal(uri: str, kind: str, advice: str) -> InputError:
    """Return the error of a file without readable records; `{file}` and `{new}` in the advice are
    its names.
    """
    file = "FILE" if is_stream(uri) or is_remote(uri) else uri
    new = f"{stem_of(file)}.new.jsonl"
    advice = advice.replace("{file}", shlex.quote(file)).replace("{new}", shlex.quote(new))
    return InputError(f"{uri}: {kind}, not JSON lines; {advice}")


def iter_samples(file: BinaryIO, uri: str, max_bytes: int) -> Iterator[Line]:
    """Yield the samples of a log, numbered from 1 in the order of the archive; the last of equal
    names counts.

    A sample over `max_bytes` is marked oversize, and no more than that of it is ever decompressed.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            for number, entry in enumerate(_samples_of(archive, uri), 1):
                if entry.compress_type == _ZSTANDARD:  # which zipfile reads from Python 3.14 on
                    chunks = iter_zstd(io.BytesIO(_stored_bytes(file, entry)))
                else:
                    chunks = iter(partial(archive.open(entry).read, CHUNK_BYTES), b"")
                pieces: list[bytes] = []
                count = 0
                while count <= max_bytes and (chunk := next(chunks, b"")):
                    pieces.append(chunk)
                    count += len(chunk)
                content = b"".join(pieces)
                if len(content) > max_bytes:
                    yield Line(number, content[:EXCERPT_BYTES], max(entry.file_size, len(content)))
                    continue
                if zlib.crc32(content) != entry.CRC:
                    raise zipfile.BadZipFile(f"wrong checksum of {entry.filename}")
                yield Line(number, content)
    except _DAMAGED as error:
        remedy = "copy it again, or finish the run that writes it"
        raise InputError(f"{uri}: not a complete zip archive ({error}); {remedy}") from error


def _samples_of(archive: zipfile.ZipFile, uri: str) -> list[zipfile.ZipInfo]:
    entries = archive.NameToInfo
    if any(map(_PICKLE.match, entries)):
        raise refusal(uri, "a PyTorch file", TORCH_ADVICE)
    if any(map(_IN_PARTS.fullmatch, entries)):
        raise InputError(
            f"{uri}: its samples are stored in chunks; convert it with `inspect log convert --to "
            "json`"
        )
    samples = [entry for name, entry in entries.items() if _SAMPLE.fullmatch(name)]
    if not samples and not {"header.json", "_journal/start.json"} & entries.keys():
        raise InputError(
            f"{uri}: a zip archive, but not a log of inspect_ai; extract it and name the files in "
            "it"
        )
    if any(entry.flag_bits & _ENCRYPTED for entry in samples):
        raise InputError(f"{uri}: an encrypted zip archive; extract it and name the files in it")
    return samples


def _stored_bytes(file: BinaryIO, entry: zipfile.ZipInfo) -> bytes:
    file.seek(entry.header_offset)
    header = file.read(_LOCAL_HEADER_BYTES)
    names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    file.seek(names, io.SEEK_CUR)
    return file.read(entry.compress_size)
