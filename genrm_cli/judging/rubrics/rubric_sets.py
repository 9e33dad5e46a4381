"""Rubric sets: the qualities that a judge grades and the scores it may give, from TOML tables."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.answer import parse_decimal
from genrm_cli.judging.profiles.custom import parse_name, version_of
from genrm_cli.judging.profiles.custom_verdict import refuse_unknown
from genrm_cli.judging.profiles.profile import Fields

ScoreMap = tuple[tuple[float, str], ...]

YES_OR_NO: ScoreMap = ((0.0, "no"), (1.0, "yes"))


@dataclass(frozen=True, slots=True)
class Rubric:
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


@dataclass(frozen=True, slots=True)
class RubricSet:
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


def parse_rubric_set(table: Fields, where: str) -> RubricSet:
    """Parse a rubric set from the file `where`; its version is a digest of its content."""
    refuse_unknown(table, {"name", "about", "rubric"}, where)
    name = parse_name(table, where)
    about = str(table.get("about", f"from {where}"))
    entries = table.get("rubric")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{where}: no [[rubric]] found; add one with a title and a description.")
    rubrics: dict[str, Rubric] = {}
    for number, entry in enumerate(entries, start=1):
        rubric = _rubric_of(entry, f"{where}: [[rubric]] {number}")
        twin = rubrics.setdefault(rubric.component_name, rubric)
        if twin is not rubric:
            raise UsageError(
                f"{where}: the titles {twin.title!r} and {rubric.title!r} both map to "
                f"{rubric.component_name}; "
                "rename one of them."
            )
    return RubricSet(name, version_of(table), about, tuple(rubrics.values()))


def _rubric_of(entry: object, where: str) -> Rubric:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {entry!r}; expected a table with a title and a description.")
    refuse_unknown(entry, {"title", "description", "polarity", "scores"}, where)
    title = entry.get("title")
    description = entry.get("description")
    if (
        not isinstance(title, str)
        or not isinstance(description, str)
        or not (title.strip() and description.strip())
    ):
        raise UsageError(
            f"{where}: title is {title!r}, description is {description!r}; expected non-empty "
            "texts."
        )
    if not re.search("[A-Za-z0-9]", title):
        raise UsageError(
            f"{where}: title {title!r} needs a letter a to z or a digit, to name its component."
        )
    polarity = entry.get("polarity", "positive")
    if polarity not in ("positive", "negative"):
        raise UsageError(
            f"{where}: polarity is {polarity!r}; expected positive, or negative for a flaw."
        )
    score_map = _score_map_of(entry["scores"], where) if "scores" in entry else YES_OR_NO
    return Rubric(title.strip(), description.strip(), polarity == "positive", score_map)


def _score_map_of(scores: object, where: str) -> ScoreMap:
    if not isinstance(scores, list | Mapping):
        raise UsageError(
            f"{where}: scores is {scores!r}; expected a list such as [1, 2], "
            "or a table such as { 1 = 'bad', 2 = 'good' }."
        )
    pairs = scores.items() if isinstance(scores, Mapping) else [(score, "") for score in scores]
    numbers: dict[float, str] = {}
    for given, meaning in pairs:
        if not isinstance(meaning, str):  # TOML parsed the decimal point of a score as a path
            raise UsageError(
                f"{where}: the meaning of score {given} is {meaning!r}; expected a text (and a "
                "score such as '0.5' in "
                "quotation marks)."
            )
        score = (
            parse_decimal(given)
            if isinstance(given, str) and isinstance(scores, Mapping)
            else given
        )
        if (
            isinstance(score, bool)
            or not isinstance(score, int | float)
            or not math.isfinite(score)
        ):
            raise UsageError(f"{where}: the score {given!r} is not a number.")
        if float(score) in numbers:
            raise UsageError(f"{where}: the score {given!r} is given twice.")
        numbers[float(score)] = " ".join(meaning.split())
    if len(numbers) < 2:
        raise UsageError(
            f"{where}: scores must have at least two entries, so that the judge has a choice."
        )
    return tuple(sorted(numbers.items()))
