"""Lines of every command, of the data file beside this module."""

import tomllib
from pathlib import Path

TRIED: dict[str, list[str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
