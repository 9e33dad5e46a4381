"""Join flags, environment, settings file, preset and defaults into one frozen `Settings`."""

import difflib
import math
import os
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from genrm_cli.errors import UsageError
from genrm_cli.settings.components import parse_components, parse_diversity, parse_total
from genrm_cli.settings.declare import Setting, Value
from genrm_cli.settings.judge_settings import JudgeSettings, LimitSettings
from genrm_cli.settings.panel import judges_of, parse_panel, refuse_overridden
from genrm_cli.settings.reward_settings import PRESETS
from genrm_cli.settings.table import Settings, all_settings, settings_from, value_of

ENVIRONMENT_PREFIX = "GENRM_"
MAX_CONCURRENCY = 16_384
REDACTIONS = ("email", "phone", "identity")  # what --redact-pattern knows by name
API_KEY_VARIABLES = ("GENRM_API_KEY", "OPENAI_API_KEY")
# Variables with our prefix that are no settings: they must not be reported as misspelt ones.
OTHER_VARIABLES = frozenset({"GENRM_API_KEY", "GENRM_CONFIG"})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of one setting came from, in words: `flag`, `environment GENRM_X`, `default`, ..."""

    key: str
    value: Value
    source: str


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a settings file says, and where it is. No file is an empty one."""

    path: str = ""
    values: Mapping[str, object] = field(default_factory=dict)


def read_settings_file(path: str | None, folder: Path) -> SettingsFile:
    """Read the named TOML file, else `genrm.toml` or `[tool.genrm]` of `pyproject.toml` in the folder.

    Raises:
        UsageError: the named file is missing, or a file is no valid TOML.
    """
    if path is not None:
        return SettingsFile(path, read_toml(Path(path)))
    for name, table in (("genrm.toml", ()), ("pyproject.toml", ("tool", "genrm"))):
        candidate = folder / name
        if not candidate.is_file():
            continue
        values: Any = read_toml(candidate)
        for part in table:
            values = values.get(part, {})
            if not isinstance(values, dict):
                raise UsageError(f"{name}: {part} is {values!r}, expected a table.")
        if values:
            return SettingsFile(name, values)
    return SettingsFile()


def resolve_settings(
    flags: Mapping[str, Value], environ: Mapping[str, str], file: SettingsFile
) -> tuple[Settings, list[Origin]]:
    """Join flags, environment, file, preset and defaults; say for each setting where it came from.

    Args:
        flags: by field name; None means not given.
        environ: the process environment.
        file: what the settings file says.

    Raises:
        UsageError: a value is of the wrong type or out of bounds, or the file has an unknown setting.
    """
    _refuse_unknown_keys(file)
    from_file = {key.replace("-", "_"): value for key, value in file.values.items()}
    tables = {name: from_file.pop(name) for name in _TABLES if name in from_file}
    if isinstance(from_file.get("judge"), list | dict):
        tables["judge"] = from_file.pop("judge")
    chosen: dict[str, tuple[Value, str]] = {}
    for setting in all_settings():
        key = setting.key
        variable = ENVIRONMENT_PREFIX + key.upper()
        if flags.get(setting.name) not in (None, [], ()):
            chosen[setting.name] = (_convert(setting, flags[setting.name], setting.flag), "flag")
        elif environ.get(variable) or (variable in environ and setting.is_many and setting.name in _TEXT_CHECKS):
            chosen[setting.name] = (
                _convert(setting, environ[variable], variable),
                f"environment {variable}",
            )
        elif key in from_file:
            chosen[setting.name] = (
                _convert(setting, from_file[key], f"{file.path}: {key}"),
                f"file {file.path}",
            )
    _apply_preset(chosen)
    _apply_compat(chosen)
    values = {name: value for name, (value, _) in chosen.items()}
    panel = parse_panel(tables["judge"], f"{file.path}: judge", _convert_named) if "judge" in tables else ()
    before_file = {name: source for name, (_, source) in chosen.items() if source.startswith(("flag", "environment"))}
    if not before_file.keys().isdisjoint(("judge", "model")):
        panel = ()  # one judge was named in a place that goes before the file
    refuse_overridden(panel, before_file)
    settings = settings_from(**values, panel=panel, **_parse_rewards(tables, values, file.path))
    if settings.limits.max_cost is not None and not (settings.limits.price_in or settings.limits.price_out):
        raise UsageError("--max-cost needs --price-in and --price-out, the prices of a million tokens.")
    origins = [
        Origin(s.key, value_of(settings, s.name), chosen.get(s.name, (None, "default"))[1]) for s in all_settings()
    ]
    if settings.panel.judges:
        named = tuple(seat.name for seat in judges_of(settings))
        origins = [Origin("judge", named, f"file {file.path}") if o.key == "judge" else o for o in origins]
        origins += [
            Origin(f"judge {name}", (f"weight {judge.weight:g}", *_in_words(judge.values)), f"file {file.path}")
            for name, judge in zip(named, settings.panel.judges, strict=True)
        ]
    return settings, origins + _origins_of_tables(settings, tables, file.path)


def _in_words(values: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Write the values of a table in short; what is empty is left out."""
    for name, value in values:
        if isinstance(value, tuple):
            value = " ".join(" ".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value)
        if value not in (None, "", False):
            yield f"{name} {value}"


def _origins_of_tables(settings: Settings, tables: Mapping[str, object], path: str) -> list[Origin]:
    """Return what the file's tables of rewards come to, in short."""
    shown: dict[str, Value] = {"components": tuple(component.name for component in settings.rewards.components)}
    for name, table in (("diversity", settings.rewards.diversity), ("total", settings.rewards.total)):
        if table is not None:
            shown[name] = tuple(_in_words((each.name, getattr(table, each.name)) for each in fields(table)))
    return [Origin(name, shown[name], f"file {path}") for name in _TABLES if name in tables]


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Name the `GENRM_` variables that are no setting: most likely misspelt ones."""
    known = {ENVIRONMENT_PREFIX + s.key.upper() for s in all_settings()} | OTHER_VARIABLES
    return sorted(name for name in environ if name.startswith(ENVIRONMENT_PREFIX) and name not in known)


def state_folder() -> Path:
    """Return the user's folder for what a program must not lose, made if missing.

    It is `genrm` in XDG_STATE_HOME, else in ~/.local/state.

    Raises:
        UsageError: it cannot be made.
    """
    base = os.environ.get("XDG_STATE_HOME")
    folder = (Path(base) if base else Path.home() / ".local" / "state") / "genrm"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made ({error.strerror}); name a journal with --journal.") from error
    return folder


def concurrency_of(limits: LimitSettings) -> int | None:
    """Return how many calls may be in flight; None when that is to be found out."""
    return None if limits.concurrency == "auto" else int(limits.concurrency)


def find_api_key(judge: JudgeSettings, environ: Mapping[str, str], *, only_named: bool = False) -> str | None:
    """Find the judge's API key in a file or the environment; None when there is none.

    Args:
        judge: settings of this judge.
        environ: the process environment.
        only_named: whether a key counts only if the settings name it, not if it stands where keys usually stand.

    Raises:
        UsageError: `--api-key-env` names a variable that is not set, the file cannot be read, or the key cannot be
            sent.
    """
    if judge.api_key_file is not None:
        return _checked_key(_read_key_file(judge.api_key_file), f"the file {judge.api_key_file}")
    usual = () if only_named else API_KEY_VARIABLES
    names = usual if judge.api_key_env is None else (judge.api_key_env,)
    name = next((name for name in names if environ.get(name, "").strip()), None)
    if name is None and judge.api_key_env is not None:
        # What is not in capitals may be the key itself, given by mistake: it must not be shown.
        named = judge.api_key_env if re.fullmatch(r"[A-Z0-9_]+", judge.api_key_env) else "a variable"
        raise UsageError(
            f"--api-key-env names {named}, which is not set. Give the variable's name, never the key; "
            "export it, or leave the option out for an endpoint that needs no key."
        )
    return None if name is None else _checked_key(environ[name], name)


def _read_key_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UsageError(f"--api-key-file {path}: cannot be read: {reason}.") from error


def _checked_key(text: str, where: str) -> str:
    key = text.strip()
    if not key or not (key.isascii() and key.isprintable()):
        # The HTTP library would refuse it too, with the key in its message.
        raise UsageError(f"the key in {where} is empty or has characters that no key has (a line break, a quote mark).")
    return key


def read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file.

    Raises:
        UsageError: it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: the file cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a valid TOML file: {error}.") from error


def _refuse_unknown_keys(file: SettingsFile) -> None:
    known = [*(s.key for s in all_settings()), *_TABLES]
    for key in file.values:
        if key.replace("-", "_") not in known:
            near = difflib.get_close_matches(key.replace("-", "_"), known, n=1)
            hint = f"Did you mean {near[0]}?" if near else "`genrm config` lists all settings."
            raise UsageError(f"{file.path}: there is no setting {key!r}. {hint}")


def _apply_compat(chosen: dict[str, tuple[Value, str]]) -> None:
    """Take the reference's pairs and estimator where its numbers are to be reproduced."""
    compat = chosen.get("compat", (None, ""))[0]
    if compat is not None:
        chosen.setdefault("strategy", ("circular", f"compat {compat}"))
        chosen.setdefault("estimator", ("simple_tiebreaker", f"compat {compat}"))


def _apply_preset(chosen: dict[str, tuple[Value, str]]) -> None:
    preset = chosen.get("preset", (None, ""))[0]
    if isinstance(preset, str):
        for name, value in PRESETS[preset].items():
            chosen.setdefault(name, (value, f"preset {preset}"))


_TABLES = ("components", "diversity", "total")


def _parse_rewards(tables: Mapping[str, object], values: Mapping[str, Value], path: str) -> dict[str, Any]:
    """Read the tables that say what a reward is made of."""
    shorts = values.get("component", ())
    parsed: dict[str, Any] = {
        "components": parse_components(
            tables.get("components", {}),
            shorts if isinstance(shorts, tuple) else (),
            f"{path}: components",
            _convert_named,
        )
    }
    if "diversity" in tables:
        parsed["diversity"] = parse_diversity(tables["diversity"], f"{path}: diversity", _convert_named)
    if "total" in tables:
        parsed["total"] = parse_total(tables["total"], f"{path}: total")
    return parsed


def _convert_named(name: str, raw: object, where: str) -> Value:
    return _convert(next(s for s in all_settings() if s.name == name), raw, where)


def _convert(setting: Setting, raw: object, where: str) -> Value:
    """Turn text (environment) or a TOML or flag value into the setting's type, within its bounds."""
    kind = setting.type
    if isinstance(raw, dict) or (isinstance(raw, list) and any(isinstance(each, dict) for each in raw)):
        tables = ", ".join(f"[{name}]" for name in _TABLES)
        raise UsageError(f"{where}: a table stands there; tables are [[judge]], {tables}.")
    if setting.is_many:
        check = _TEXT_CHECKS.get(setting.name)
        if check is not None and raw in ("", [""], ("",)):
            raise UsageError(f"{where}: it is empty, which would guard nothing; give a value or leave it out.")
        return tuple(text if check is None else check(text, where) for text in _split(raw, where))
    value = parse_duration_s(raw) if setting.declared.duration else _converted(kind, raw)
    if value is None:
        expected = "a duration, such as 90s, 15m or 2h" if setting.declared.duration else _DESCRIPTIONS[kind]
        raise UsageError(f"{where}: {raw!r} is not {expected}.")
    choices = setting.declared.choices
    if choices and isinstance(value, str) and (with_underscores := value.replace("-", "_")) in choices:
        value = with_underscores  # combined-fitted is combined_fitted
    if choices and value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"{where}: {value!r} is not one of {', '.join(choices)}.{hint}")
    if isinstance(value, str):
        check = _TEXT_CHECKS.get(setting.name)
        return value if check is None else check(value, where)
    low, high = setting.declared.low, setting.declared.high
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low:.9g}" if high is None else f"between {low:.9g} and {high:.9g}"
        raise UsageError(f"{where}: {value} is out of bounds; it must be {bounds}.")
    return value


_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration_s(raw: object) -> float | None:
    """Read a duration: a number of seconds, or a number with s, m, h or d behind it."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smhd]?)\s*", str(raw))
    return None if match is None or isinstance(raw, bool) else float(match[1]) * _UNITS_S[match[2]]


def _split(raw: object, where: str) -> tuple[str, ...]:
    """Read several texts: a list or tuple, or one text with commas between them."""
    # A comma within braces counts repeats in a regular expression.
    texts = re.split(r",(?![^{}]*\})", raw) if isinstance(raw, str) else raw
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{where}: {raw!r} is neither a text nor a list of texts.")
    return tuple(text.strip() for text in texts if text.strip())


_DESCRIPTIONS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text"}
_TRUTHS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def _converted(kind: type, raw: object) -> str | int | float | bool | None:
    """Convert without bounds; None when it is not possible."""
    if kind is bool:
        return raw if isinstance(raw, bool) else _TRUTHS.get(str(raw).lower())
    if isinstance(raw, bool):
        return None
    if kind is str:
        # `unscored = 3.0` in a file is a number; the setting holds its text.
        return str(raw) if isinstance(raw, str | int | float) else None
    try:
        number = float(raw) if isinstance(raw, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number) or (kind is int and number != int(number)):
        return None
    return int(number) if kind is int else number


def read_text_argument(value: str, where: str) -> str:
    """Return the text itself, or for `@FILE` what the file holds."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a NUL in the name
        raise UsageError(f"{where}: {value[1:]} cannot be read: {error}.") from error


def _checked_unscored(value: str, where: str) -> str:
    if value not in ("null", "drop") and _converted(float, value) is None:
        raise UsageError(f"{where}: {value!r} is not null, drop or a finite number.")
    return value


def _checked_concurrency(value: str, where: str) -> str:
    number = _converted(int, value)
    if value != "auto" and not (isinstance(number, int) and 1 <= number <= MAX_CONCURRENCY):
        raise UsageError(f"{where}: {value!r} is neither auto nor a whole number from 1 to {MAX_CONCURRENCY}.")
    return value if number is None else str(number)


def _checked_requirement(value: str, where: str) -> str:
    field_name, equals, _ = value.partition("=")
    if not equals or not all(part.strip() for part in field_name.split(".")):
        raise UsageError(f"{where}: {value!r} is not FIELD=VALUE, for instance synthetic=true.")
    return value


def _checked_redaction(value: str, where: str) -> str:
    if value in REDACTIONS:
        return value
    if {part.strip() for part in value.split(",")} & set(REDACTIONS):
        raise UsageError(f"{where}: {value!r} is several patterns in one; give the flag once for each.")
    near = difflib.get_close_matches(value.lower(), REDACTIONS, n=1, cutoff=0.75)
    if near and re.fullmatch(r"[A-Za-z_ -]+", value):
        # Taken for an expression, a misspelt name would let through what it was meant to mask.
        raise UsageError(f"{where}: {value!r} is not one of {', '.join(REDACTIONS)}. Did you mean {near[0]}?")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns of expressions whose meaning will change
            pattern = re.compile(value)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise UsageError(f"{where}: {value!r} is not a regular expression: {error}.") from error
    if pattern.search("") is not None:
        raise UsageError(f"{where}: {value!r} matches the empty text, and so would mask everything.")
    return value


_TEXT_CHECKS: dict[str, Callable[[str, str], str]] = {
    "principle": read_text_argument,
    "concurrency": _checked_concurrency,
    "unscored": _checked_unscored,
    "require_metadata": _checked_requirement,
    "redact_pattern": _checked_redaction,
}
