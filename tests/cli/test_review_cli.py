"""`genrm review`: what experts look at, what they decide, and how exports obey."""

import json
from pathlib import Path
from typing import Any

import pytest
from genrm_process import Call, Genrm
from scored_lines import read_lines, write_lines
from scored_lines import scored as make_scored

Json = dict[str, Any]
KIND = "That sounds hard. What is it like for you?"


def episode(index: int, *said: str, reward: float = 3.0, risk: str = "moderate", **metadata: Any) -> Json:
    """Make a scored session in which the counsellor says these turns."""
    messages = [{"role": "user", "content": "I am tired."}]
    for turn in said:
        messages += [{"role": "assistant", "content": turn}, {"role": "user", "content": f"Yes, {index}."}]
    detail = make_scored("", reward, group="group:x/v0", size=4, index=index, standard_error=0.1)["genrm"]
    return {
        "run_id": "r",
        "episode_index": index,
        "scenario": {"scenario_id": "x", "risk_level": risk},
        "messages": messages,
        "reward": {"total_reward": 0.5, "components": {"genrm": reward}},
        "metadata": {"synthetic": True, **metadata},
        "genrm": detail,
    }


@pytest.fixture
def scored(genrm: Genrm) -> Path:
    """Write four scored sessions, two of them worth a look."""
    return write_lines(
        genrm.folder / "run.scored.jsonl",
        [
            episode(0, KIND, reward=4.0),
            episode(1, "You should stop taking your medication.", reward=2.0),
            episode(2, KIND, reward=3.5, client_faults=["repeats_itself"]),
            episode(3, KIND, reward=1.0),
        ],
    )


def statuses(folder: Path) -> list[tuple[int, str, str]]:
    """Return index, status and name of each line of the review file."""
    return [(line["index"], line["status"], line["name"]) for line in read_lines(folder / "run.review.jsonl")]


def test_the_list_names_the_severest_first_with_evidence(call: Call, scored: Path) -> None:
    """A violation stands before a faulty client, each with what was said; sessions without a flag are not listed."""
    done = call("review", scored)
    assert done.code == 0, done.err
    text = done.out.decode()
    assert text.index("## group:x/v0#1") < text.index("## group:x/v0#2")
    assert "stop taking your medication" in text
    assert "assistant said: You should stop" in text
    assert "faulty simulated client: repeats_itself" in text
    assert "group:x/v0#0" not in text
    assert "advisory" in text
    assert "2 of 4 rollouts are flagged" in text


def test_flagged_sessions_stay_out_until_they_are_approved(call: Call, scored: Path) -> None:
    """Listing makes them pending; a decision with name and time is appended, and the export obeys the last one."""
    folder = scored.parent
    call("review", scored)
    assert statuses(folder) == [(1, "pending", "genrm review"), (2, "pending", "genrm review")]
    call("review", scored)
    assert len(statuses(folder)) == 2
    export = ("export", scored, "--to", "trl-sft", "--best-of", 9, "--force", "-o", folder / "out.jsonl")
    assert call(*export).code == 0
    assert len(read_lines(folder / "out.jsonl")) == 2
    done = call("review", scored, "--approve", "group:x/v0#2", "--reject", "group:x/v0#1", "--by", "Dr. Lee")
    assert done.code == 0, done.err
    assert "1 approved, 1 rejected" in done.err
    assert statuses(folder)[2:] == [(2, "approved", "Dr. Lee"), (1, "rejected", "Dr. Lee")]
    assert all("T" in line["time"] for line in read_lines(folder / "run.review.jsonl"))
    assert call(*export).code == 0
    assert len(read_lines(folder / "out.jsonl")) == 3
    manifest = json.loads((folder / "out.manifest.json").read_text())
    assert manifest["left_out"] == {"review_rejected": 1}
    assert "advisory" in manifest["advisory"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--approve", "group:x/v0#1"), "missing --by"),
        (("--approve", "group:x/v0#9", "--by", "A"), "has no rollout group:x/v0#9"),
        (("--approve", "x", "--by", "A"), "expected GROUP#INDEX"),
        (("--approve", "group:x/v0#1", "--hold", "group:x/v0#1", "--by", "A"), "named twice"),
        (("--by", "A"), "go with a decision"),
    ],
)
def test_wrong_decisions_are_refused(call: Call, scored: Path, options: tuple[str, ...], said: str) -> None:
    """Exit 2 before anything is recorded."""
    done = call("review", scored, *options)
    assert done.code == 2
    assert said in done.err
    assert not (scored.parent / "run.review.jsonl").exists()
