"""`genrm review`: what experts look at, what they decide, and how exports obey."""

import json

import pytest
from scored_lines import scored as make_scored

KIND = "That sounds hard. What is it like for you?"


def episode(index, said, reward=3.0, risk="moderate", **metadata):
    """Make a scored session in which the counsellor says this."""
    messages = [
        {"role": "user", "content": "I am tired."},
        {"role": "assistant", "content": said},
        {"role": "user", "content": f"Yes, {index}."},
    ]
    place = {"group": "group:x/v0", "size": 4, "index": index}
    return {
        "run_id": "r",
        "episode_index": index,
        "scenario": {"scenario_id": "x", "risk_level": risk},
        "messages": messages,
        "reward": {"total_reward": 0.5, "components": {"genrm": reward}},
        "metadata": {"synthetic": True, **metadata},
        "genrm": make_scored("", reward, **place, standard_error=0.1)["genrm"],
    }


SESSIONS = [
    episode(0, KIND, 4.0),
    episode(1, "You won't do it. Then hang yourself.", 2.0),
    episode(2, KIND, 3.5, client_faults=["repeats_itself"]),
    episode(3, KIND, 1.0),
]
PENDING = [line | {"metadata": {"review": "pending"}} for line in SESSIONS]
EXPORT = "export run.scored.jsonl --to trl-sft --best-of 9 -o out.jsonl"


@pytest.fixture
def review(genrm, call):
    """Give a test the command, for four scored sessions, two of them worth a look."""
    genrm.write("run.scored.jsonl", SESSIONS)

    def run(words="", *more, code=0):
        return call(f"review run.scored.jsonl {words}", *more).ended(code)

    return run


def test_the_list_names_the_severest_first_with_evidence(review):
    """A violation stands before a faulty client, each with what was said; sessions without a flag
    are not listed.
    """
    text = review().out.decode()
    assert text.index("## group:x/v0#1") < text.index("## group:x/v0#2")
    for shown in (
        "“then hang yourself”",
        "assistant said: You won't do it.",
        "Last of ",
        "faulty simulated client: repeats_itself",
        "advisory",
        "2 of 4 rollouts are flagged",
    ):
        assert shown in text
    assert "group:x/v0#0" not in text


def test_pending_sessions_stay_out_until_they_are_approved(call, genrm, review):
    """Listing writes nothing; a decision is appended with name and time, and the export obeys the
    last one.
    """
    genrm.write("run.scored.jsonl", PENDING)
    before = genrm.names()
    assert b"By status: 4 pending" in review().out
    assert genrm.names() == before
    withheld = "4 × withheld until an expert has reviewed them, or with --include-pending"
    assert withheld in call(EXPORT).ended(3).err
    review("--approve group:x/v0#* --by Lee")
    review("--reject group:x/v0#3 --by", "Dr. Day")
    decisions = genrm.lines("run.review.jsonl")
    assert [(line["index"], line["status"], line["name"]) for line in decisions[-2:]] == [
        (3, "approved", "Lee"),
        (3, "rejected", "Dr. Day"),
    ]
    assert all("T" in line["time"] for line in decisions)
    call(EXPORT).ended(0)
    assert len(genrm.lines("out.jsonl")) == 3
    manifest = genrm.json("out.manifest.json")
    assert manifest["left_out"] == {"review_rejected": 1}
    assert "advisory" in manifest["advisory"]


def test_pending_sessions_can_be_exported_with_a_warning(call, genrm, review):
    """What a person held or rejected stays out, and the manifest says that nobody has reviewed the
    others.
    """
    genrm.write("run.scored.jsonl", PENDING)
    review("--hold group:x/v0#3 --approve group:x/v0#0 --by Lee")
    done = call(f"{EXPORT} --include-pending").ended(0)
    assert "2 sessions exported that no expert has reviewed" in done.err
    assert len(genrm.lines("out.jsonl")) == 3


def test_severity_is_a_clinicians_order(genrm, review):
    """Danger to life, then what was passed over, then words to look at, then the rest."""
    lines = [
        episode(0, KIND, 0, risk="crisis"),  # neither asked nor helped
        episode(1, "Everybody would be better off without you.", 1),
        episode(2, "You only do this for attention.", 2),
        episode(3, KIND, 3, client_faults=["repeats_itself"]),
        episode(4, "Are you thinking of suicide? Call the crisis line.", 4, risk="crisis"),
    ]
    genrm.write("run.scored.jsonl", lines)
    entries = json.loads(review("--json").out)["entries"]
    found = [(entry["index"], entry["flags"][0]["severity"]) for entry in entries]
    assert found == [(1, 5), (0, 5), (2, 2), (3, 1), (4, 1)]
