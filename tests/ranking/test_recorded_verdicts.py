"""Verdicts of another program."""

import json
from pathlib import Path
from typing import Any

import pytest

from genrm_cli.errors import InputError
from genrm_cli.ranking.recorded_verdicts import iter_recorded
from genrm_cli.verdicts import Verdict

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


def write(path: Path, *records: dict[str, Any]) -> str:
    """Write records as lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def test_a_line_names_its_judge_and_the_compared_systems(tmp_path: Path) -> None:
    """A judge and a prompt are named after their source, too; a failure has no verdict."""
    path = write(tmp_path / "recorded.jsonl", RECORDED, RECORDED | {"score_1": None})
    verdict, failure = iter_recorded(path)
    assert verdict == ("s/g", "s/1", "a", "b", Verdict(4, 2, 2))
    assert failure == ("s/g", "s/1", "a", "b", None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"i": "b"}, "b was compared with itself"),
        ({"score_1": 7.0}, "scores 7 and 2 with ranking 2 are not a verdict; expected scores"),
        ({"ranking": float("inf")}, "expected"),
        ({"score_2": "x"}, "could not convert .*; expected recorded verdicts"),
    ],
)
def test_other_lines_are_errors(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """The message names the file and the line, what was found and what was expected."""
    path = write(tmp_path / "a.jsonl", RECORDED, RECORDED | changes)
    with pytest.raises(InputError, match=f"a.jsonl: line 2: .*{message}"):
        list(iter_recorded(path))


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    """A comparison of a run lacks the fields; a text file is no JSON."""
    path = write(tmp_path / "a.jsonl", {"group": "task:1", "i": 0, "j": 1})
    with pytest.raises(InputError, match="source is missing; expected recorded verdicts"):
        list(iter_recorded(path))
    (tmp_path / "a.txt").write_text("not JSON\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1"):
        list(iter_recorded(str(tmp_path / "a.txt")))
