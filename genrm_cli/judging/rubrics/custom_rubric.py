"""A rubric set of the user's own, from a table."""

import math
import re
from collections.abc import Mapping

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.parsing.scales import parse_decimal
from genrm_cli.judging.profiles.toml_table import parse_name, refuse_unknown, version_of
from genrm_cli.judging.rubrics.rubric import YES_OR_NO, Rubric, RubricSet, ScoreMap

_SPEAKING = re.compile(r"[A-Za-z0-9]")
_TOP = {"name", "about", "rubric"}
_RUBRIC = {"title", "description", "polarity", "scores"}
_POSITIVE = {"positive": True, "negative": False}


def parse_rubric_set(table: Mapping[str, object], where: str) -> RubricSet:
    """Make a rubric set of a table, as a TOML file holds it.

    Its version is made of its content: another content is another set, for journals and outputs alike.

    Args:
        table: a list `rubric` of tables with `title`, `description`, and if wanted `polarity` (`positive`, or
            `negative` for a flaw) and `scores` (a list, or a table of meanings); if wanted `name` and `about`.
        where: the file, for messages.

    Raises:
        UsageError: something is missing, unknown or cannot be; names it.
    """
    refuse_unknown(table, _TOP, where)
    name = parse_name(table, where)
    about = table.get("about", f"from {where}")
    if not isinstance(about, str):
        raise UsageError(f"{where}: about is {about!r}; it is one line of text for a person.")
    return RubricSet(
        name=name,
        version=version_of(table),
        about=about,
        rubrics=_rubrics_of(table, where),
    )


def _rubrics_of(table: Mapping[str, object], where: str) -> tuple[Rubric, ...]:
    entries = table.get("rubric")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{where}: there is no [[rubric]]; each has a title and a description.")
    rubrics: dict[str, Rubric] = {}
    for number, entry in enumerate(entries, start=1):
        rubric = _rubric_of(entry, f"{where}: [[rubric]] {number}")
        twin = rubrics.setdefault(rubric.component_name, rubric)
        if twin is not rubric:
            raise UsageError(
                f"{where}: the titles {twin.title!r} and {rubric.title!r} both make {rubric.component_name}; "
                "rename one of them."
            )
    return tuple(rubrics.values())


def _rubric_of(entry: object, where: str) -> Rubric:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {entry!r}; it is a table with a title and a description.")
    refuse_unknown(entry, _RUBRIC, where)
    title, description = _text_of(entry, "title", where), _text_of(entry, "description", where)
    if not _SPEAKING.search(title):
        raise UsageError(f"{where}: title {title!r} has no letter a to z and no digit to name its component by.")
    polarity = entry.get("polarity", "positive")
    if not isinstance(polarity, str) or polarity not in _POSITIVE:
        raise UsageError(f"{where}: polarity {polarity!r} is not positive, or negative for a flaw.")
    score_map = _score_map_of(entry["scores"], where) if "scores" in entry else YES_OR_NO
    return Rubric(title, description, _POSITIVE[polarity], score_map)


def _text_of(entry: Mapping[str, object], key: str, where: str) -> str:
    text = entry.get(key)
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where}: {key} is {text!r}; it is a text and cannot be left out.")
    return text.strip()


def _score_map_of(scores: object, where: str) -> ScoreMap:
    """Read the scores, and put them in order from the least to the greatest."""
    pairs = [(score, "") for score in scores] if isinstance(scores, list) else _meanings_of(scores, where)
    numbers: dict[float, str] = {}
    for given, meaning in pairs:
        score = parse_decimal(given) if isinstance(given, str) and isinstance(scores, Mapping) else given
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise UsageError(f"{where}: the score {given!r} is not a number.")
        if float(score) in numbers:
            raise UsageError(f"{where}: the score {given!r} stands there twice.")
        numbers[float(score)] = meaning
    if len(numbers) < 2:
        raise UsageError(f"{where}: scores has fewer than two scores; with one there is nothing to choose.")
    return tuple(sorted(numbers.items()))


def _meanings_of(scores: object, where: str) -> list[tuple[object, str]]:
    if not isinstance(scores, Mapping):
        raise UsageError(
            f"{where}: scores is {scores!r}; it is a list as in [1, 2], or a table as in {{ 1 = 'bad', 2 = 'good' }}."
        )
    for score, meaning in scores.items():
        if isinstance(meaning, Mapping):
            raise UsageError(
                f"{where}: TOML takes the point in {score}.… for a path; put the score in quotation marks."
            )
        if not isinstance(meaning, str):
            raise UsageError(f"{where}: the meaning of score {score} is {meaning!r}; it is a text.")
    return [(score, " ".join(str(meaning).split())) for score, meaning in scores.items()]
