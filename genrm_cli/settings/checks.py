"""Checks of values in tables of a settings file, such as the options of components.

Each takes a raw value and its location, and returns the value or raises a UsageError that names the
location."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

from genrm_cli.catalog import listed
from genrm_cli.errors import Part, UsageError
from genrm_cli.settings.components import JUDGE_KEYS
from genrm_cli.settings.declare import Setting
from genrm_cli.settings.kinds import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    Kind,
    Table,
    Value,
    compile_pattern,
    did_you_mean,
)
from genrm_cli.settings.table import setting_named
from genrm_cli.texts.late_pattern import late_pattern

Check = Callable[[object, Part], Any]
"""Returns a value of the type that its kind has."""
# Python's own form of an entry point.
_FUNCTION = late_pattern(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def _parse_text(raw: object) -> str | None:
    return raw if isinstance(raw, str) and raw else None


def _parse_pattern(raw: object) -> str | None:
    if (expression := _parse_text(raw)) is not None and (
        groups := compile_pattern(expression).groups
    ) != 1:
        raise ValueError(f"{raw!r} has {groups} groups; expected one, which matches the answer.")
    return expression


text: Check = Setting(kind=Kind(_parse_text, "text")).convert
boolean: Check = Setting(kind=BOOLEAN).convert
names: Check = Setting(default=()).convert
pattern: Check = Setting(kind=Kind(_parse_pattern, "a regular expression with one group")).convert
function: Check = Setting(
    kind=Kind(
        lambda raw: raw if isinstance(raw, str) and _FUNCTION.fullmatch(raw) else None,
        "of the form package.module:function",
    )
).convert


def one_of(choices: Iterable[str]) -> Check:
    """Return a check for one of these names."""
    return Setting(choices=tuple(choices)).convert


def number(low: float, high: float) -> Check:
    """Return a check for a number within bounds."""
    return Setting(kind=NUMBER, low=low, high=high).convert


def integer(low: int, high: int) -> Check:
    """Return a check for an integer within bounds."""
    return Setting(kind=INTEGER, low=low, high=high).convert


def refuse_unknown(
    keys: Iterable[str], known: Collection[str], where: Part, has: str = "expected one of"
) -> None:
    """Refuse an unknown key of a table."""
    if (unknown := next((key for key in keys if key not in known), None)) is not None:
        hint = did_you_mean(unknown, known)
        raise UsageError(where, f": unknown key {unknown!r}; {has} {listed(known)}.{hint}")


def first_repeated(names: Sequence[str]) -> str | None:
    """Return the first name that occurs more than once; None if all are unique."""
    return next((name for name in names if names.count(name) > 1), None)


def each_of(check: Check) -> Check:
    """Return a check for a table whose values pass a check; it returns pairs."""

    def checked(raw: object, where: Part) -> tuple[tuple[str, Any], ...]:
        given = table(raw, where)
        return tuple((name, check(value, f"{where}.{name}")) for name, value in given.items())

    return checked


def table(raw: object, where: Part) -> Table:
    """Check for a table."""
    if not isinstance(raw, Mapping):
        raise UsageError(where, f": {raw!r} is not a table; expected names with values.")
    return raw


def read_values(given: Table, where: str, keys: Mapping[str, Check]) -> dict[str, Any]:
    """Return the checked values of those keys that a table has."""
    return {key: check(given[key], f"{where}.{key}") for key, check in keys.items() if key in given}


def judge_settings(
    given: Table, prefix: str, known: Container[str] = JUDGE_KEYS
) -> tuple[tuple[str, Value], ...]:
    """Convert the settings of a judge in a table, sorted by flat name. Messages put `prefix` before
    a key.
    """
    own = sorted(name for name in given if name in known)
    return tuple(
        (name, setting_named(name).convert(given[name], f"{prefix}{name}")) for name in own
    )
