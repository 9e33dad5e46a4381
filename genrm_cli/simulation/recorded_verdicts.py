"""Read the verdicts of earlier runs, from a comparisons file or a file of recorded verdicts."""

from collections import defaultdict

from genrm_cli.errors import InputError
from genrm_cli.json_types import JsonObject
from genrm_cli.pairing import Comparison
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.scored.json_form import FormError, from_json
from genrm_cli.scored.lines import ComparisonRecord
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.source import open_source
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIN_RANKING, MIN_SCORE, Verdict

_MAX_LINE_BYTES = 64_000_000
_EXPECTED = (
    "expected a *.comparisons.jsonl of `genrm score`, or recorded verdicts (source, judge, "
    "prompt_id, i, j, score_1, "
    "score_2, ranking)"
)

_Judged = tuple[str, str, int, int, Verdict]
"""Judge and group, the rollout shown first and the second, the verdict."""


def read_judges(
    uri: str, systems: dict[str, dict[object, int]] | None = None
) -> dict[str, dict[str, Verdicts]]:
    """Return the verdicts of each judge by group; failures and grades are left out.

    Lines are those of a `*.comparisons.jsonl`, or recorded verdicts: `source`, `judge`,
    `prompt_id`, names of the compared systems as `i` and `j`, and the verdict. A judge of recorded
    verdicts is named `source/judge`.

    Args:
        uri: the file.
        systems: a defaultdict of dicts that receives the numbers of the systems of each group of
            recorded verdicts.

    Raises:
        InputError: a line is neither.
        StorageError: the file cannot be read.
    """
    by_judge: dict[str, dict[str, dict[Comparison, Verdict]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    systems = defaultdict(dict) if systems is None else systems
    with open_source(uri, S3Options(), _MAX_LINE_BYTES) as source:
        for line in source.iter_lines():
            try:
                record = parse_record(line.raw)
                judged = _recorded(record, systems) if "prompt_id" in record else _compared(record)
                if judged is not None:
                    judge, name, i, j, verdict = judged
                    _check(i, j, verdict)
                    group = by_judge[judge][name]
                    group[Comparison(i, j, len(group))] = (
                        verdict  # numbered anew: a file may repeat a comparison
                    )
            except KeyError as error:
                raise InputError(
                    f"{uri}: line {line.number}: {error.args[0]} is missing; {_EXPECTED}."
                ) from error
            except (BadLineError, FormError, TypeError, ValueError) as error:
                raise InputError(f"{uri}: line {line.number}: {error}; {_EXPECTED}.") from error
    return {judge: dict(groups) for judge, groups in by_judge.items()}


def _compared(record: JsonObject) -> _Judged | None:
    """Return the verdict of a comparison record; None for a failure, and for grades."""
    comparison = from_json(ComparisonRecord, record)
    if not comparison.is_pair or comparison.failure is not None:
        return None
    if comparison.verdict is None:
        raise ValueError("neither a verdict nor a failure")
    i, j = comparison.indices
    return comparison.judge, str(comparison.group), i, j, comparison.verdict


def _recorded(record: JsonObject, systems: dict[str, dict[object, int]]) -> _Judged | None:
    """Return a recorded verdict; the systems of a group are numbered in the order they appear."""
    source, judge, first, second = (record[name] for name in ("source", "judge", "i", "j"))
    group = f"{source}/{record['prompt_id']}"
    i, j = (systems[group].setdefault(system, len(systems[group])) for system in (first, second))
    if record["score_1"] is None:
        return None
    verdict = Verdict(float(record["score_1"]), float(record["score_2"]), float(record["ranking"]))
    return f"{source}/{judge}", group, i, j, verdict


def _check(i: int, j: int, verdict: Verdict) -> None:
    """Raise a ValueError that describes the problem with a pair or its verdict."""
    if min(i, j) < 0 or i == j:
        raise ValueError(f"{i} and {j} are not two rollouts")
    scores = (verdict.score_1, verdict.score_2)
    if not (
        all(MIN_SCORE <= one <= MAX_SCORE for one in scores)
        and MIN_RANKING <= verdict.ranking <= MAX_RANKING
    ):
        raise ValueError(
            f"scores {verdict.score_1:g} and {verdict.score_2:g} with ranking {verdict.ranking:g} "
            "are not a verdict; "
            "expected scores from 1 to 5, a ranking from 1 to 6"
        )
