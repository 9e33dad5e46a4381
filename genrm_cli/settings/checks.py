"""Checks of values in tables of a settings file.

Each takes a raw value and its location, and returns the value or raises a UsageError that names the location.
"""

import math
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

from genrm_cli.catalog import listed
from genrm_cli.errors import Part, UsageError
from genrm_cli.settings.components import JUDGE_KEYS, Option
from genrm_cli.settings.kinds import Table, Value, compile_pattern
from genrm_cli.settings.table import setting_named

Check = Callable[[object, Part], Option]
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def text(raw: object, where: Part) -> str:
    """Check for text that is not empty."""
    if not isinstance(raw, str) or not raw:
        raise UsageError(where, f": {raw!r} is not text.")
    return raw


def one_of(choices: Iterable[str]) -> Check:
    """Return a check for one of these names."""
    allowed = tuple(choices)

    def check(raw: object, where: Part) -> str:
        if raw not in allowed:
            raise UsageError(where, f": {raw!r} is not one of {listed(allowed)}.")
        return str(raw)

    return check


def boolean(raw: object, where: Part) -> bool:
    """Check for true or false."""
    if not isinstance(raw, bool):
        raise UsageError(where, f": {raw!r} is neither true nor false.")
    return raw


def pattern(raw: object, where: Part) -> str:
    """Check for a regular expression with one group."""
    expression = text(raw, where)
    try:
        groups = compile_pattern(expression).groups
    except ValueError as error:
        raise UsageError(where, f": {error}") from error
    if groups != 1:
        raise UsageError(where, f": {raw!r} has {groups} groups; expected one, which matches the answer.")
    return expression


def function(raw: object, where: Part) -> str:
    """Check for `package.module:function`."""
    if not isinstance(raw, str) or not _FUNCTION.fullmatch(raw):
        raise UsageError(where, f": {raw!r} is not of the form package.module:function.")
    return raw


def refuse_unknown(keys: Iterable[str], known: Collection[str], where: Part, has: str = "expected one of") -> None:
    """Refuse an unknown key of a table."""
    if (unknown := next((key for key in keys if key not in known), None)) is not None:
        raise UsageError(where, f": unknown key {unknown!r}; {has} {listed(known)}.")


def first_repeated(names: Sequence[str]) -> str | None:
    """Return the first name that occurs more than once; None if all are unique."""
    return next((name for name in names if names.count(name) > 1), None)


def number(low: float, high: float) -> Callable[[object, Part], float]:
    """Return a check for a number within bounds."""

    def check(raw: object, where: Part) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not low <= raw <= high:
            raise UsageError(where, f": {raw!r} is not a number from {low:g} to {high:g}.")
        return float(raw)

    return check


def integer(low: int, high: int) -> Callable[[object, Part], int]:
    """Return a check for an integer within bounds."""

    def check(raw: object, where: Part) -> int:
        value = number(low, high)(raw, where)
        if not value.is_integer():
            raise UsageError(where, f": {raw!r} is not an integer.")
        return int(value)

    return check


def names(raw: object, where: Part) -> tuple[str, ...]:
    """Check for a list of component names."""
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise UsageError(where, f": {raw!r} is not a list of component names.")
    return tuple(raw)


def numbers(raw: object, where: Part) -> tuple[tuple[str, float], ...]:
    """Check for a table of numbers of at least 0."""
    check = number(0.0, 1e9)
    return tuple((str(name), check(value, f"{where}.{name}")) for name, value in table(raw, where).items())


def table(raw: object, where: Part) -> Table:
    """Check for a table."""
    if not isinstance(raw, Mapping):
        raise UsageError(where, f": {raw!r} is not a table.")
    return raw


def bounds(raw: object, where: Part) -> tuple[float | None, float | None]:
    """Check for a list of a minimum and a greater maximum; infinity becomes None."""
    if not isinstance(raw, list) or len(raw) != 2 or not all(map(_is_bound, raw)):
        raise UsageError(where, f": {raw!r} is not a minimum and a maximum reward, as in [0, 5].")
    low, high = map(float, raw)
    if not low < high:
        raise UsageError(where, f": {raw!r} is an empty range; the minimum must be below the maximum.")
    return None if low == -math.inf else low, None if high == math.inf else high


def _is_bound(raw: object) -> bool:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return abs(raw) < 2**1023  # a float holds it
    return isinstance(raw, float) and not math.isnan(raw)


def judge_settings(
    given: Table,
    prefix: str,
    known: Container[str] = JUDGE_KEYS,
) -> tuple[tuple[str, Value], ...]:
    """Convert the settings of a judge in a table, sorted by flat name. Messages put `prefix` before a key."""
    own = sorted(name for name in given if name in known)
    return tuple((name, setting_named(name).convert(given[name], f"{prefix}{name}")) for name in own)
