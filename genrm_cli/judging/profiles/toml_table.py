"""Checks shared by custom TOML files: names, keys and versions."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from genrm_cli.errors import UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def parse_name(table: Mapping[str, object], where: str) -> str:
    """Return the name in a table, or else the name of its file.

    Raises:
        UsageError: the name contains characters other than lower-case letters, digits and hyphens.
    """
    name = table.get("name", where.rpartition("/")[2].removesuffix(".toml").lower())
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: invalid name {name!r}; use lower-case letters, digits and hyphens.")
    return name


def refuse_unknown(table: Mapping[str, object], known: Iterable[str], where: str) -> None:
    """Refuse unknown keys, which are most likely misspelt.

    Raises:
        UsageError: names the key and the known ones.
    """
    if unknown := set(table) - set(known):
        raise UsageError(f"{where}: unknown key {min(unknown)!r}; known keys are {', '.join(sorted(known))}.")


def version_of(content: object) -> int:
    """Return a version that changes with the content."""
    text = json.dumps(content, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
