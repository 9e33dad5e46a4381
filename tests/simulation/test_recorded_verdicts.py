"""Verdicts of earlier runs, read from a journal or a comparisons file."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from verdict_rows import verdicts_of

from genrm_cli.errors import InputError, StorageError, UsageError
from genrm_cli.judging.journal import Journal
from genrm_cli.rewards.estimators import verdict_array
from genrm_cli.simulation.recorded_verdicts import read_verdicts
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict


def comparison(**changes: Any) -> dict[str, Any]:
    """Return a line of a comparisons file."""
    return {
        "group": "task:1",
        "i": 0,
        "j": 1,
        "judge_idx": 0,
        "score_1": 4.0,
        "score_2": 2.0,
        "ranking": 2.0,
        "failure": None,
        "judge": "house",
    } | changes


def failed(kind: str) -> dict[str, Any]:
    """Return a line of a comparison that gave no verdict."""
    return comparison(score_1=None, score_2=None, ranking=None, failure={"kind": kind, "detail": ""})


def write(path: Path, *records: dict[str, Any]) -> str:
    """Write records as lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def record_all(path: Path, *entries: tuple[str, Any]) -> str:
    """Write a journal of one result for each question."""

    async def run() -> None:
        with Journal(str(path)) as journal:
            for number, (judge, result) in enumerate(entries):
                await journal.record(bytes([number]) * 32, judge, Outcome(result, reply_text=""))

    asyncio.run(run())
    return str(path)


def test_comparisons_are_read_group_by_group(tmp_path: Path) -> None:
    """With their places; failures are counted, what was never asked and what is no pair is not."""
    path = write(
        tmp_path / "a.comparisons.jsonl",
        comparison(),
        comparison(group="task:2"),
        comparison(i=1, j=0, score_1=3.0),
        failed("timeout"),
        failed("not_asked"),
        comparison(i=2, j=None, score_1=None, score_2=None, ranking=None, grades=[4.0]),
        comparison(component="safety", failure={"kind": "timeout", "detail": ""}),
    )
    kept = read_verdicts(path)
    assert kept.groups == [verdicts_of([(0, 1, 4, 2, 2), (1, 0, 3, 2, 2)]), verdicts_of([(0, 1, 4, 2, 2)])]
    assert (kept.judge, kept.verdicts, kept.failures, kept.known_rollouts) == ("house", 3, 1, True)


def test_a_journal_gives_scores_without_rollouts(tmp_path: Path) -> None:
    """Grades and defaults are no verdicts of pairs; failures of the judge are counted."""
    path = record_all(
        tmp_path / "a.journal.sqlite",
        ("house", Verdict(4, 2, 2)),
        ("house", Verdict(3, 3, 3.5, defaulted=True)),
        ("house", Grades((4.0,))),
        ("house", Failure(FailureKind.TIMEOUT, "")),
        ("house", Verdict(1, 5, 6)),
    )
    kept = read_verdicts(path)
    assert [sorted(verdict_array(group).tolist()) for group in kept.groups] == [[[0, 1, 1, 5, 6], [0, 1, 4, 2, 2]]]
    assert (kept.judge, kept.verdicts, kept.failures, kept.known_rollouts) == ("house", 2, 1, False)


def test_of_several_judges_one_is_named(tmp_path: Path) -> None:
    """Two judges are never taken for one: the error names both, and the option that chooses."""
    lines = write(tmp_path / "a.jsonl", comparison(), comparison(judge="other", i=5))
    journal = record_all(tmp_path / "a.sqlite", ("house", Verdict(4, 2, 2)), ("other", Verdict(1, 5, 6)))
    for path in (lines, journal):
        with pytest.raises(UsageError, match=r"house \(1 verdicts\), other \(1 verdicts\). Choose one with --judge"):
            read_verdicts(path)
        assert read_verdicts(path, "other").verdicts == 1
        with pytest.raises(UsageError, match="holds no verdict of 'third'"):
            read_verdicts(path, "third")


RECORDED = {"source": "s", "judge": "g", "prompt_id": "1", "i": "a", "j": "b", "score_1": 4, "score_2": 2, "ranking": 2}


def without(name: str) -> dict[str, Any]:
    """Return a recorded verdict that lacks a field."""
    return {key: value for key, value in RECORDED.items() if key != name}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"i": 0}, "j is missing; expected a .*comparisons.jsonl"),
        (comparison(score_1=7.0), "scores 7 and 2 with ranking 2 are not a verdict; expected scores from 1 to 5"),
        (comparison(ranking=float("inf")), "not a comparison; expected"),
        (comparison(j=0), "0 and 0 are not two rollouts"),
        (comparison(i="first"), "not a comparison; expected"),
        (comparison(failure={"kind": "boredom"}), "not a comparison; expected"),
        ({**RECORDED, "j": "a"}, "0 and 0 are not two rollouts"),
        *((without(name), f"{name} is missing") for name in ("source", "judge", "i", "j", "score_1", "ranking")),
    ],
)
def test_what_is_no_comparison_is_an_error_with_its_line(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    """The file, the line, what is wrong and what was expected; nothing is left out in silence."""
    path = write(tmp_path / "a.jsonl", comparison(), line)
    with pytest.raises(InputError, match=f"a.jsonl: line 2: .*{message}"):
        read_verdicts(path)


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    """One that is not there, text, an empty one, and a database of another program."""
    with pytest.raises(InputError, match=r"none\.sqlite"):
        read_verdicts(str(tmp_path / "none.sqlite"))
    assert not (tmp_path / "none.sqlite").exists()
    (tmp_path / "a.txt").write_text("not JSON\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1"):
        read_verdicts(str(tmp_path / "a.txt"))
    with pytest.raises(UsageError, match="holds no verdict"):
        read_verdicts(write(tmp_path / "empty.jsonl"))
    (tmp_path / "b.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 200)
    with pytest.raises(StorageError):
        read_verdicts(str(tmp_path / "b.sqlite"))
