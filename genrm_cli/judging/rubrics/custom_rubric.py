"""Custom rubric sets, from TOML tables."""

import math
import re
from collections.abc import Mapping

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.parsing.scales import parse_decimal
from genrm_cli.judging.profiles.toml_table import parse_name, refuse_unknown, version_of
from genrm_cli.judging.rubrics.rubric import YES_OR_NO, Rubric, RubricSet, ScoreMap

_TOP = {"name", "about", "rubric"}
_RUBRIC = {"title", "description", "polarity", "scores"}
_POSITIVE = {"positive": True, "negative": False}


def parse_rubric_set(table: Mapping[str, object], where: str) -> RubricSet:
    """Parse a rubric set; its version is a digest of its content.

    Args:
        table: a list `rubric` of tables with `title`, `description`, and optionally `polarity` (`positive`, or
            `negative` for a flaw) and `scores` (a list, or a table of meanings); optionally `name` and `about`.
        where: the file, for messages.

    Raises:
        UsageError: a value is missing, unknown or invalid.
    """
    refuse_unknown(table, _TOP, where)
    name = parse_name(table, where)
    about = table.get("about", f"from {where}")
    if not isinstance(about, str):
        raise UsageError(f"{where}: about is {about!r}; expected one line of text.")
    return RubricSet(name, version_of(table), about, _rubrics_of(table, where))


def _rubrics_of(table: Mapping[str, object], where: str) -> tuple[Rubric, ...]:
    entries = table.get("rubric")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{where}: no [[rubric]] found; add one with a title and a description.")
    rubrics: dict[str, Rubric] = {}
    for number, entry in enumerate(entries, start=1):
        rubric = _rubric_of(entry, f"{where}: [[rubric]] {number}")
        twin = rubrics.setdefault(rubric.component_name, rubric)
        if twin is not rubric:
            raise UsageError(
                f"{where}: the titles {twin.title!r} and {rubric.title!r} both map to {rubric.component_name}; "
                "rename one of them."
            )
    return tuple(rubrics.values())


def _rubric_of(entry: object, where: str) -> Rubric:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {entry!r}; expected a table with a title and a description.")
    refuse_unknown(entry, _RUBRIC, where)
    title, description = _text_of(entry, "title", where), _text_of(entry, "description", where)
    if not re.search("[A-Za-z0-9]", title):
        raise UsageError(f"{where}: title {title!r} needs a letter a to z or a digit, to name its component.")
    polarity = entry.get("polarity", "positive")
    if not isinstance(polarity, str) or polarity not in _POSITIVE:
        raise UsageError(f"{where}: polarity is {polarity!r}; expected positive, or negative for a flaw.")
    score_map = _score_map_of(entry["scores"], where) if "scores" in entry else YES_OR_NO
    return Rubric(title, description, _POSITIVE[polarity], score_map)


def _text_of(entry: Mapping[str, object], key: str, where: str) -> str:
    text = entry.get(key)
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where}: {key} is {text!r}; expected a non-empty text.")
    return text.strip()


def _score_map_of(scores: object, where: str) -> ScoreMap:
    """Parse the scores and sort them."""
    pairs = [(score, "") for score in scores] if isinstance(scores, list) else _meanings_of(scores, where)
    numbers: dict[float, str] = {}
    for given, meaning in pairs:
        score = parse_decimal(given) if isinstance(given, str) and isinstance(scores, Mapping) else given
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise UsageError(f"{where}: the score {given!r} is not a number.")
        if float(score) in numbers:
            raise UsageError(f"{where}: the score {given!r} is given twice.")
        numbers[float(score)] = meaning
    if len(numbers) < 2:
        raise UsageError(f"{where}: scores must have at least two entries, so that the judge has a choice.")
    return tuple(sorted(numbers.items()))


def _meanings_of(scores: object, where: str) -> list[tuple[object, str]]:
    if not isinstance(scores, Mapping):
        raise UsageError(
            f"{where}: scores is {scores!r}; expected a list such as [1, 2], "
            "or a table such as { 1 = 'bad', 2 = 'good' }."
        )
    for score, meaning in scores.items():
        if isinstance(meaning, Mapping):
            raise UsageError(
                f"{where}: TOML parses the point in {score}.… as a path; put the score in quotation marks."
            )
        if not isinstance(meaning, str):
            raise UsageError(f"{where}: the meaning of score {score} is {meaning!r}; expected a text.")
    return [(score, " ".join(str(meaning).split())) for score, meaning in scores.items()]
