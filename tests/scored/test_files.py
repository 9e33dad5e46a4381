"""The files of a run are read back as they were written, and a damaged one says where and what."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from generated_records import records_of
from hypothesis import given
from scored_lines import metrics, scored, verdict, write_lines

from genrm_cli.errors import InputError
from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.rollouts.formats import FORMATS
from genrm_cli.scored.files import find_run_record, find_scored
from genrm_cli.scored.groups import ScoredGroup, ScoredRun
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.lines import parse_scored_line
from genrm_cli.scored.review_file import read_statuses
from genrm_cli.scored.write_lines import score_of
from genrm_cli.settings import settings_from
from genrm_cli.storage.store import Store

Json = dict[str, Any]
Damage = Callable[[Json], str]

LINES = [
    scored("Thirty.", 4.5),
    scored("Thirty-one.", None, index=1),
    scored("Because.", 2.0, group="task:2"),
]
COMPARISONS = [
    verdict(0, 1, 5, 2),
    verdict(1, 0, 2, 5, repeat=1),
    verdict(0, 1, 4, 4, group="task:2", reply="Both."),
]


@pytest.fixture
def run_files(tmp_path: Path) -> Path:
    """Write the files of a run; return their scored lines."""
    (tmp_path / "x.metrics.json").write_text(json.dumps(metrics()))
    write_lines(tmp_path / "x.comparisons.jsonl", COMPARISONS)
    return write_lines(tmp_path / "x.scored.jsonl", LINES)


def read(path: Path) -> list[ScoredGroup]:
    """Read the files of a run; a line that is not scored is an error."""
    settings = settings_from(judge="lexical", strict=True)
    (found,) = find_scored([str(path)], settings, Store())
    with ScoredRun(found, settings) as run:
        run.read(Store())
        return list(run.iter_groups())


def message_of(path: Path) -> str:
    """Return the error that reading the files of a run ends in."""
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value)


def test_groups_hold_what_their_lines_say(run_files):
    """Rollouts by index with text and reward, and the comparisons in the order of their file."""
    first, second = read(run_files)
    assert first.key == "task:1"
    assert second.key == "task:2"
    assert [each.rollout.answer for each in first.members] == ["Thirty.", "Thirty-one."]
    assert [each.line.reward for each in first.members] == [4.5, None]
    assert first.rewards == [4.5]
    assert [each.indices for each in first.comparisons] == [(0, 1), (1, 0)]
    assert [each.reply for each in second.comparisons] == ["Both."]


@pytest.mark.parametrize("name", ["chat", "completion", "episode", "nemo_gym"])
@given(line=records_of(ScoredLine))
def test_a_scored_line_is_read_back_from_its_format(name, line):
    """The `genrm` object and the reward, wherever the format has its own; the keys of the line keep
    their order.
    """
    record = copy.deepcopy(OF_FORMAT[name])
    FORMATS[name].annotate(record, [score_of(to_json(line))])
    again = json.loads(json.dumps(record))
    (score,) = FORMATS[name].scores(again)
    assert parse_scored_line(score) == line
    own = [key for key in again if key in OF_FORMAT[name]]
    assert own == list(OF_FORMAT[name])


ASKED = {"role": "user", "content": "Why?"}
ANSWERED = {"role": "assistant", "content": "Because."}
OF_FORMAT: dict[str, Json] = {
    "chat": {
        "source": "s",
        "messages": [ASKED, ANSWERED],
        "id": 5,
    },
    "completion": {
        "step": 1,
        "prompt": "Why?",
        "completion": "Because.",
        "id": 5,
    },
    "episode": {
        "scenario": {"scenario_id": "s"},
        "messages": [ASKED, ANSWERED],
        "reward": {
            "total_reward": 0.5,
            "components": {"safety": 1.0},
        },
        "id": 5,
    },
    "nemo_gym": {
        "_ng_task_index": 0,
        "responses_create_params": {"input": [ASKED]},
        "response": {"output": [{"type": "message", **ANSWERED}]},
        "id": 5,
    },
}


def missing(line: Json) -> str:
    """Remove a member."""
    del line["judge"]
    return "missing required field `judge`"


def of_another_type(line: Json) -> str:
    """Write a text for a number."""
    line["failed" if "failed" in line else "attempts"] = "many"
    return "Expected `int`, got `str`"


def of_another_version(line: Json) -> str:
    """Say that a later version wrote it."""
    line["format"] = 2
    return "Invalid enum value 2 - at `$.format`"


def of_an_unknown_code(line: Json) -> str:
    """Use a code that does not exist."""
    if "status" in line:
        line["status"] = "fine"
        return "Invalid enum value 'fine' - at `$.status`"
    line["failure"] = {"kind": "late", "detail": ""}
    return "Invalid enum value 'late' - at `$.failure.kind`"


DAMAGES = [
    missing,
    of_another_type,
    of_another_version,
    of_an_unknown_code,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_scored_line_is_refused(run_files, damage):
    """The error names file, line, member and remedy."""
    lines = copy.deepcopy(LINES)
    problem = damage(lines[1]["genrm"])
    write_lines(run_files, lines)
    message = message_of(run_files)
    assert message.startswith(f"{run_files}: strict=True refuses line 2: genrm: ")
    assert problem in message
    assert message.endswith("; run `genrm score` on it again")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_comparison_is_refused(run_files, damage):
    """The error names file, line, member and remedy: a lost verdict must not look like a pair that
    was never compared.
    """
    lines = copy.deepcopy(COMPARISONS)
    problem = damage(lines[1])
    path = write_lines(run_files.with_name("x.comparisons.jsonl"), lines)
    message = message_of(run_files)
    assert message.startswith(f"{path}: line 2: ")
    assert problem in message
    assert "score the rollouts again with force=True" in message


@pytest.mark.parametrize("name", ["x.scored.jsonl", "x.comparisons.jsonl"])
def test_a_torn_last_line_is_refused(run_files, name):
    """At any byte: what a full disk or a copy left is not read as the whole."""
    path = run_files.with_name(name)
    whole = path.read_bytes()
    length = len(whole.splitlines()[-1])
    for kept in (1, length // 2, length - 1):
        path.write_bytes(whole[: len(whole) - 1 - length + kept])
        message = message_of(run_files)
        assert str(path) in message
        assert "line 3: " in message
        assert "force=True" in message or "strict=True" in message


def test_lines_that_are_not_scored_are_counted_unless_strict(run_files):
    """The others are read; a file without one scored line is an error that says what it found."""
    lines = copy.deepcopy(LINES)
    missing(lines[1]["genrm"])
    write_lines(run_files, lines)
    settings = settings_from(judge="lexical")
    (found,) = find_scored([str(run_files)], settings, Store())
    with ScoredRun(found, settings) as run:
        run.read(Store())
        assert sum(run.rejects.values()) == 1
        assert [len(group.members) for group in run.iter_groups()] == [1, 1]
    write_lines(run_files, [{"messages": [ASKED, ANSWERED]}])
    assert "none of its 1 lines is scored (line 1: " in message_of(run_files)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "Input data was truncated"),
        (json.dumps(metrics() | {"format": 2}), "Invalid enum value 2 - at `$.format`"),
        (
            json.dumps(metrics() | {"rollouts": None}),
            "Expected `int`, got `null` - at `$.rollouts`",
        ),
        (json.dumps(metrics())[:-9], "Input data was truncated"),
    ],
    ids=("a brace", "of another version", "without a count", "torn"),
)
def test_a_damaged_metrics_file_is_refused(run_files, content, problem):
    """Products that read it say why; a run that looks for an earlier one finds none, and scores."""
    path = run_files.with_name("x.metrics.json")
    path.write_text(content)
    message = message_of(run_files)
    assert message.startswith(f"{path}: {problem}")
    assert "score the rollouts again with force=True" in message
    assert find_run_record(str(path), Store()) is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"group": "task:1", "index": 0, "status": "approved"', "Input data was truncated"),
        ('{"group": "task:1", "index": 0}', "Object missing required field `status`"),
        ('{"group": "task:1", "index": 0, "status": "fine"}', "Invalid enum value 'fine'"),
    ],
)
def test_a_damaged_review_is_refused(run_files, line, problem):
    """A rollout that an expert withheld must not slip through."""
    path = run_files.with_name("x.review.jsonl")
    path.write_text(f'{{"group": "task:1", "index": 1, "status": "rejected"}}\n{line}\n')
    settings = settings_from(judge="lexical")
    (found,) = find_scored([str(run_files)], settings, Store())
    with pytest.raises(InputError) as caught:
        read_statuses(found, Store(), settings)
    message = str(caught.value)
    assert message.startswith(f"{path}: line 2: not a review: {problem}")
    assert "index" in message


def test_the_last_review_of_a_rollout_counts(run_files):
    """An expert may change a decision."""
    reviews = [
        {
            "group": "task:1",
            "index": 0,
            "status": "held",
            "name": "A",
        },
        {
            "group": "task:1",
            "index": 1,
            "status": "pending",
        },
        {
            "group": "task:1",
            "index": 0,
            "status": "approved",
        },
    ]
    write_lines(run_files.with_name("x.review.jsonl"), reviews)
    settings = settings_from(judge="lexical")
    (found,) = find_scored([str(run_files)], settings, Store())
    assert read_statuses(found, Store(), settings) == {
        ("task:1", 0): "approved",
        ("task:1", 1): "pending",
    }
