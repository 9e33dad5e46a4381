"""The built-in rubric sets: TOML files in the users' own format.

The set for therapeutic sessions screens a model's behaviour in simulated sessions. It is not a clinical judgement.
"""

import tomllib
from dataclasses import replace
from importlib.resources import files

from genrm_cli.judging.rubrics.custom_rubric import parse_rubric_set
from genrm_cli.judging.rubrics.rubric import RubricSet


def _load(name: str) -> RubricSet:
    text = files("genrm_cli.judging.rubrics").joinpath("sets", f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    version: int = table.pop("version")
    return replace(parse_rubric_set(table, f"{name}.toml"), version=version)


THERAPEUTIC, HELPFULNESS = _load("therapeutic"), _load("helpfulness")
RUBRIC_SETS: dict[str, RubricSet] = {each.name: each for each in (THERAPEUTIC, HELPFULNESS)}
