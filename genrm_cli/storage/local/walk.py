"""Listing of local files, in the order in which S3 lists keys."""

import errno
import os
import re
import stat
import time
from collections.abc import Iterator

from genrm_cli.errors import InputError
from genrm_cli.storage.contract import Found, InputIdentity
from genrm_cli.storage.location import REMOTE, unreadable
from genrm_cli.storage.patterns import is_match, literal_folder, parse_pattern, split_pattern

_SCHEMES = tuple(scheme.removesuffix("//") for scheme in REMOTE)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # ELOOP: a symbolic link to itself


def iter_matching_files(path: str) -> Iterator[Found]:
    """Yield the files below a folder, or matching a pattern; memory holds their names."""
    rest = ""
    if not os.path.isdir(path):  # noqa: PTH112
        if os.path.lexists(path):
            yield from iter_if_file(path)
            return
        rest = split_pattern(path)[1]
    folder = literal_folder(path)
    if not os.path.isdir(folder):  # noqa: PTH112
        raise InputError(f"{path}: the folder {folder} does not exist; check the path")
    # On disk, unlike on S3, repeated slashes mean the same folder.
    pattern = parse_pattern(re.sub("/+", "/", rest))
    start = "" if folder == "." else f"{folder.rstrip('/')}/"
    for relative in sorted(_iter_below(start or "./", pattern), key=os.fsencode):
        # A file whose name looks like a stream or a remote URI.
        is_ambiguous = relative == "-" or relative.startswith(_SCHEMES)
        safe = "./" if not start and is_ambiguous else start
        yield from iter_if_file(safe + relative)


def _iter_below(start: str, pattern: tuple[str, ...]) -> Iterator[str]:
    """Yield the matching paths of anything but folders, relative to the start."""
    for path, folders, names in os.walk(start, onerror=_refuse_unreadable):
        above = tuple(filter(None, path[len(start) :].split("/")))
        folders[:] = [name for name in folders if is_match(pattern, (*above, name), is_folder=True)]
        for name in names:
            if is_match(pattern, (*above, name)):
                yield "/".join((*above, name))


def _refuse_unreadable(error: OSError) -> None:
    if error.errno not in _GONE:
        raise unreadable(error.filename, error) from error


def sorted_names(folder: str) -> list[str]:
    """Return the names in a folder in their order; none if it does not exist."""
    try:
        return sorted(os.listdir(folder or "."), key=os.fsencode)  # noqa: PTH208
    except OSError as error:
        _refuse_unreadable(error)
        return []


def iter_if_file(path: str) -> Iterator[Found]:
    """Yield a path if it is a regular file and still exists."""
    try:
        status = os.stat(path)  # noqa: PTH116  (the path stays as the user wrote it)
    except OSError as error:
        _refuse_unreadable(error)
        return
    if stat.S_ISREG(status.st_mode):
        yield Found(identity_of(path, status), max(0.0, time.time() - status.st_mtime))


def identity_of(path: str, status: os.stat_result) -> InputIdentity:
    """Return the identity of a local file; a pipe has none, as it yields different bytes each
    time.
    """
    if not stat.S_ISREG(status.st_mode):
        return InputIdentity(path)
    return InputIdentity(
        path,
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        inode=status.st_ino,
    )
