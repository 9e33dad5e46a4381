"""Settings files: found in the working folder or named by the user; and which of them the user
trusts.

A file found in the working folder may come from a repository or an archive. It may not set anything
that could leak data, run code or overwrite files until the user trusts its folder."""

import hashlib
import json
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from genrm_cli.errors import UsageError
from genrm_cli.settings.components import TABLES
from genrm_cli.settings.declare import Setting, names_file
from genrm_cli.settings.kinds import Table
from genrm_cli.settings.table import all_settings

PANEL = "panel"  # the flat name of [[judge]] tables
State = Literal["trusted", "changed", "not trusted"]
# Keys of tables that are not settings of a judge, and contain only numbers, component names and
# patterns.
_HARMLESS = frozenset(
    {
        *(
            "weight",
            "share",
            "kind",
            "of",
            "ties",
            "extract",
            "pattern",
            "field",
            "rule",
            "json_schema",
        ),
        *("method", "threshold", "n", "fallback", "components"),
        *("weights", "gates", "optional", "clip", "normalise", "canaries"),
    }
)

# The names of these keys in NeMo Gym's `genrm_compare` and in benchmax's `DiversityConfig`.
_OTHER_NAMES = {
    **{"num_rollouts_per_prompt": "cohort_size", "comparison_strategy": "strategy"},
    **{"similarity_threshold": "threshold", "fallback_on_error": "fallback"},
}

NAME = "genrm.toml"
"""Name of the settings file of a folder."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file; `path` and `values` are empty without one.

    `is_named` tells whether the user named it; otherwise it was found in the working folder.
    """

    path: str = ""
    values: Table = field(default_factory=dict)
    is_named: bool = True


def read_settings_file(path: str | None, folder: Path) -> SettingsFile:
    """Read the named TOML file, otherwise `genrm.toml` of the folder, if there is one."""
    if path is not None:
        return SettingsFile(path, _in_our_names(read_toml(Path(path)), path))
    if (folder / NAME).is_file():
        return SettingsFile(NAME, _in_our_names(read_toml(folder / NAME), NAME), is_named=False)
    return SettingsFile()


def _in_our_names(table: Table, where: str) -> Table:
    """Return a table, and its `diversity`, with our names of keys; refuse a key under both
    names.
    """
    if twice := [name for name, ours in _OTHER_NAMES.items() if name in table and ours in table]:
        raise UsageError(
            f"{where}: {twice[0]} and {_OTHER_NAMES[twice[0]]} are the same; give one of them."
        )
    named = {_OTHER_NAMES.get(key, key): value for key, value in table.items()}
    inner = named.get("diversity")
    return named | (
        {"diversity": _in_our_names(inner, f"{where}: diversity")}
        if isinstance(inner, Mapping)
        else {}
    )


def read_toml(path: Path) -> Table:
    """Read a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        repr(
            values
            # fails on integers of thousands of digits and on deep nesting, which no message could
            # show
        )
        return values
    except OSError as error:
        raise UsageError(f"{path}: cannot read the file: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a NUL in the path
        raise UsageError(f"{path}: not a valid TOML file: {error}.") from error


def iter_needing_trust(values: Table) -> Iterator[tuple[str, str]]:
    """Yield each setting of a file that requires trust: its flat name, or that of its table, and
    its location.
    """
    settings = {setting.key: setting for setting in all_settings()}
    for key, value in values.items():
        if key == "judge" and isinstance(value, list | dict):
            for number, table in enumerate(value, 1):
                yield from (
                    (PANEL, place)
                    for place in _places_needing_trust(
                        table, settings, PANEL, f"[[judge]] {number}"
                    )
                )
        elif key in TABLES:
            yield from ((key, place) for place in _places_needing_trust(value, settings, key))
        elif key not in settings:
            yield key, key
        elif settings[key].needs_trust(value):
            yield settings[key].name, key


def _places_needing_trust(
    table: object, settings: Mapping[str, Setting], name: str, title: str | None = None
) -> Iterator[str]:
    """Yield each key of a table that requires trust, with the title of its table, which may be one
    within it.
    """
    for key, value in table.items() if isinstance(table, Mapping) else ():
        inner = f"{name}.{key}"
        if name == "components" or inner == "watch.auditor":
            yield from _places_needing_trust(value, settings, inner)
        elif settings[key].needs_trust(value) if key in settings else _is_risky(key, value):
            yield f"{key} in {title or f'[{name}]'}"


def _is_risky(key: str, value: object) -> bool:
    return names_file(value) if key == "set" else key not in _HARMLESS


def state_of(file: SettingsFile, folder: Path) -> State:
    """Return whether the user trusts this file of this folder with its current settings."""
    known = read_trusted().get(str(folder.resolve() / file.path))
    if known is None:
        return "not trusted"
    return "trusted" if known == _digest_of(file) else "changed"


def trust(file: SettingsFile, folder: Path) -> None:
    """Trust the current settings of a file of this folder."""
    _write_trusted(read_trusted() | {str(folder.resolve() / file.path): _digest_of(file)})


def distrust(folder: Path) -> bool:
    """Stop trusting the files of this folder; return whether any was trusted."""
    known = read_trusted()
    kept = {path: digest for path, digest in known.items() if Path(path).parent != folder.resolve()}
    if kept != known:
        _write_trusted(kept)
    return kept != known


def read_trusted() -> dict[str, str]:
    """Return the digest of each trusted file, by its absolute path."""
    try:
        path = _list_path()
        with path.open(encoding="utf-8") as opened:
            if (mode := os.fstat(opened.fileno()).st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
                raise UsageError(
                    f"{path}: other users can write this list (mode {mode & 0o777:o}); run chmod "
                    f"600 {path}."
                )
            known = json.load(opened)
    except (
        FileNotFoundError,
        NotADirectoryError,
        RuntimeError,
    ):  # RuntimeError: the user has no home folder
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: cannot read the list of trusted folders: {error}. Remove the file."
        ) from error
    if not isinstance(known, dict):
        raise UsageError(f"{path}: not a list of trusted folders. Remove the file.")
    return {str(file): str(digest) for file, digest in known.items()}


def _write_trusted(known: Mapping[str, str]) -> None:
    try:
        path = _list_path()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                json.dump(known, opened, indent=1)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"cannot write the list of trusted folders: {error}. Set XDG_CONFIG_HOME."
        ) from error


def _list_path() -> Path:
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # The XDG specification ignores a relative path; here it would be inside the untrusted folder.
    return (base if base.is_absolute() else Path.home() / ".config") / "genrm" / "trusted.json"


def _digest_of(file: SettingsFile) -> str:
    """Return the sha256 (hex) over the settings, so that comments may change."""
    return hashlib.sha256(
        json.dumps(file.values, sort_keys=True, default=repr).encode()
    ).hexdigest()
