"""Read the verdicts of earlier runs: from a journal, or from a comparisons file."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genrm_cli.errors import InputError, UsageError
from genrm_cli.judging.journal import Journal
from genrm_cli.pairing import Comparison
from genrm_cli.rewards.estimators import Verdicts
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.source import open_source
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIN_RANKING, MIN_SCORE, FailureKind, Verdict

_MAX_LINE_BYTES = 64_000_000
_EXPECTED = (
    "expected a *.comparisons.jsonl of `genrm score`, or recorded verdicts (source, judge, prompt_id, i, j, score_1, "
    "score_2, ranking)"
)
_RECORDED = ("source", "judge", "i", "j", "score_1")
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class KeptVerdicts:
    """The verdicts of one judge in earlier runs.

    Attributes:
        judge: its name; None if the file does not name it.
        groups: verdicts by group and index; those of a journal, which knows neither, form one group of pairs (0, 1).
        failures: number of comparisons without a verdict.
        known_rollouts: whether groups and indices are meaningful.
        names: of the groups, the same for all judges of a file; empty for a journal.
    """

    judge: str | None
    groups: list[Verdicts]
    failures: int
    known_rollouts: bool
    names: tuple[str, ...] = ()

    @property
    def verdicts(self) -> int:
        """Number of verdicts."""
        return sum(map(len, self.groups))


def read_verdicts(uri: str, judge: str | None = None, s3: S3Options | None = None) -> KeptVerdicts:
    """Read the verdicts of a judge from a local `*.journal.sqlite` or a `*.comparisons.jsonl`.

    Raises:
        InputError: the file is neither.
        StorageError: the file cannot be read.
        UsageError: the file has no verdict of this judge, or those of several judges and none is named.
    """
    if _is_sqlite(uri):
        return _read_journal(uri, judge)
    kept = {each.judge: each for each in read_judges(uri, s3)}
    return kept[_choose(uri, judge, {name: each.verdicts for name, each in kept.items()})]


def read_judges(uri: str, s3: S3Options | None = None) -> list[KeptVerdicts]:
    """Read the verdicts of each judge in a `*.comparisons.jsonl`, or in a file of recorded verdicts.

    Lines of recorded verdicts have `source`, `judge`, `prompt_id`, and names of the compared systems as `i` and `j`; a
    judge is then named `source/judge`.

    Raises:
        InputError: a line is neither.
        StorageError: the file cannot be read.
    """
    by_judge: dict[str | None, dict[str, dict[Comparison, Verdict]]] = defaultdict(lambda: defaultdict(dict))
    failures: Counter[str | None] = Counter()
    for where, record in _iter_comparisons(uri, s3 or S3Options()):
        judged, failure = _parse_comparison(record, where)
        if judged is not None:
            i, j, verdict = judged
            group = by_judge[record.get("judge")][str(record.get("group"))]
            group[Comparison(i, j, len(group))] = verdict  # numbered anew: a file may repeat a comparison
        elif failure is not None:
            failures[record.get("judge")] += 1
    return [
        KeptVerdicts(judge, list(groups.values()), failures[judge], known_rollouts=True, names=tuple(groups))
        for judge, groups in by_judge.items()
    ]


def _is_sqlite(uri: str) -> bool:
    try:
        with Path(uri).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # not a local file: reading its lines reports the error


def _read_journal(path: str, judge: str | None) -> KeptVerdicts:
    with Journal(path, read_only=True) as journal:
        statistics = journal.statistics()
        chosen = _choose(path, judge, {each["judge"]: each["verdicts"] for each in statistics["judges"]})
        pairs = {
            Comparison(0, 1, number): Verdict(*numbers)
            for number, numbers in enumerate(journal.iter_verdicts(str(chosen)))
        }
    failures = sum(
        each["count"]
        for each in statistics["failures"]
        if each["judge"] == chosen and each["kind"] != FailureKind.NOT_ASKED
    )
    return KeptVerdicts(chosen, [pairs], failures, known_rollouts=False)


def _iter_comparisons(uri: str, s3: S3Options) -> Iterator[tuple[str, dict[str, Any]]]:
    numbers: dict[tuple[str, str], dict[object, int]] = defaultdict(dict)
    with open_source(uri, s3, _MAX_LINE_BYTES) as source:
        for line in source.iter_lines():
            where = f"{uri}: line {line.number}"
            try:
                record = parse_record(line.raw)
            except BadLineError as error:
                raise InputError(f"{where}: {error}; {_EXPECTED}.") from error
            if "prompt_id" not in record:
                yield where, record
            elif missing := [name for name in _RECORDED if name not in record]:
                raise InputError(f"{where}: {missing[0]} is missing; {_EXPECTED}.")
            else:
                yield where, _comparison_of(record, numbers)


def _comparison_of(record: dict[str, Any], numbers: dict[tuple[str, str], dict[object, int]]) -> dict[str, Any]:
    """Return a recorded verdict as a comparison; the systems of a group are numbered in the order they appear."""
    source = str(record["source"])
    judge, group = f"{source}/{record['judge']}", f"{source}/{record['prompt_id']}"
    known = numbers[source, group]
    places = {name: known.setdefault(record[name], len(known)) for name in ("i", "j")}
    failure = {"kind": FailureKind.NO_VERDICT.value} if record["score_1"] is None else None
    return record | places | {"judge": judge, "group": group, "failure": failure}


def _parse_comparison(record: dict[str, Any], where: str) -> tuple[tuple[int, int, Verdict] | None, str | None]:
    """Return the verdict of a line, or the kind of its failure; neither for a line that is not a comparison of a pair.

    Raises:
        InputError: the line cannot be read.
    """
    try:
        i, j, failure = record["i"], record["j"], record["failure"]
        if failure is not None:
            kind = FailureKind(failure["kind"])
            return None, None if kind is FailureKind.NOT_ASKED or "component" in record else kind
        if j is None or record["score_1"] is None:
            return None, None
        i, j = int(i), int(j)
        verdict = Verdict(float(record["score_1"]), float(record["score_2"]), float(record["ranking"]))
    except KeyError as error:
        raise InputError(f"{where}: {error.args[0]} is missing; {_EXPECTED}.") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: not a comparison; {_EXPECTED}.") from error
    if min(i, j) < 0 or i == j:
        raise InputError(f"{where}: {record['i']!r} and {record['j']!r} are not two rollouts.")
    scores = (verdict.score_1, verdict.score_2)
    if not (all(MIN_SCORE <= one <= MAX_SCORE for one in scores) and MIN_RANKING <= verdict.ranking <= MAX_RANKING):
        raise InputError(
            f"{where}: scores {verdict.score_1:g} and {verdict.score_2:g} with ranking {verdict.ranking:g} are not a "
            "verdict; expected scores from 1 to 5, a ranking from 1 to 6."
        )
    return (i, j, verdict), None


def _choose(uri: str, judge: str | None, verdicts: dict[str | None, int]) -> str | None:
    """Return the judge whose verdicts to read."""
    names = ", ".join(f"{name} ({count:,} verdicts)" for name, count in verdicts.items())
    if not verdicts:
        raise UsageError(f"{uri} holds no verdict; nothing can be fitted to it.")
    if judge is not None and judge not in verdicts:
        raise UsageError(f"{uri} holds no verdict of {judge!r}; it has those of {names}.")
    if judge is None and len(verdicts) > 1:
        raise UsageError(f"{uri} holds the verdicts of several judges: {names}. Choose one with --judge.")
    return judge if judge is not None else next(iter(verdicts))
