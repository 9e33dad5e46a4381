"""Settings files: found in the working folder or named by the user; and which of them the user
trusts.

A file found in the working folder may come from a repository or an archive, and settings name
endpoints, keys, files and code. So it is refused as a whole until the user trusts its folder, as
direnv does: a list of harmless settings would have to be right for every new one."""

import json
import os
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.settings.kinds import Table

State = Literal["trusted", "changed", "not trusted"]
NAME = "genrm.toml"
"""Name of the settings file of a folder."""


class SettingsFile(Struct, frozen=True):
    """A settings file; `path` and `values` are empty without one."""

    path: str = ""
    values: Table = {}


def read_settings_file(path: str | None, folder: Path) -> SettingsFile:
    """Read the named TOML file, otherwise a trusted `genrm.toml` of the folder, if there is one."""
    if path is not None:
        return SettingsFile(path, read_toml(Path(path)))
    file = find_settings_file(folder)
    if not file.values:
        return file
    state = state_of(file, folder)
    if state != "trusted":
        why = "has changed since you trusted it" if state == "changed" else "is not trusted"
        raise UsageError(
            f"{file.path} {why}, and sets {', '.join(file.values)}. Settings name endpoints, "
            "keys, files and code. If you know the origin of the file, trust the folder (genrm "
            "trust .) or name the file (",
            SettingRef("config", file.path),
            ").",
        )
    return file


def find_settings_file(folder: Path) -> SettingsFile:
    """Read `genrm.toml` of the folder, trusted or not, if there is one."""
    path = folder / NAME
    return SettingsFile(NAME, read_toml(path)) if path.is_file() else SettingsFile()


def read_toml(path: Path) -> Table:
    """Read a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        # Fails on integers of thousands of digits and on deep nesting, which no message could show.
        repr(values)
        return values
    except OSError as error:
        raise UsageError(
            f"{path}: cannot read the file: {error.strerror}; check the path."
        ) from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a NUL in the path
        raise UsageError(f"{path}: not a valid TOML file: {error}; correct it.") from error


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
    import hashlib  # with OpenSSL: 4 MB, which no help needs

    return hashlib.sha256(
        json.dumps(file.values, sort_keys=True, default=repr).encode()
    ).hexdigest()
