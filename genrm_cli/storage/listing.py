"""Listing of the files in a folder, below an S3 prefix or matching a pattern.

Patterns work alike on disk and on S3, name by name: `*`, `?` and `[...]` match within a name, `**`
matches any number of folders, and a name that starts with `.` needs a pattern that does."""

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache, reduce

from genrm_cli.errors import InputError, UsageError
from genrm_cli.storage.location import (
    InputIdentity,
    S3Options,
    is_s3,
    is_stream,
    parse_local_path,
    unreadable,
)

# Unfinished files next to their target.
UNFINISHED_PREFIX = ".genrm-"
UNFINISHED_SUFFIX = ".part"

_WILDCARD = re.compile(r"[*?\[]")
_ANY_FOLDERS = "**"
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # ELOOP: a symbolic link to itself


@dataclass(frozen=True, slots=True)
class Found:
    """A listed file or object, with its age in seconds, by the clock of the store, at least 0."""

    identity: InputIdentity
    age_s: float


# The names of a relative path with wildcards. For a walked path: the possible rests of the pattern.
Names = tuple[str, ...]


def _parse_pattern(text: str) -> Names:
    names = text.split("/")
    if names[-1] == "":  # everything below a folder
        names[-1] = _ANY_FOLDERS
    return (*names, "*") if names[-1] == _ANY_FOLDERS else tuple(names)


def _advance(rests: frozenset[Names], name: str) -> frozenset[Names]:
    """Return the possible rests of the pattern after a name: none without a match, `()` if a path
    may end with it.
    """
    after: set[Names] = set()
    for rest in rests:
        if rest and _compile(rest[0]).match(name):
            after.add(rest if rest[0] == _ANY_FOLDERS else rest[1:])
        if rest and rest[0] == _ANY_FOLDERS:  # it matches no folder, too
            after |= _advance(frozenset({rest[1:]}), name)
    return frozenset(after)


@lru_cache(maxsize=256)
def _compile(name: str) -> re.Pattern[str]:
    return re.compile(translate(name) if name.startswith(".") else rf"(?!\.){translate(name)}")


def is_unfinished_name(name: str) -> bool:
    """Return whether a name is that of an unfinished file."""
    return name.startswith(UNFINISHED_PREFIX) and name.endswith(UNFINISHED_SUFFIX)


def names_many(uri: str) -> bool:
    """Return whether an input is a folder, a prefix or a pattern for `iter_found`.

    An existing local file with a wildcard in its name is one file. An S3 key with a wildcard is a
    pattern that also matches itself."""
    if is_stream(uri):
        return False
    if is_s3(uri):
        return (
            uri.endswith("/")
            or _WILDCARD.search(uri) is not None
            or "/" not in uri.removeprefix("s3://")
        )
    if uri.endswith("/") or os.path.isdir(uri):  # noqa: PTH112  (False below an unreadable folder, where Path raises)
        return True
    return _WILDCARD.search(uri) is not None and not os.path.lexists(uri)


def literal_folder(uri: str) -> str:
    """Return the folder or prefix before the first wildcard, or of a single file, without a final
    `/`; else `.`.
    """
    if is_s3(uri):
        bucket, pattern = _split_bucket(uri)
        return f"s3://{bucket}/{_split_pattern(pattern)[0]}".removesuffix("/")
    if os.path.isdir(uri):  # noqa: PTH112
        folder = uri
    elif os.path.lexists(uri):
        folder = uri[: uri.rfind("/") + 1]
    else:
        folder = _split_pattern(uri)[0]
    return folder.rstrip("/") or ("/" if folder else ".")


def would_find(given: str, place: str) -> bool:
    """Return whether a folder, prefix or pattern finds a file in this place, a canonical name, if
    there is one.
    """
    folder = literal_folder(given)
    start = (folder if is_s3(folder) else os.path.realpath(folder)).rstrip("/") + "/"
    is_folder = folder.rstrip("/") == given.rstrip("/")
    text = given.split("/", 3)[-1] if is_s3(given) else given
    pattern = _parse_pattern("" if is_folder else _split_pattern(text)[1])
    names = place[len(start) :].split("/")
    return place.startswith(start) and () in reduce(_advance, names, frozenset({pattern}))


def iter_found(uri: str, s3: S3Options) -> Iterator[Found]:
    """Yield every file below a folder or prefix, at any depth, or matching a pattern, in the order
    of S3 keys.

    Skips hidden files and folders, S3 folder markers and files that are not regular; does not
    follow symbolic links to folders. Memory holds the names of one folder, or one page of S3 keys.
    """
    return (
        _iter_matching_objects(uri, s3)
        if is_s3(uri)
        else _iter_matching_files(parse_local_path(uri))
    )


def iter_named(start: str, s3: S3Options, *, flat: bool = False) -> Iterator[Found]:
    """Yield every file whose URI starts with a text, hidden ones too; of one folder on disk, or if
    `flat`.
    """
    if is_s3(start):
        bucket, prefix = _split_bucket(start)
        yield from _iter_objects(bucket, prefix, s3, flat=flat)
        return
    folder, slash, name_start = parse_local_path(start).rpartition("/")
    for name in _sorted_entries(folder + slash):
        if name.startswith(name_start) and not name.endswith("/") and not is_unfinished_name(name):
            yield from _iter_if_file(folder + slash + name)


def _iter_matching_objects(uri: str, s3: S3Options) -> Iterator[Found]:
    bucket, text = _split_bucket(uri)
    folder, rest = _split_pattern(text)
    pattern = _parse_pattern(rest)
    prefix = folder + _WILDCARD.split(rest, maxsplit=1)[0]
    skipped = len(f"s3://{bucket}/{folder}")
    for found in _iter_objects(bucket, prefix, s3, flat=len(pattern) == 1):
        fits = reduce(_advance, found.identity.uri[skipped:].split("/"), frozenset({pattern}))
        if (
            () in fits or found.identity.uri == uri
        ):  # a key with wildcard characters also matches itself
            yield found


def _iter_objects(bucket: str, prefix: str, s3: S3Options, *, flat: bool) -> Iterator[Found]:
    # Imported here, as boto3 takes a fifth of a second to import.
    from genrm_cli.storage.s3.whole_objects import iter_objects

    for identity, age_s in iter_objects(bucket, prefix, s3, flat=flat):
        yield Found(identity, age_s)


def _iter_matching_files(path: str) -> Iterator[Found]:
    if os.path.isdir(path):  # noqa: PTH112
        rest = ""
    elif os.path.lexists(path):
        yield from _iter_if_file(path)
        return
    else:
        rest = _split_pattern(path)[1]
    folder = literal_folder(path)
    if not os.path.isdir(folder):  # noqa: PTH112
        raise InputError(f"{path}: the folder {folder} does not exist; check the path")
    # On disk, unlike on S3, repeated slashes mean the same folder.
    pattern = _parse_pattern(re.sub("/+", "/", rest))
    start = "" if folder == "." else f"{folder.rstrip('/')}/"
    for relative in _iter_walk(start, pattern):
        # A file whose name looks like a stream or an S3 URI.
        safe = "./" if not start and (relative == "-" or relative.startswith("s3:")) else start
        yield from _iter_if_file(safe + relative)


def _iter_walk(start: str, pattern: Names) -> Iterator[str]:
    """Yield the matching paths of anything but folders, relative to the start."""
    # An explicit stack, as folders may nest deeper than the recursion limit.
    walks = [_iter_fitting(start, "", frozenset({pattern}))]
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


def _iter_fitting(
    start: str, folder: str, rests: frozenset[Names]
) -> Iterator[tuple[str, frozenset[Names]]]:
    """Yield the matching files of one folder, and the folders (with a final `/`) that may contain
    matches.
    """
    for name in _sorted_entries(start + folder):
        after = _advance(rests, name.removesuffix("/"))
        if after if name.endswith("/") else () in after:
            yield folder + name, after


def _sorted_entries(folder: str) -> list[str]:
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


def _iter_if_file(path: str) -> Iterator[Found]:
    """Yield a path if it is a regular file and still exists."""
    try:
        status = os.stat(path)  # noqa: PTH116  (the path stays as the user wrote it)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise unreadable(path, error) from error
    if stat.S_ISREG(status.st_mode):
        yield Found(InputIdentity.of_file(path, status), max(0.0, time.time() - status.st_mtime))


def _split_bucket(uri: str) -> tuple[str, str]:
    bucket, _, rest = uri.removeprefix("s3://").partition("/")
    if not bucket or _WILDCARD.search(bucket):
        expected = "s3://bucket/prefix/, with wildcards only after the bucket"
        raise UsageError(f"{uri!r} does not name a bucket: expected {expected}")
    return bucket, rest


def _split_pattern(text: str) -> tuple[str, str]:
    """Split before the first name with a wildcard, else before the last name; the first part may be
    empty.
    """
    end = text.rfind("/", 0, len(_WILDCARD.split(text, maxsplit=1)[0])) + 1
    return text[:end], text[end:]
