"""Read verdicts that another program recorded."""

from collections.abc import Iterator
from typing import NamedTuple

from genrm_cli.errors import InputError
from genrm_cli.json_types import JsonObject
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.source import open_source
from genrm_cli.storage.store import Store
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIN_RANKING, MIN_SCORE, Verdict

_MAX_LINE_BYTES = 64_000_000  # the default limit of rollouts
_EXPECTED = "expected recorded verdicts (source, judge, prompt_id, i, j, score_1, score_2, ranking)"


class RecordedVerdict(NamedTuple):
    """A line of a file of recorded verdicts.

    Attributes:
        judge: `source/judge`; `prompt` is `source/prompt_id`.
        first: name of the system whose response was shown first; `second` likewise.
        verdict: None for a failure.
    """

    judge: str
    prompt: str
    first: str
    second: str
    verdict: Verdict | None


def iter_recorded(uri: str) -> Iterator[RecordedVerdict]:
    """Yield the lines of a file.

    Raises:
        InputError: a line has another form.
        StorageError: the file cannot be read.
    """
    with open_source(uri, Store(), _MAX_LINE_BYTES) as source:
        for line in source.iter_lines():
            try:
                yield _parse(parse_record(line.raw))
            except KeyError as error:
                raise InputError(
                    f"{uri}: line {line.number}: {error.args[0]} is missing; {_EXPECTED}."
                ) from error
            except (BadLineError, TypeError, ValueError) as error:
                raise InputError(f"{uri}: line {line.number}: {error}; {_EXPECTED}.") from error


def _parse(record: JsonObject) -> RecordedVerdict:
    source = record["source"]
    judge = f"{source}/{record['judge']}"
    prompt = f"{source}/{record['prompt_id']}"
    first = str(record["i"])
    second = str(record["j"])
    if first == second:
        raise ValueError(f"{first} was compared with itself")
    if record["score_1"] is None:
        return RecordedVerdict(judge, prompt, first, second, None)
    scores = (float(record["score_1"]), float(record["score_2"]))
    ranking = float(record["ranking"])
    if not (
        all(MIN_SCORE <= score <= MAX_SCORE for score in scores)
        and MIN_RANKING <= ranking <= MAX_RANKING
    ):
        raise ValueError(
            f"scores {scores[0]:g} and {scores[1]:g} with ranking {ranking:g} are not a verdict; "
            "expected scores from 1 to 5, a ranking from 1 to 6"
        )
    return RecordedVerdict(judge, prompt, first, second, Verdict(*scores, ranking))
