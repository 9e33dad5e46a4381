"""Settings files: found in the working folder or named by the user, and read within limits."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genrm_cli.errors import UsageError
from genrm_cli.settings.kinds import Table

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
        UsageError: it cannot be read, or is not valid TOML.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        repr(values)  # fails on integers of thousands of digits and on deep nesting, which no message could show
        return values
    except OSError as error:
        raise UsageError(f"{path}: cannot read the file: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a NUL in the path
        raise UsageError(f"{path}: not a valid TOML file: {error}.") from error
