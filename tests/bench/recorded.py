"""Read verdicts that another program recorded: lines with `source`, `judge`, `prompt_id`, `i`, `j`,
`score_1`, `score_2` and `ranking`. A failure has no scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from genrm_cli.verdicts import Verdict


class RecordedVerdict(NamedTuple):
    """A line; `judge` and `prompt` begin with its source, and a failure has no verdict."""

    judge: str
    prompt: str
    first: str
    second: str
    verdict: Verdict | None


def iter_recorded(path: str) -> Iterator[RecordedVerdict]:
    """Yield the lines of a file."""
    with Path(path).open("rb") as lines:
        for line in lines:
            record = orjson.loads(line)
            numbers = (record["score_1"], record["score_2"], record["ranking"])
            yield RecordedVerdict(
                f"{record['source']}/{record['judge']}",
                f"{record['source']}/{record['prompt_id']}",
                str(record["i"]),
                str(record["j"]),
                None if None in numbers else Verdict(*map(float, numbers)),
            )
