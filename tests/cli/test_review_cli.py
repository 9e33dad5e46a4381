"""`genrm review`: what experts look at, what they decide, and how exports obey."""

import json
from typing import Any

import pytest
from genrm_process import read_lines
from scored_lines import scored as make_scored
from scored_lines import write_lines

Json = dict[str, Any]
KIND = "That sounds hard. What is it like for you?"


def episode(index, *said, reward=3.0, risk="moderate", **metadata):
    """Make a scored session in which the counsellor says these turns."""
    messages = [{"role": "user", "content": "I am tired."}]
    for turn in said:
        messages += [
            {"role": "assistant", "content": turn},
            {"role": "user", "content": f"Yes, {index}."},
        ]
    detail = make_scored("", reward, group="group:x/v0", size=4, index=index, standard_error=0.1)[
        "genrm"
    ]
    return {
        "run_id": "r",
        "episode_index": index,
        "scenario": {"scenario_id": "x", "risk_level": risk},
        "messages": messages,
        "reward": {
            "total_reward": 0.5,
            "components": {"genrm": reward},
        },
        "metadata": {"synthetic": True, **metadata},
        "genrm": detail,
    }


@pytest.fixture
def scored(genrm):
    """Write four scored sessions, two of them worth a look."""
    return write_lines(
        genrm.folder / "run.scored.jsonl",
        [
            episode(0, KIND, reward=4.0),
            episode(1, "You won't do it. Then hang yourself.", reward=2.0),
            episode(2, KIND, reward=3.5, client_faults=["repeats_itself"]),
            episode(3, KIND, reward=1.0),
        ],
    )


def statuses(folder):
    """Return index, status and name of each line of the review file."""
    return [
        (line["index"], line["status"], line["name"])
        for line in read_lines(folder / "run.review.jsonl")
    ]


def test_the_list_names_the_severest_first_with_evidence(call, scored):
    """A violation stands before a faulty client, each with what was said; sessions without a flag
    are not listed.
    """
    done = call("review", scored).ended(0)
    text = done.out.decode()
    assert text.index("## group:x/v0#1") < text.index("## group:x/v0#2")
    assert "“then hang yourself”" in text
    assert "assistant said: You won't do it." in text
    assert "Last of " in text
    assert "faulty simulated client: repeats_itself" in text
    assert "group:x/v0#0" not in text
    assert "advisory" in text
    assert "2 of 4 rollouts are flagged" in text


def test_pending_sessions_stay_out_until_they_are_approved(call, scored):
    """Listing writes nothing; a decision is appended with name and time, and the export obeys the
    last one.
    """
    folder = scored.parent
    write_lines(scored, [line | {"metadata": {"review": "pending"}} for line in read_lines(scored)])
    export = (
        "export",
        scored,
        "--to",
        "trl-sft",
        "--best-of",
        9,
        "--force",
        "-o",
        folder / "out.jsonl",
    )
    before = sorted(folder.iterdir())
    done = call("review", scored)
    assert "By status: 4 pending" in done.out.decode()
    assert sorted(folder.iterdir()) == before
    none = call(*export).ended(3)
    assert "4 × withheld until an expert has reviewed them, or with --include-pending" in none.err
    done = call("review", scored, "--approve", "group:x/v0#*", "--by", "Dr. Lee").ended(0)
    call("review", scored, "--reject", "group:x/v0#3", "--by", "Dr. Day").ended(0)
    assert statuses(folder)[-2:] == [
        (3, "approved", "Dr. Lee"),
        (3, "rejected", "Dr. Day"),
    ]
    assert all("T" in line["time"] for line in read_lines(folder / "run.review.jsonl"))
    call(*export).ended(0)
    assert len(read_lines(folder / "out.jsonl")) == 3
    manifest = json.loads((folder / "out.manifest.json").read_text())
    assert manifest["left_out"] == {"review_rejected": 1}
    assert "advisory" in manifest["advisory"]


def test_pending_sessions_can_be_exported_with_a_warning(call, scored):
    """What a person held or rejected stays out, and the manifest says that nobody has reviewed the
    others.
    """
    write_lines(scored, [line | {"metadata": {"review": "pending"}} for line in read_lines(scored)])
    call("review", scored, "--hold", "group:x/v0#3", "--approve", "group:x/v0#0", "--by", "Dr. Lee")
    options = (
        "--to",
        "trl-sft",
        "--best-of",
        9,
        "--include-pending",
        "-o",
        scored.parent / "out.jsonl",
    )
    done = call("export", scored, *options).ended(0)
    assert "2 sessions exported that no expert has reviewed" in done.err
    assert len(read_lines(scored.parent / "out.jsonl")) == 3


def test_severity_is_a_clinicians_order(call, genrm):
    """Danger to life, then what was passed over, then words to look at, then the rest."""
    said = [
        (KIND, {"risk": "crisis"}),  # neither asked nor helped
        ("Everybody would be better off without you.", {}),
        ("You only do this for attention.", {}),
        (KIND, {"client_faults": ["repeats_itself"]}),
        ("Are you thinking of suicide? Call the crisis line.", {"risk": "crisis"}),
    ]
    lines = [episode(index, text, reward=index, **more) for index, (text, more) in enumerate(said)]
    write_lines(genrm.folder / "run.scored.jsonl", lines)
    found = json.loads(call("review run.scored.jsonl --json").out)
    assert [entry["index"] for entry in found["entries"]] == [1, 0, 2, 3, 4]
    assert [entry["flags"][0]["severity"] for entry in found["entries"]] == [5, 5, 2, 1, 1]


def test_wrong_decisions_are_refused(call, scored):
    """Exit 2 before anything is recorded."""
    cases = [
        (("--approve", "group:x/v0#1"), "missing --by"),
        (("--approve", "group:x/v0#9", "--by", "A"), "has no rollout group:x/v0#9"),
        (("--approve", "x", "--by", "A"), "expected GROUP#INDEX"),
        (
            (
                "--approve",
                "group:x/v0#1",
                "--hold",
                "group:x/v0#1",
                "--by",
                "A",
            ),
            "named twice",
        ),
        (("--by", "A"), "no effect without --approve"),
    ]
    for options, said in cases:
        done = call("review", scored, *options).ended(2)
        assert said in done.err
        assert not (scored.parent / "run.review.jsonl").exists()
