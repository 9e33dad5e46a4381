"""Results of `genrm eval` on the page: accuracy by category, and two judges against each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genrm_cli.errors import InputError
from genrm_cli.evaluation.compare_results import compare_results
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.listing import names_many
from genrm_cli.storage.location import S3Options, is_scored_file
from genrm_cli.storage.objects import read_object
from genrm_cli.storage.sink import goes_out_at_once
from genrm_cli.storage.source import open_source

_KEYS = {"by_category", "figures", "judge", "pairs"}
_SHARES = ("consistent_accuracy", "flip_rate", "first_place_preference")


@dataclass(frozen=True, slots=True)
class QualityTable:
    """A judge's quality: a row of text for all pairs and for each category.

    Attributes:
        name: of the judge and its result.
        rows: category, accuracy, interval, right in both orders, flips, first place, pairs, failures.
        better: which of two judges is better; None for a single one.
    """

    name: str
    rows: tuple[tuple[str, ...], ...]
    better: str | None = None


def is_result(uri: str, settings: Settings, s3: S3Options) -> bool:
    """Return whether a file holds a result of `genrm eval`, by its first object.

    Raises:
        InputError: it cannot be read.
    """
    if goes_out_at_once(uri) or names_many(uri) or is_scored_file(uri):  # a pipe is read once
        return False
    with open_source(uri, s3, settings.input.max_line_bytes) as source:
        first = next(source.iter_lines(), None)
    if first is None or first.oversize is not None:
        return first is not None and uri.endswith(".json")
    try:
        return parse_record(first.raw).keys() >= _KEYS
    except BadLineError:
        return False


def read_qualities(uris: Sequence[str], s3: S3Options) -> list[QualityTable]:
    """Read results; the last of exactly two says which judge is better.

    Raises:
        InputError: a file is not a result of `genrm eval`.
    """
    tables = [_read(uri, s3) for uri in uris]
    if len(tables) != 2:
        return tables
    contest = compare_results(uris[0], uris[1], s3)
    p_value, pairs = contest["p_value"], contest["pairs"]
    which = {None: "No significant difference", "a": f"{uris[0]} is better", "b": f"{uris[1]} is better"}
    words = (
        f"{which[contest['better']]}: p = {p_value:.3g} (exact McNemar test of consistent accuracy, {pairs:,} pairs)."
    )
    return [tables[0], QualityTable(tables[1].name, tables[1].rows, words)]


def _read(uri: str, s3: S3Options) -> QualityTable:
    content = read_object(uri, s3)
    if content is None:
        raise InputError(f"{uri}: no such file; check the path")
    try:
        result = parse_record(content)
        rows = [_row("all pairs", result["figures"])]
        rows += [_row(name or "(none)", figures) for name, figures in result["by_category"].items()]
        return QualityTable(f"{result['judge']['name']} ({uri})", tuple(rows))
    except (BadLineError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{uri}: not a result of `genrm eval PAIRS -o {uri}` ({error!r})") from error


def _row(name: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    accuracy = figures["accuracy"]
    interval = "–" if accuracy["value"] is None else f"{100 * accuracy['low']:.1f} to {100 * accuracy['high']:.1f}"
    shares = [_percent(figures[each]["value"]) for each in _SHARES]
    return (name, _percent(accuracy["value"]), interval, *shares, f"{figures['pairs']:,}", f"{figures['failures']:,}")


def _percent(share: float | None) -> str:
    return "not measurable" if share is None else f"{100 * share:.1f} %"
