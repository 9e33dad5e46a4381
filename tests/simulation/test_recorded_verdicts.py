"""Verdicts of earlier runs, read from a comparisons file."""

import json
from pathlib import Path
from typing import Any

import pytest
from verdict_rows import verdicts_of

from genrm_cli.errors import InputError
from genrm_cli.simulation.recorded_verdicts import read_judges


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
        "format": 1,
        "attempts": 1,
        "latency_s": 0.1,
        "prompt_tokens": 1,
        "completion_tokens": 1,
    } | changes


def failed(kind: str) -> dict[str, Any]:
    """Return a line of a comparison that gave no verdict."""
    return comparison(
        score_1=None, score_2=None, ranking=None, failure={"kind": kind, "detail": ""}
    )


def write(path: Path, *records: dict[str, Any]) -> str:
    """Write records as lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def test_comparisons_are_read_group_by_group(tmp_path: Path) -> None:
    """With their indices; failures and grades are left out."""
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
    assert read_judges(path) == {
        "house": {
            "task:1": verdicts_of([(0, 1, 4, 2, 2), (1, 0, 3, 2, 2)]),
            "task:2": verdicts_of([(0, 1, 4, 2, 2)]),
        }
    }


RECORDED = {
    "source": "s",
    "judge": "g",
    "prompt_id": "1",
    "i": "a",
    "j": "b",
    "score_1": 4,
    "score_2": 2,
    "ranking": 2,
}


def test_recorded_verdicts_name_systems(tmp_path: Path) -> None:
    """The systems of a group are numbered in the order they appear; a judge is named after its
    source, too.
    """
    path = write(
        tmp_path / "recorded.jsonl",
        RECORDED,
        RECORDED | {"i": "b", "j": "c"},
        RECORDED | {"score_1": None},
    )
    assert read_judges(path) == {"s/g": {"s/1": verdicts_of([(0, 1, 4, 2, 2), (1, 2, 4, 2, 2)])}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {name: value for name, value in RECORDED.items() if name != "judge"},
            "judge is missing; expected",
        ),
        ({"i": 0}, "expected a .*comparisons.jsonl"),
        (
            comparison(score_1=7.0),
            "scores 7 and 2 with ranking 2 are not a verdict; expected scores from 1 to 5",
        ),
        (comparison(ranking=float("inf")), "expected"),
        (comparison(j=0), "0 and 0 are not two rollouts"),
        (comparison(i="first"), "i.*; expected"),
    ],
)
def test_what_is_no_comparison_is_an_error_with_its_line(
    tmp_path: Path, line: dict[str, Any], message: str
) -> None:
    """The file, the line, what is wrong and what was expected; nothing is left out in silence."""
    path = write(tmp_path / "a.jsonl", comparison(), line)
    with pytest.raises(InputError, match=f"a.jsonl: line 2: .*{message}"):
        read_judges(path)


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    """One that is not there, and text; an empty one has no judge."""
    with pytest.raises(InputError, match=r"none\.jsonl"):
        read_judges(str(tmp_path / "none.jsonl"))
    (tmp_path / "a.txt").write_text("not JSON\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1"):
        read_judges(str(tmp_path / "a.txt"))
    assert read_judges(write(tmp_path / "empty.jsonl")) == {}
