"""Resolution of flags, environment, settings file, preset and defaults into one frozen
`Settings`.
"""

import os
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from genrm_cli.errors import Part, SettingRef, UsageError, naming
from genrm_cli.settings.checks import each_of, text
from genrm_cli.settings.components import TABLES
from genrm_cli.settings.conditions import names_in, unmet, why_unmet
from genrm_cli.settings.declare import ENVIRONMENT_PREFIX
from genrm_cli.settings.kinds import Value, did_you_mean
from genrm_cli.settings.panel import (
    judges_of,
    parse_panel,
    refuse_overridden,
)
from genrm_cli.settings.reward_settings import COMPATIBLE, PRESETS
from genrm_cli.settings.reward_tables import (
    parse_components,
    parse_criteria,
    parse_diversity,
    parse_shaping,
    parse_total,
)
from genrm_cli.settings.sources.settings_file import SettingsFile
from genrm_cli.settings.table import (
    Settings,
    all_settings,
    changed,
    setting_named,
    settings_from,
    value_of,
)

# Variables with our prefix that are not settings, and must not be reported as misspelt.
OTHER_VARIABLES = frozenset(
    {"GENRM_API_KEY", "GENRM_CONFIG", "GENRM_SERVE_TOKEN", "GENRM_SERVE_URL"}
)
OPENAI_BASE_URL = "OPENAI_BASE_URL"


def _text_or_switch(raw: object, where: Part) -> str | bool:
    value: str | bool = raw if isinstance(raw, bool) else text(raw, where)
    return value


# The other tables of a settings file than `components` and `shaping`: what they set, and how they
# are read.
_PARSERS: Mapping[str, tuple[str, Callable[[object, str], object]]] = {
    "judge": ("panel", parse_panel),
    "criteria": ("criteria", parse_criteria),
    "diversity": ("diversity", parse_diversity),
    "s3": ("s3", each_of(_text_or_switch)),
    "total": ("total", parse_total),
}
_STATE_REMEDY = naming("Set XDG_STATE_HOME, or set $journal.")


class _Rank(IntEnum):
    """Precedence of a source: lower ranks override higher ones."""

    FLAG = 0
    ENVIRONMENT = 1
    FILE = 2


class _Choice(Struct, frozen=True):
    """A value of a setting and its source; error messages about it begin with `where`."""

    value: Any
    rank: _Rank
    source: str
    where: Part


class Origin(Struct, frozen=True):
    """A setting, its value, and its source in words: `flag`, `environment GENRM_X`, `default`,
    ...
    """

    key: str
    value: Value
    source: str


def resolve_settings(
    flags: Mapping[str, Value],
    environ: Mapping[str, str],
    file: SettingsFile,
    uses: Collection[str] | None = None,
) -> tuple[Settings, list[Origin]]:
    """Resolve all settings and their origins; flags are by flat name, None if not given.

    `uses` are the settings that a command uses, by default all: what the environment and the file
    say of others is for other commands.
    """
    from_file = f"file {file.path}"
    # Before anything is converted: a typo in a key is found whatever the flags say.
    keys, tables = _split(file)
    chosen = _choose(flags, environ, SettingsFile(file.path, keys), uses)
    _drop_overridden(chosen)
    url = environ.get(OPENAI_BASE_URL)
    if url and "judge" not in tables and chosen.keys().isdisjoint(("judge", "base_url")):
        # Last, since it was set for another program.
        source = f"environment {OPENAI_BASE_URL}"
        chosen["base_url"] = _Choice(url, _Rank.ENVIRONMENT, source, OPENAI_BASE_URL)
    values: dict[str, Any] = {}
    sources = {}
    above_file = {}
    for name, choice in chosen.items():
        values[name] = setting_named(name).convert(choice.value, choice.where)
        sources[name] = choice.source
        if choice.rank < _Rank.FILE:
            above_file[name] = choice.source
    for name, default in COMPATIBLE.get(values.get("compat", ""), {}).items():
        if name not in values:
            values[name] = default
            sources[name] = f"compat {values['compat']}"
    # A flag or variable that names a single judge overrides the panel of the file.
    if not above_file.keys().isdisjoint(("judge", "model")):
        tables.pop("judge", None)
    shorts = values.get("component", ())
    values["components"] = parse_components(
        tables.get("components", {}), shorts, f"{file.path}: components"
    )
    values["shaping"] = parse_shaping(
        tables.get("shaping", {}),
        f"{file.path}: shaping",
        PRESETS.get(values.get("preset", ""), {}),
    )
    for name, (field, parse) in _PARSERS.items():
        if name in tables:
            values[field] = parse(tables[name], f"{file.path}: {name}")
    refuse_overridden(values.get("panel", ()), above_file)
    settings = _with_effective(settings_from(**values), chosen)
    origins = {
        each.key: Origin(each.key, value_of(settings, each.name), sources.get(each.name, "default"))
        for each in all_settings()
    }
    if settings.panel.judges:
        names = tuple(judge.name for judge in judges_of(settings))
        origins["judge"] = Origin("judge", names, from_file)
    shown = [Origin(f"[{name}]", str(table), from_file) for name, table in tables.items()]
    return settings, [*origins.values(), *shown]


def _split(file: SettingsFile) -> tuple[dict[str, object], dict[str, object]]:
    """Return the single values of a settings file, and its tables."""
    known = (*(setting.key for setting in all_settings()), *TABLES)
    keys: dict[str, object] = {}
    tables: dict[str, object] = {}
    for key, value in file.values.items():
        if key not in known:
            hint = did_you_mean(key, known) or " `genrm config` lists all settings."
            raise UsageError(f"{file.path}: unknown setting {key!r}.{hint}")
        # The setting `judge` is a text, and [[judge]] a table.
        is_table = key in TABLES or (key == "judge" and isinstance(value, (list, dict)))
        (tables if is_table else keys)[key] = value
    return keys, tables


def _choose(
    flags: Mapping[str, Value],
    environ: Mapping[str, str],
    file: SettingsFile,
    uses: Collection[str] | None,
) -> dict[str, _Choice]:
    """Return the raw value of each setting that is given, from the source that overrides the
    others.
    """
    chosen = {}
    for setting in all_settings():
        name = setting.name
        if uses is not None and name not in uses:
            continue
        key = setting.key
        variable = setting.variable
        text = environ.get(variable)
        if flags.get(name) not in (None, [], ()):
            chosen[name] = _Choice(flags[name], _Rank.FLAG, "flag", SettingRef(name))
        elif text or (text is not None and setting.is_guard):
            chosen[name] = _Choice(text, _Rank.ENVIRONMENT, f"environment {variable}", variable)
        elif key in file.values:
            where = f"{file.path}: {key}"
            chosen[name] = _Choice(file.values[key], _Rank.FILE, f"file {file.path}", where)
    return chosen


def _drop_overridden(chosen: dict[str, _Choice]) -> None:
    """Drop what a higher source excludes: a judge without a model excludes an endpoint."""
    judge = chosen.get("judge")
    if judge is None:
        return
    base_url = chosen.get("base_url")
    if base_url is not None and judge.rank != base_url.rank:
        del chosen["judge" if judge.rank > base_url.rank else "base_url"]


def _with_effective(settings: Settings, chosen: Mapping[str, _Choice]) -> Settings:
    """Return the settings without those that higher sources leave without effect.

    Raises:
        UsageError: a setting has no effect beside those of its own source, or of lower ones.
    """
    dropped = {}
    value = partial(value_of, settings)
    for name, choice in chosen.items():
        setting = setting_named(name)
        missing = unmet(setting.only_with, value)
        if missing is None or value(name) == setting.default:
            continue
        others = [chosen[other].rank for other in names_in(missing) if other in chosen]
        if not others or choice.rank <= min(others):
            raise UsageError(
                choice.where, " has no effect", *why_unmet(missing, value), "; omit it."
            )
        dropped[name] = setting.default
    return changed(settings, **dropped)


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the `GENRM_` variables that are not settings, which are most likely misspelt."""
    known = {setting.variable for setting in all_settings()} | OTHER_VARIABLES
    return sorted(
        name for name in environ if name.startswith(ENVIRONMENT_PREFIX) and name not in known
    )


def state_folder() -> Path:
    """Return the user's folder for persistent state; create it, private, if it is missing.

    It is `genrm` in XDG_STATE_HOME, otherwise in ~/.local/state.
    """
    base = os.environ.get("XDG_STATE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".local" / "state") / "genrm"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except RuntimeError as error:
        raise UsageError("there is no home folder: HOME is not set. ", _STATE_REMEDY) from error
    except OSError as error:
        raise UsageError(f"cannot create {folder} ({error.strerror}). ", _STATE_REMEDY) from error
    return folder
