"""The commands and their settings, as `commands.toml` lists them; nothing is imported that the help
does not need.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct


class CommandEntry(Struct, frozen=True, kw_only=True):
    """A command: its section and line in `genrm --help`, `module:function`, and its settings.

    Attributes:
        panels: panels whose settings it uses; `names` adds single ones.
        reads_file: whether it reads a settings file.
    """

    section: str
    line: str
    function: str
    panels: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    reads_file: bool = True


# Read once: the help, each command and its decorator ask for it.
@cache
def read_commands() -> dict[str, CommandEntry]:
    """Return the commands by name, in the order of the help."""
    text = Path(__file__).with_name("commands.toml").read_text(encoding="utf-8")
    tables: dict[str, Any] = tomllib.loads(text)
    return {name: CommandEntry(**table) for name, table in tables.items()}
