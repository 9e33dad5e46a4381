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
from genrm_cli.storage.patterns import (
    Rests,
    advance,
    literal_folder,
    parse_pattern,
    split_pattern,
)

_SCHEMES = tuple(scheme.removesuffix("//") for scheme in REMOTE)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # ELOOP: a symbolic link to itself


def iter_matching_files(path: str) -> Iterator[Found]:
    """Yield the files below a folder, or matching a pattern."""
    if os.path.isdir(path):  # noqa: PTH112
        rest = ""
    elif os.path.lexists(path):
        yield from iter_if_file(path)
        return
    else:
        rest = split_pattern(path)[1]
    folder = literal_folder(path)
    if not os.path.isdir(folder):  # noqa: PTH112
        raise InputError(f"{path}: the folder {folder} does not exist; check the path")
    # On disk, unlike on S3, repeated slashes mean the same folder.
    pattern = parse_pattern(re.sub("/+", "/", rest))
    start = "" if folder == "." else f"{folder.rstrip('/')}/"
    for relative in _iter_walk(start, pattern):
        # A file whose name looks like a stream or a remote URI.
        is_ambiguous = relative == "-" or relative.startswith(_SCHEMES)
        safe = "./" if not start and is_ambiguous else start
        yield from iter_if_file(safe + relative)


def _iter_walk(start: str, pattern: Rests) -> Iterator[str]:
    """Yield the matching paths of anything but folders, relative to the start."""
    # An explicit stack, as folders may nest deeper than the recursion limit.
    walks = [_iter_fitting(start, "", pattern)]
    while walks:
        step = next(walks[-1], None)
        if step is None:
            walks.pop()
            continue
        path, rests = step
        if path.endswith("/"):
            walks.append(_iter_fitting(start, path, rests))
        else:
            yield path


def _iter_fitting(start: str, folder: str, rests: Rests) -> Iterator[tuple[str, Rests]]:
    """Yield the matching files of one folder, and the folders (with a final `/`) that may contain
    matches.
    """
    for name in sorted_entries(start + folder):
        after = advance(rests, name.removesuffix("/"))
        if after if name.endswith("/") else () in after:
            yield folder + name, after


def sorted_entries(folder: str) -> list[str]:
    """Return the names in a folder; folders have a final `/`, so that names sort as S3 keys do."""
    try:
        with os.scandir(folder or ".") as entries:
            names = [
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in entries
            ]
    except OSError as error:
        if error.errno in _GONE:
            return []
        raise unreadable(folder or ".", error) from error
    return sorted(names, key=os.fsencode)


def iter_if_file(path: str) -> Iterator[Found]:
    """Yield a path if it is a regular file and still exists."""
    try:
        status = os.stat(path)  # noqa: PTH116  (the path stays as the user wrote it)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise unreadable(path, error) from error
    if stat.S_ISREG(status.st_mode):
        yield Found(InputIdentity.of_file(path, status), max(0.0, time.time() - status.st_mtime))
