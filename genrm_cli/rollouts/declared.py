"""Metadata that a record must declare before it may be judged, such as `synthetic=true`."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.values import kind_of, object_or_empty
from genrm_cli.rollouts.rollout import UnreadableRecordError

# A value of a message: enough to recognise it, not enough to fill a screen.
_SHOWN_CHARS = 40
_SETTING = SettingRef("require_metadata")
_MISSING: dict[str, object] = {}  # admitted by no requirement, as any object


class Requirement(NamedTuple):
    """A field, by its dotted path, and its value as text."""

    path: str
    text: str

    def admits(self, found: object) -> bool:
        """Return whether a value in a record is the required one.

        JSON true and the text "true" both declare `true`, because several formats store metadata as
        text. Numbers compare by value (1 equals 1.0, but not true). Lists and objects never match.
        """
        if isinstance(found, (dict, list)):
            return False
        if isinstance(found, str | bool | None):
            return self.text == (found if isinstance(found, str) else json.dumps(found))
        with suppress(ValueError):
            return str(found) == self.text or found == float(self.text)
        return False


def parse_requirement(text: str) -> Requirement:
    """Parse `FIELD=VALUE`, or raise `UsageError`; spaces around are dropped, and VALUE may contain
    equals signs.
    """
    path, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not all(path.split(".")):
        raise UsageError(_SETTING, f": {text!r} is not FIELD=VALUE, for example synthetic=true.")
    return Requirement(path, value)


def check_declared(record: JsonObject, requirements: Sequence[Requirement]) -> None:
    """Check that a record declares all required values, in a field of its own or below
    `metadata`.
    """
    for required in requirements:
        found = _look_up(record, required.path)
        if found is _MISSING:
            found = _look_up(record.get("metadata"), required.path)
        if required.admits(found):
            continue
        told = f"declares {required.path}={_shown(found)}, not {required.text or 'an empty text'}"
        if found is _MISSING:
            told = f"does not declare {required.path}={required.text}"
        raise UnreadableRecordError(f"{told} (", _SETTING, ")")


def _look_up(record: object, path: str) -> object:
    """Return the value at a path, which may be null; `_MISSING` if there is none."""
    for part in path.split("."):
        record = object_or_empty(record).get(part, _MISSING)
    return record


def _shown(found: object) -> str:
    if isinstance(found, (dict, list)):
        return kind_of(found)
    return repr(found[:_SHOWN_CHARS]) if isinstance(found, str) else json.dumps(found)
