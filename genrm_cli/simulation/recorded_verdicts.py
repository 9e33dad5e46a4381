"""Read the verdicts of earlier runs from a comparisons file."""

from collections import defaultdict

from genrm_cli.errors import InputError
from genrm_cli.pairing import Comparison
from genrm_cli.rewards.estimators import Verdicts
from genrm_cli.scored.json_form import FormError, from_json
from genrm_cli.scored.lines import ComparisonRecord
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.source import open_source
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIN_RANKING, MIN_SCORE, Verdict

_MAX_LINE_BYTES = 64_000_000


def read_judges(uri: str) -> dict[str, dict[str, Verdicts]]:
    """Return the verdicts of each judge in a `*.comparisons.jsonl`, by group; failures and grades are left out.

    Raises:
        InputError: a line is not a comparison.
        StorageError: the file cannot be read.
    """
    by_judge: dict[str, dict[str, dict[Comparison, Verdict]]] = defaultdict(lambda: defaultdict(dict))
    with open_source(uri, S3Options(), _MAX_LINE_BYTES) as source:
        for line in source.iter_lines():
            try:
                record = from_json(ComparisonRecord, parse_record(line.raw))
                if record.is_pair and record.failure is None:
                    (i, j), verdict = _checked(record)
                    group = by_judge[record.judge][str(record.group)]
                    group[Comparison(i, j, len(group))] = verdict  # numbered anew: a file may repeat a comparison
            except (BadLineError, FormError, TypeError, ValueError) as error:
                raise InputError(
                    f"{uri}: line {line.number}: {error}; expected a *.comparisons.jsonl of `genrm score`."
                ) from error
    return {judge: dict(groups) for judge, groups in by_judge.items()}


def _checked(record: ComparisonRecord) -> tuple[tuple[int, int], Verdict]:
    """Return the rollouts and the verdict of a pair; a ValueError says what is wrong with them."""
    (i, j), verdict = record.indices, record.verdict
    if verdict is None:
        raise ValueError("neither a verdict nor a failure")
    if min(i, j) < 0 or i == j:
        raise ValueError(f"{i} and {j} are not two rollouts")
    scores = (verdict.score_1, verdict.score_2)
    if not (all(MIN_SCORE <= one <= MAX_SCORE for one in scores) and MIN_RANKING <= verdict.ranking <= MAX_RANKING):
        raise ValueError(
            f"scores {verdict.score_1:g} and {verdict.score_2:g} with ranking {verdict.ranking:g} are not a verdict; "
            "expected scores from 1 to 5, a ranking from 1 to 6"
        )
    return (i, j), verdict
