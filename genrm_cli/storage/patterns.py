"""Folders, prefixes and patterns, as inputs that name many files.

Patterns work alike on disk and in a bucket, name by name: `*`, `?` and `[...]` match within a name,
`**` matches any number of folders, and a name that starts with `.` needs a pattern that does."""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

from genrm_cli.storage.location import is_remote, is_stream, split_bucket
from genrm_cli.texts.late_pattern import late_pattern

_WILDCARD = late_pattern(r"[*?\[]")
_ANY_FOLDERS = "**"


def parse_pattern(text: str) -> tuple[str, ...]:
    """Return the names of a relative pattern; an empty last one means everything below a folder."""
    names = text.split("/")
    if names[-1] == "":
        names[-1] = _ANY_FOLDERS
    if names[-1] == _ANY_FOLDERS:
        names.append("*")
    return tuple(names)


def is_match(pattern: Sequence[str], names: Sequence[str], *, is_folder: bool = False) -> bool:
    """Return whether a pattern matches the names of a path; of a folder, whether it may match
    something below it.
    """
    if not names or not pattern:
        return not names and is_folder == bool(pattern)
    first = pattern[0]
    fits = fnmatchcase(names[0], first) and (first.startswith(".") or not names[0].startswith("."))
    if first != _ANY_FOLDERS:
        return fits and is_match(pattern[1:], names[1:], is_folder=is_folder)
    return is_match(pattern[1:], names, is_folder=is_folder) or (
        fits and is_match(pattern, names[1:], is_folder=is_folder)
    )


def names_many(uri: str) -> bool:
    """Return whether an input is a folder, a prefix or a pattern, whose files `iter_found` lists.

    An existing local file with a wildcard in its name is one file. A key with a wildcard is a
    pattern that also matches itself."""
    if is_stream(uri):
        return False
    has_wildcard = _WILDCARD.search(uri) is not None
    if is_remote(uri):
        return uri.endswith("/") or has_wildcard or uri.count("/") == 2
    # False below an unreadable folder, where Path raises.
    if uri.endswith("/") or os.path.isdir(uri):  # noqa: PTH112
        return True
    return has_wildcard and not os.path.lexists(uri)


def literal_folder(uri: str) -> str:
    """Return the folder or prefix before the first wildcard, or of a single file, without a final
    `/`; else `.`.
    """
    if is_remote(uri):
        root, _, pattern = split_bucket(uri)
        return f"{root}{split_pattern(pattern)[0]}".removesuffix("/")
    if os.path.isdir(uri):  # noqa: PTH112
        folder = uri
    elif os.path.lexists(uri):
        folder = uri[: uri.rfind("/") + 1]
    else:
        folder = split_pattern(uri)[0]
    return folder.rstrip("/") or ("/" if folder else ".")


def split_pattern(text: str) -> tuple[str, str]:
    """Split before the first name with a wildcard, else before the last name; the first part may be
    empty.
    """
    end = text.rfind("/", 0, len(literal_start(text))) + 1
    return text[:end], text[end:]


def literal_start(text: str) -> str:
    """Return the text before the first wildcard."""
    return _WILDCARD.split(text, maxsplit=1)[0]
