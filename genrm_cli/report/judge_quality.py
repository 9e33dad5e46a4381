"""Results of `genrm eval` on the page: accuracy by category, and two judges against each other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from genrm_cli.evaluation.accuracy import JudgeQuality
from genrm_cli.evaluation.compare_judges import compare_results
from genrm_cli.evaluation.result import EvalResult, read_result
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.listing import names_many
from genrm_cli.storage.location import S3Options, is_scored_file
from genrm_cli.storage.sink import is_streamed
from genrm_cli.storage.source import open_source

_KEYS = {"by_category", "figures", "judge", "pairs"}


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
    if is_streamed(uri) or names_many(uri) or is_scored_file(uri):  # a pipe is read once
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
    tables = [_table_of(uri, read_result(uri, s3)) for uri in uris]
    if len(tables) != 2:
        return tables
    contest = compare_results(uris[0], uris[1], s3)
    which = {None: "No significant difference", "a": f"{uris[0]} is better", "b": f"{uris[1]} is better"}
    test = f"p = {contest.p_value:.3g} (exact McNemar test of consistent accuracy, {contest.pairs:,} pairs)"
    return [tables[0], replace(tables[1], better=f"{which[contest.better]}: {test}.")]


def _table_of(uri: str, result: EvalResult) -> QualityTable:
    rows = [_row("all pairs", result.figures)]
    rows += [_row(name or "(none)", figures) for name, figures in result.by_category.items()]
    return QualityTable(f"{result.judge.name} ({uri})", tuple(rows))


def _row(name: str, figures: JudgeQuality) -> tuple[str, ...]:
    accuracy = figures.accuracy
    interval = "–"
    if accuracy.low is not None and accuracy.high is not None:
        interval = f"{100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}"
    shares = (figures.consistent_accuracy, figures.flip_rate, figures.first_place_preference)
    percents = [_percent(share.value) for share in shares]
    return (name, _percent(accuracy.value), interval, *percents, f"{figures.pairs:,}", f"{figures.failures:,}")


def _percent(share: float | None) -> str:
    return "not measurable" if share is None else f"{100 * share:.1f} %"
