"""The built-in rubric sets: TOML files in the format of custom rubric sets."""

import tomllib
from dataclasses import replace
from importlib.resources import files

from genrm_cli.judging.rubrics.custom_rubric import parse_rubric_set
from genrm_cli.judging.rubrics.rubric import RubricSet


def _load(name: str) -> RubricSet:
    text = files("genrm_cli.judging.rubrics").joinpath("sets", f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    version: int = table.pop("version")  # numbered, so that a better `about` leaves journals valid
    return replace(parse_rubric_set(table, f"{name}.toml"), version=version)


RUBRIC_SETS = {name: _load(name) for name in ("therapeutic", "helpfulness")}
