"""Resolution of flags, environment, settings file, preset and defaults into one frozen
`Settings`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from genrm_cli.errors import Part, SettingRef, UsageError, naming
from genrm_cli.settings.components import TABLES
from genrm_cli.settings.declare import ENVIRONMENT_PREFIX
from genrm_cli.settings.kinds import Table, Value, did_you_mean
from genrm_cli.settings.panel import (
    judges_of,
    parse_panel,
    parse_routes,
    parse_watch,
    refuse_overridden,
)
from genrm_cli.settings.reward_settings import COMPATIBLE, PRESETS
from genrm_cli.settings.reward_tables import (
    parse_components,
    parse_criteria,
    parse_diversity,
    parse_total,
)
from genrm_cli.settings.sources.settings_file import SettingsFile
from genrm_cli.settings.table import Settings, all_settings, setting_named, settings_from, value_of

# Variables with our prefix that are not settings, and must not be reported as misspelt.
OTHER_VARIABLES = frozenset(
    {"GENRM_API_KEY", "GENRM_CONFIG", "GENRM_SERVE_TOKEN", "GENRM_SERVE_URL"}
)
# Lowest of all, since it was set for another program.
OPENAI_BASE_URL = "OPENAI_BASE_URL"
_STATE_REMEDY = naming("Set XDG_STATE_HOME, or set $journal.")


class _Rank(IntEnum):
    """Precedence of a source: lower ranks override higher ones."""

    FLAG = 0
    ENVIRONMENT = 1
    FILE = 2
    OPENAI = 3


@dataclass(frozen=True, slots=True)
class _Choice:
    """A value of a setting and its source; error messages about it begin with `where`."""

    value: Any
    rank: _Rank
    source: str
    where: Part


@dataclass(frozen=True, slots=True)
class Origin:
    """A setting, its value, and its source in words: `flag`, `environment GENRM_X`, `default`,
    ...
    """

    key: str
    value: Value
    source: str


def resolve_settings(
    flags: Mapping[str, Value], environ: Mapping[str, str], file: SettingsFile
) -> tuple[Settings, list[Origin]]:
    """Resolve all settings and their origins; flags are by flat name, None if not given."""
    # Before anything is converted: a typo in a key is found whatever the flags say.
    keys, tables = _split(file)
    chosen = _choose(flags, environ, SettingsFile(file.path, keys))
    _drop_overridden(chosen)
    url = environ.get(OPENAI_BASE_URL)
    if url and "judge" not in tables and chosen.keys().isdisjoint(("judge", "base_url")):
        source = f"environment {OPENAI_BASE_URL}"
        chosen["base_url"] = _Choice(url, _Rank.OPENAI, source, OPENAI_BASE_URL)
    values: dict[str, Any] = {
        name: setting_named(name).convert(each.value, each.where) for name, each in chosen.items()
    }
    sources = {name: each.source for name, each in chosen.items()}
    for name, presets in (("preset", PRESETS), ("compat", COMPATIBLE)):
        if name in values:
            for other, default in presets[values[name]].items():
                if other not in values:
                    values[other] = default
                    sources[other] = f"{name} {values[name]}"
    # A flag or variable that names a single judge overrides the panel of the file.
    if any(name in chosen and chosen[name].rank < _Rank.FILE for name in ("judge", "model")):
        tables.pop("judge", None)
    parsed = _parse_tables(tables, file.path, values.get("component", ()))
    not_of_file = {name: each.source for name, each in chosen.items() if each.rank < _Rank.FILE}
    refuse_overridden(parsed["panel"], not_of_file)
    settings = settings_from(**values, **parsed)
    limits = settings.limits
    if limits.max_cost is not None and not (limits.price_in or limits.price_out):
        raise UsageError(
            naming("$max_cost requires $price_in and $price_out, the prices per million tokens.")
        )
    return settings, _origins_of(settings, sources, tables, f"file {file.path}")


def _split(file: SettingsFile) -> tuple[dict[str, object], dict[str, object]]:
    """Return the single values of a settings file, and its tables."""
    known = (*(setting.key for setting in all_settings()), *TABLES)
    keys = dict(file.values)
    for key in keys:
        if key not in known:
            hint = did_you_mean(key, known) or " `genrm config` lists all settings."
            raise UsageError(f"{file.path}: unknown setting {key!r}.{hint}")
    tables = {name: keys.pop(name) for name in TABLES if name in keys}
    if isinstance(keys.get("judge"), list | dict):  # [[judge]]; the setting is a text
        tables["judge"] = keys.pop("judge")
    return keys, tables


def _parse_tables(tables: Table, path: str, shorts: Sequence[str]) -> dict[str, Any]:
    """Return the parsed tables of a settings file, and the components of `--component`."""
    parsed: dict[str, Any] = {
        "panel": (),
        "components": parse_components(tables.get("components", {}), shorts, f"{path}: components"),
    }
    parsers = {
        "judge": ("panel", parse_panel),
        "watch": ("watch", parse_watch),
        "route": ("route", parse_routes),
        "criteria": ("criteria", parse_criteria),
        "diversity": ("diversity", parse_diversity),
        "total": ("total", parse_total),
    }
    for name, (field, parse) in parsers.items():
        if name in tables:
            parsed[field] = parse(tables[name], f"{path}: {name}")
    return parsed


def _choose(
    flags: Mapping[str, Value], environ: Mapping[str, str], file: SettingsFile
) -> dict[str, _Choice]:
    """Return the raw value of each setting that is given, from the source that overrides the
    others.
    """
    chosen = {}
    for setting in all_settings():
        name = setting.name
        key = setting.key
        variable = setting.variable
        if flags.get(name) not in (None, [], ()):
            chosen[name] = _Choice(flags[name], _Rank.FLAG, "flag", SettingRef(name))
        elif environ.get(variable) or (variable in environ and setting.is_guard):
            chosen[name] = _Choice(
                environ[variable], _Rank.ENVIRONMENT, f"environment {variable}", variable
            )
        elif key in file.values:
            chosen[name] = _Choice(
                file.values[key], _Rank.FILE, f"file {file.path}", f"{file.path}: {key}"
            )
    return chosen


def _drop_overridden(chosen: dict[str, _Choice]) -> None:
    """Drop what a higher source excludes: a judge without a model excludes an endpoint and a
    profile.
    """
    judge = chosen.get("judge")
    if judge is None:
        return
    base_url = chosen.get("base_url")
    if base_url is not None and judge.rank != base_url.rank:
        del chosen["judge" if judge.rank > base_url.rank else "base_url"]
    profile = chosen.get("profile")
    if profile is not None and "judge" in chosen:
        if judge.rank >= profile.rank:
            raise UsageError(
                profile.where,
                naming(
                    " has no effect with $judge, which takes no prompt; remove one of them.",
                    judge="lexical",
                ),
            )
        del chosen["profile"]


def _origins_of(
    settings: Settings, sources: Mapping[str, str], tables: Table, from_file: str
) -> list[Origin]:
    """Return the origin of every setting, then of the tables in the settings file.

    A setting without an entry in `sources` has its default.
    """
    origins = {
        each.key: Origin(each.key, value_of(settings, each.name), sources.get(each.name, "default"))
        for each in all_settings()
    }
    if settings.panel.judges:
        names = tuple(judge.name for judge in judges_of(settings))
        origins["judge"] = Origin("judge", names, from_file)
    shown = [Origin(f"[{name}]", str(table), from_file) for name, table in tables.items()]
    return [*origins.values(), *shown]


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
