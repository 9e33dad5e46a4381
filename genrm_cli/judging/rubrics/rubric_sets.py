"""Rubric sets: the qualities that a judge grades and the scores it may give, from TOML tables."""

import math
import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.answer import parse_number
from genrm_cli.judging.profiles.profile import Fields
from genrm_cli.judging.profiles.toml_table import NamedTable, TomlTable, parse_table, version_of

ScoreMap = tuple[tuple[float, str], ...]

YES_OR_NO: ScoreMap = ((0.0, "no"), (1.0, "yes"))


class Rubric(Struct, frozen=True):
    """One quality of a response, or a flaw if it is not positive; its title names the component.

    `score_map` has at least two different scores, each with its meaning, which may be empty.
    """

    title: str
    description: str
    positive: bool = True
    score_map: ScoreMap = YES_OR_NO

    @property
    def component_name(self) -> str:
        """`rubric_` and the title in lower case, with `_` for each run of characters other than a
        to z and 0 to 9.
        """
        return "rubric_" + re.sub("[^a-z0-9]+", "_", self.title.lower())

    def value_of(self, raw: float) -> float:
        """Scale a score of the map to 0 to 1, 1 the best.

        Source: (raw - least) / (greatest - least), and 1 minus that for a flaw.
        """
        scores = [score for score, _ in self.score_map]
        share = (raw - min(scores)) / (max(scores) - min(scores))
        return share if self.positive else 1.0 - share


class RubricSet(Struct, frozen=True):
    """Rubrics graded in one call, no two with the same component name; the version changes with
    them.
    """

    name: str
    version: int
    about: str
    rubrics: tuple[Rubric, ...]

    @property
    def component_names(self) -> list[str]:
        """The component names of the rubrics, in order."""
        return [rubric.component_name for rubric in self.rubrics]


class _RubricTable(TomlTable):
    # A letter or a digit names the component.
    title: Annotated[str, msgspec.Meta(pattern="[A-Za-z0-9]")]
    description: Annotated[str, msgspec.Meta(pattern=r"\S")]
    polarity: Literal["positive", "negative"] = "positive"
    scores: list[float] | dict[str, Any] | None = None


class _SetTable(NamedTable, kw_only=True):
    rubric: Annotated[list[_RubricTable], msgspec.Meta(min_length=1)]


def parse_rubric_set(table: Fields, where: str) -> RubricSet:
    """Parse a rubric set from the file `where`; its version is a digest of its content."""
    given = parse_table(_SetTable, table, where)
    rubrics: dict[str, Rubric] = {}
    for number, entry in enumerate(given.rubric, start=1):
        rubric = Rubric(
            entry.title.strip(),
            entry.description.strip(),
            entry.polarity == "positive",
            _score_map_of(entry.scores, f"{where}: [[rubric]] {number}"),
        )
        twin = rubrics.setdefault(rubric.component_name, rubric)
        if twin is not rubric:
            raise UsageError(
                f"{where}: the titles {twin.title!r} and {rubric.title!r} both map to "
                f"{rubric.component_name}; rename one of them."
            )
    return RubricSet(given.name, version_of(table), given.about, tuple(rubrics.values()))


def _score_map_of(scores: list[float] | dict[str, Any] | None, where: str) -> ScoreMap:
    if scores is None:
        return YES_OR_NO
    meanings: dict[Any, Any] = scores if isinstance(scores, dict) else dict.fromkeys(scores, "")
    numbers: dict[float, str] = {}
    for given, meaning in meanings.items():
        score = parse_number(given) if isinstance(given, str) else given
        if score is None or not math.isfinite(score):
            raise UsageError(f"{where}: the score {given!r} is not a number; write one.")
        if not isinstance(meaning, str):  # TOML parsed the decimal point of a score as a path
            raise UsageError(
                f"{where}: the meaning of score {given} is {meaning!r}; expected a text (and a "
                "score such as '0.5' in quotation marks)."
            )
        numbers[float(score)] = " ".join(meaning.split())
    if len(numbers) < max(2, len(scores)):
        raise UsageError(f"{where}: expected two or more scores, each given once.")
    return tuple(sorted(numbers.items()))
