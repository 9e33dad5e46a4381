"""Resolution of flags, environment, settings file, preset and defaults into one frozen
`Settings`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

from genrm_cli.errors import Part, SettingRef, UsageError, naming
from genrm_cli.settings.components import TABLES
from genrm_cli.settings.declare import ENVIRONMENT_PREFIX
from genrm_cli.settings.kinds import Table, Value, did_you_mean
from genrm_cli.settings.panel import judges_of, parse_panel, parse_watch, refuse_overridden
from genrm_cli.settings.reward_settings import COMPATIBLE, PRESETS
from genrm_cli.settings.reward_tables import parse_components, parse_diversity, parse_total
from genrm_cli.settings.sources.settings_file import (
    PANEL,
    SettingsFile,
    iter_needing_trust,
    state_of,
)
from genrm_cli.settings.table import Settings, all_settings, setting_named, settings_from, value_of

# Variables with our prefix that are not settings, and must not be reported as misspelt.
OTHER_VARIABLES = frozenset(
    {"GENRM_API_KEY", "GENRM_CONFIG", "GENRM_SERVE_TOKEN", "GENRM_SERVE_URL"}
)
_OPENAI_BASE_URL = "OPENAI_BASE_URL"
_STATE_REMEDY = naming("Set XDG_STATE_HOME, or set $journal.")


class _Rank(IntEnum):
    """Precedence of a source: lower ranks override higher ones."""

    FLAG = 0
    ENVIRONMENT = 1
    FILE = 2
    PRESET = 3


@dataclass(frozen=True, slots=True)
class _Choice:
    """A value of a setting and its source; error messages about it begin with `where`."""

    value: Any
    rank: _Rank
    source: str
    where: Part = ""


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
    known = (*(setting.key for setting in all_settings()), *TABLES)
    for key in file.values:
        if key not in known:
            hint = did_you_mean(key, known) or " `genrm config` lists all settings."
            raise UsageError(f"{file.path}: unknown setting {key!r}.{hint}")
    keys = dict(file.values)
    tables = {name: keys.pop(name) for name in TABLES if name in keys}
    if isinstance(keys.get("judge"), list | dict):
        tables["judge"] = keys.pop("judge")
    chosen = _choose(flags, environ, SettingsFile(file.path, keys))
    judge = chosen.get("judge")
    base_url = chosen.get("base_url")
    if (
        judge is not None and base_url is not None and judge.rank != base_url.rank
    ):  # they exclude each other
        del chosen["judge" if judge.rank > base_url.rank else "base_url"]
    raw = environ.get(_OPENAI_BASE_URL)
    if raw and "judge" not in tables and chosen.keys().isdisjoint(("judge", "base_url")):
        chosen["base_url"] = _Choice(
            raw, _Rank.PRESET, f"environment {_OPENAI_BASE_URL}", _OPENAI_BASE_URL
        )
    _drop_overridden_profile(chosen)
    if not file.is_named:
        _refuse_untrusted(file, chosen)
    for name, each in chosen.items():
        chosen[name] = replace(each, value=setting_named(name).convert(each.value, each.where))
    for name, presets in (("preset", PRESETS), ("compat", COMPATIBLE)):
        if name in chosen:
            for other, default in presets[chosen[name].value].items():
                chosen.setdefault(
                    other, _Choice(default, _Rank.PRESET, f"{name} {chosen[name].value}")
                )
    values = {name: choice.value for name, choice in chosen.items()}
    panel = parse_panel(tables["judge"], f"{file.path}: judge") if "judge" in tables else ()
    if _names_one_judge(chosen):
        panel = ()
    refuse_overridden(
        panel, {name: choice.source for name, choice in chosen.items() if choice.rank < _Rank.FILE}
    )
    given = tables.get("components", {})
    shorts = values.get("component", ())
    rewards: dict[str, Any] = {
        "components": parse_components(given, shorts, f"{file.path}: components")
    }
    for name, parse in (("diversity", parse_diversity), ("total", parse_total)):
        if name in tables:
            rewards[name] = parse(tables[name], f"{file.path}: {name}")
    watch = parse_watch(tables["watch"], f"{file.path}: watch") if "watch" in tables else None
    settings = settings_from(**values, panel=panel, watch=watch, **rewards)
    if settings.limits.max_cost is not None and not (
        settings.limits.price_in or settings.limits.price_out
    ):
        raise UsageError(
            naming("$max_cost requires $price_in and $price_out, the prices per million tokens.")
        )
    return settings, _origins_of(
        settings, {name: each.source for name, each in chosen.items()}, tables, file.path
    )


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


def _refuse_untrusted(file: SettingsFile, chosen: Mapping[str, _Choice]) -> None:
    """Refuse settings of an untrusted file in the working folder, if they need trust and take
    effect.
    """
    overridden = {
        s.name
        for s in all_settings()
        if s.name not in chosen or chosen[s.name].rank is not _Rank.FILE
    }
    if _names_one_judge(chosen):
        overridden.add(PANEL)
    places = [place for name, place in iter_needing_trust(file.values) if name not in overridden]
    if places and (state := state_of(file, Path.cwd())) != "trusted":
        why = "has changed since you trusted it" if state == "changed" else "is not trusted"
        raise UsageError(
            f"{file.path} {why}, and sets {', '.join(places)}. A settings file found in the "
            "working folder may not "
            "name endpoints, keys, files or code. If you know its origin, name it (",
            SettingRef("config", file.path),
            ") or trust the folder (genrm trust .).",
        )


def _names_one_judge(chosen: Mapping[str, _Choice]) -> bool:
    """Return whether a flag or variable names a single judge, which overrides the panel of the
    file.
    """
    return any(name in chosen and chosen[name].rank < _Rank.FILE for name in ("judge", "model"))


def _drop_overridden_profile(chosen: dict[str, _Choice]) -> None:
    """Let the lexical baseline, which takes no prompt, override a profile of a lower source."""
    judge = chosen.get("judge")
    profile = chosen.get("profile")
    if judge is not None and profile is not None:
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
    settings: Settings, sources: Mapping[str, str], tables: Table, path: str
) -> list[Origin]:
    """Return the origin of every setting, then of the tables in the settings file at `path`,
    verbatim.

    A setting without an entry in `sources` has its default.
    """
    from_file = f"file {path}"
    origins = {
        s.key: Origin(s.key, value_of(settings, s.name), sources.get(s.name, "default"))
        for s in all_settings()
    }
    shown = {name: tables[name] for name in TABLES if name in tables}
    if settings.panel.judges and isinstance(judges := tables["judge"], list):
        names = tuple(judge.name for judge in judges_of(settings))
        origins["judge"] = Origin("judge", names, from_file)
        shown = {f"judge {name}": table for name, table in zip(names, judges, strict=True)} | shown
    for name, table in shown.items():
        words = (
            tuple(f"{key} {value}" for key, value in table.items())
            if isinstance(table, Mapping)
            else ()
        )
        origins[f"[{name}]"] = Origin(name, words, from_file)
    return list(origins.values())


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
