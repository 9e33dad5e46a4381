"""Settings files: found in the working folder or named by the user, and read within limits."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genrm_cli.errors import UsageError
from genrm_cli.settings.kinds import Table

MAX_DEPTH = 64
_MAX_INTEGER = 2**63
_PLACES = {"genrm.toml": (), "pyproject.toml": ("tool", "genrm")}


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file; `path` and `values` are empty without one.

    `is_named` tells whether the user named it; otherwise it was found in the working folder.
    """

    path: str = ""
    values: Table = field(default_factory=dict)
    is_named: bool = True


def read_settings_file(path: str | None, folder: Path) -> SettingsFile:
    """Read the named TOML file, otherwise `genrm.toml` or `[tool.genrm]` of `pyproject.toml` in the folder.

    Raises:
        UsageError: the named file is missing, or a file is not valid TOML.
    """
    if path is not None:
        return SettingsFile(path, _table_at(read_toml(Path(path)), _PLACES.get(Path(path).name, ()), path))
    for name, tables in _PLACES.items():
        if (folder / name).is_file() and (values := _table_at(read_toml(folder / name), tables, name)):
            return SettingsFile(name, values, is_named=False)
    return SettingsFile()


def _table_at(values: Any, path: tuple[str, ...], file: str) -> Table:
    for part in path:
        values = values.get(part, {})
        if not isinstance(values, dict):
            raise UsageError(f"{file}: {part} is {values!r}, expected a table.")
    table: Table = values
    return table


def read_toml(path: Path) -> Table:
    """Read a TOML file.

    Raises:
        UsageError: it cannot be read, is not valid TOML, or nests tables or lists too deeply.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
        _refuse_extremes(values)
    except OSError as error:
        raise UsageError(f"{path}: cannot read the file: {error.strerror}.") from error
    except RecursionError as error:
        raise UsageError(f"{path}: tables or lists are nested more than {MAX_DEPTH} levels deep.") from error
    except ValueError as error:  # not TOML, not UTF-8, or a NUL in the path
        raise UsageError(f"{path}: not a valid TOML file: {error}.") from error
    return values


def _refuse_extremes(values: object) -> None:
    """Refuse nesting and integers that Python can read but not show."""
    level: list[object] = [values]
    for _ in range(MAX_DEPTH):
        if any(isinstance(each, int) and abs(each) >= _MAX_INTEGER for each in level):
            raise ValueError("an integer that needs more than 64 bits")
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    if level:
        raise RecursionError
