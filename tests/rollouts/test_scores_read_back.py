"""Scores written into a line are read back from it, whatever its format."""

import copy
import json
from pathlib import Path

import pytest

from genrm_cli.rollouts.formats import FORMATS, Score, recognise
from genrm_cli.rollouts.rollout import UnreadableRecordError

SAMPLES = Path(__file__).parents[2] / "sample_data"
LINES = [
    json.loads(line)
    for name in (
        "writers.jsonl",
        "other-formats.jsonl",
        "episodes.jsonl",
        "rollouts.jsonl",
    )
    for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines()
]
SAMPLE = {recognise(line).name: line for line in LINES}
NESTED = {
    "prompts": ["a", "b"],
    "responses": [["x", "y"], ["z"]],
}


def detail(number):
    """Return the `genrm` object of a rollout."""
    return {
        "status": "scored",
        "group": f"g{number}",
        "index": number,
    }


@pytest.mark.parametrize("record", [*SAMPLE.values(), NESTED], ids=[*SAMPLE, "columns of lists"])
def test_scores_are_read_back_in_order(record):
    """Reading a scored line gives the rewards that `annotate` wrote, the missing one included."""
    record = copy.deepcopy(record)
    format_ = recognise(record)
    count = len(format_.read(record))
    given = [
        Score(None if number == 1 else 1.5 + number, detail(number)) for number in range(count)
    ]
    format_.annotate(record, given)
    again = json.loads(json.dumps(record))
    found = recognise(again).scores(again)
    assert [score.reward for score in found] == [score.reward for score in given]
    assert [score.detail["group"] for score in found] == [f"g{number}" for number in range(count)]


def test_a_line_without_scores_is_refused():
    """An unscored line is an error that says what to run, never a reward of its own."""
    cases = [
        "nemo_gym",
        "completion",
        "episode",
        "inspect_log",
        "verifiers_traces",
    ]
    for name in cases:
        with pytest.raises(UnreadableRecordError, match="not scored"):
            FORMATS[name].scores(copy.deepcopy(SAMPLE[name]))


def test_an_episode_with_a_total_gives_the_total():
    """Where a total was configured it is the reward, not our component of it."""
    record = copy.deepcopy(SAMPLE["episode"])
    FORMATS["episode"].annotate(
        record,
        [
            Score(
                0.25,
                detail(0)
                | {
                    "components": {"genrm": 4.0},
                    "total": {},
                },
            )
        ],
    )
    assert [score.reward for score in FORMATS["episode"].scores(record)] == [0.25]
