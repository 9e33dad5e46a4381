"""Conversion of one value, from a flag, a variable or a file, to its setting's type and bounds."""

import difflib
import math
import re
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from genrm_cli.catalog import REDACTIONS, listed
from genrm_cli.errors import Part, UsageError
from genrm_cli.extensions import extension_names
from genrm_cli.settings.components import TABLES
from genrm_cli.settings.declare import Setting, Value
from genrm_cli.settings.table import setting_named

MAX_CONCURRENCY = 16_384

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DESCRIPTIONS = {bool: "true or false", int: "an integer", float: "a finite number", str: "text"}
_TRUTHS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def convert_named(name: str, raw: object, where: Part) -> Value:
    """Convert a value of a setting by its name; see `convert`."""
    return convert(setting_named(name), raw, where)


def convert(setting: Setting, raw: object, where: Part) -> Value:
    """Convert text, or a value from a TOML file, to the setting's type.

    Raises:
        UsageError: the value has the wrong type or is out of bounds. The message begins with `where`.
    """
    if isinstance(raw, dict) or (isinstance(raw, list) and any(isinstance(each, dict) for each in raw)):
        tables = listed(f"[{name}]" for name in TABLES)
        raise UsageError(where, f": expected a value, got a table; the tables are [[judge]], {tables}.")
    if setting.is_many:
        return _convert_many(setting, raw, where)
    parse, expected = _parser_of(setting)
    value = parse(raw)
    if value is None:
        raise UsageError(where, f": {raw!r} is not {expected}.")
    if isinstance(value, str):
        return _checked_text(setting, value, where)
    low, high = setting.declared.low, setting.declared.high
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low:.9g}" if high is None else f"between {low:.9g} and {high:.9g}"
        raise UsageError(where, f": {value} is out of bounds; it must be {bounds}.")
    return value


def _parser_of(setting: Setting) -> tuple[Callable[[object], str | int | float | bool | None], str]:
    """Return the parser of a single value, and what it expects."""
    if setting.declared.is_duration:
        return parse_duration_s, "a duration, such as 90s, 15m or 2h"
    if setting.declared.is_size:
        return parse_size_bytes, "a size, such as 64MB or 1GiB"
    return partial(_converted, setting.type), _DESCRIPTIONS[setting.type]


def _convert_many(setting: Setting, raw: object, where: Part) -> tuple[str, ...]:
    check = _TEXT_CHECKS.get(setting.name)
    if check is None:
        return _split(raw, where)
    if raw in ("", [""], ("",)):
        raise UsageError(where, " must not be empty: it would guard nothing. Set a value or omit it.")
    return tuple(check(text, where) for text in _split(raw, where))


def _checked_text(setting: Setting, value: str, where: Part) -> str:
    choices, seam = setting.declared.choices, setting.declared.seam
    if choices and value not in choices and seam is not None:
        choices += extension_names(seam)
    if choices and value not in choices:
        raise UsageError(where, f": {value!r} is not one of {listed(choices)}.{did_you_mean(value, choices)}")
    check = _TEXT_CHECKS.get(setting.name)
    return value if check is None else check(value, where)


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a hint with the most similar known word, after a space; empty if none is similar."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]}?" if near else ""


def parse_duration_s(raw: object) -> float | None:
    """Parse a duration: seconds, or a number followed by s, m, h or d; None if it is neither."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smhd]?)\s*", str(raw))
    return None if match is None or isinstance(raw, bool) else float(match[1]) * _UNITS_S[match[2]]


def parse_size_bytes(raw: object) -> int | None:
    """Parse a size: bytes, or a number followed by kB, MB, GB, KiB, MiB or GiB; None if it is neither."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(?:([kmg])(i?))?b?\s*", str(raw), re.IGNORECASE)
    if match is None or isinstance(raw, bool):
        return None
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmg".index((unit or " ").lower()))


def _split(raw: object, where: Part) -> tuple[str, ...]:
    """Split a list or comma-separated text into several texts."""
    # A comma within braces counts repeats in a regular expression.
    texts = re.split(r",(?![^{}]*\})", raw) if isinstance(raw, str) else raw
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise UsageError(where, f": {raw!r} is neither text nor a list of texts.")
    return tuple(text.strip() for text in texts if text.strip())


def _converted(kind: type, raw: object) -> str | int | float | bool | None:
    """Convert a value without checking bounds; None if that is impossible."""
    if kind is bool:
        return raw if isinstance(raw, bool) else _TRUTHS.get(str(raw).lower())
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        return None
    return str(raw) if kind is str else _number(kind, raw)  # `unscored = 3.0` in a file is a number


def _number(kind: type, raw: str | float) -> int | float | None:
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number) or (kind is int and number != int(number)):
        return None
    return int(number) if kind is int else number


def read_text_argument(value: str, where: Part) -> str:
    """Return the text itself, or the content of the file for `@FILE`.

    Raises:
        UsageError: the file cannot be read.
    """
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the name
        raise UsageError(where, f": cannot read {value[1:]}: {error}.") from error


def compiled_pattern(text: str, where: Part) -> re.Pattern[str]:
    """Compile a regular expression.

    Raises:
        UsageError: it is invalid, or Python warns that its meaning will change.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise UsageError(where, f": {text!r} is not a regular expression: {error}.") from error


def _checked_unscored(value: str, where: Part) -> str:
    if value not in ("null", "drop") and _number(float, value) is None:
        raise UsageError(where, f": {value!r} is not null, drop or a finite number.")
    return value


def _checked_concurrency(value: str, where: Part) -> str:
    number = _number(int, value)
    if value != "auto" and not (number is not None and 1 <= number <= MAX_CONCURRENCY):
        raise UsageError(where, f": {value!r} is neither auto nor an integer from 1 to {MAX_CONCURRENCY}.")
    return value if number is None else str(number)


def _checked_requirement(value: str, where: Part) -> str:
    field_name, equals, _ = value.partition("=")
    if not equals or not all(part.strip() for part in field_name.split(".")):
        raise UsageError(where, f": {value!r} is not FIELD=VALUE, for example synthetic=true.")
    return value


def _checked_redaction(value: str, where: Part) -> str:
    if value in REDACTIONS:
        return value
    if {part.strip() for part in value.split(",")} & set(REDACTIONS):
        raise UsageError(where, f": {value!r} joins several patterns; pass each separately.")
    hint = did_you_mean(value.lower(), REDACTIONS, cutoff=0.75)
    if hint and re.fullmatch(r"[A-Za-z_ -]+", value):
        # Taken as an expression, a misspelt name would let through the text that it should mask.
        raise UsageError(where, f": {value!r} is not one of {listed(REDACTIONS)}.{hint}")
    if compiled_pattern(value, where).search("") is not None:
        raise UsageError(where, f": {value!r} matches the empty string, and so would mask everything.")
    return value


_TEXT_CHECKS: dict[str, Callable[[str, Part], str]] = {
    "principle": read_text_argument,
    "concurrency": _checked_concurrency,
    "unscored": _checked_unscored,
    "require_metadata": _checked_requirement,
    "redact_pattern": _checked_redaction,
}
GUARDS = frozenset({"require_metadata", "redact_pattern"})  # an empty value would guard nothing
