"""Read the verdicts of earlier runs from a comparisons file."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from genrm_cli.errors import InputError
from genrm_cli.pairing import Comparison
from genrm_cli.rewards.estimators import Verdicts
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.source import open_source
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIN_RANKING, MIN_SCORE, Verdict

_MAX_LINE_BYTES = 64_000_000
_EXPECTED = (
    "expected a *.comparisons.jsonl of `genrm score`, or recorded verdicts (source, judge, prompt_id, i, j, score_1, "
    "score_2, ranking)"
)
_RECORDED = ("source", "judge", "i", "j", "score_1")

JudgedGroups = dict[str, Verdicts]
"""The verdicts of a judge by the name of the group."""


def read_judges(uri: str, s3: S3Options | None = None) -> dict[str | None, JudgedGroups]:
    """Return the verdicts of each judge in a `*.comparisons.jsonl`, or in a file of recorded verdicts.

    Lines of recorded verdicts have `source`, `judge`, `prompt_id`, and names of the compared systems as `i` and `j`; a
    judge is then named `source/judge`. The judge is None where the file does not name it.

    Raises:
        InputError: a line is neither.
        StorageError: the file cannot be read.
    """
    by_judge: dict[str | None, dict[str, dict[Comparison, Verdict]]] = defaultdict(lambda: defaultdict(dict))
    for where, record in _iter_comparisons(uri, s3 or S3Options()):
        judged = _parse_comparison(record, where)
        if judged is not None:
            i, j, verdict = judged
            group = by_judge[record.get("judge")][str(record.get("group"))]
            group[Comparison(i, j, len(group))] = verdict  # numbered anew: a file may repeat a comparison
    return {judge: dict(groups) for judge, groups in by_judge.items()}


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
    indices = {name: known.setdefault(record[name], len(known)) for name in ("i", "j")}
    return record | indices | {"judge": judge, "group": group, "failure": None}


def _parse_comparison(record: dict[str, Any], where: str) -> tuple[int, int, Verdict] | None:
    """Return the verdict of a line; None for a failure, and for a line that is not a comparison of a pair.

    Raises:
        InputError: the line cannot be read.
    """
    try:
        i, j, failure = record["i"], record["j"], record["failure"]
        if failure is not None or j is None or record["score_1"] is None:
            return None
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
    return i, j, verdict
