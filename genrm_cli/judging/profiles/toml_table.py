"""TOML tables that users write: what may be in them, and how they are checked."""

import hashlib
import json
from typing import Annotated, TypeVar

import msgspec

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.profile import Fields
from genrm_cli.typed_json import FormError, from_json

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]*\Z")]
"""Lower-case letters, digits and hyphens."""


class TomlTable(msgspec.Struct, forbid_unknown_fields=True):
    """A table whose keys are the fields; a key that it does not have is most likely misspelt."""


class NamedTable(TomlTable, kw_only=True):
    """The table of a file, which names what it defines and says in a line what that is."""

    name: Name
    about: str


Form = TypeVar("Form", bound=TomlTable)


def parse_table(form: type[Form], table: Fields, where: str) -> Form:
    """Return the content of the file `where`, which by default gives the name."""
    stem = where.rpartition("/")[2].removesuffix(".toml").lower()
    try:
        return from_json(form, {"name": stem, "about": f"from {where}", **table})
    except FormError as error:
        raise UsageError(f"{where}: {error}.") from error


def version_of(content: object) -> int:
    """Return a version that changes with the content."""
    text = json.dumps(content, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
