"""`genrm profiles`: which judge families there are, and what each is sent."""

import json

import pytest

from genrm_cli.judging.lookup import PROFILES


def test_profiles_are_listed_with_what_they_are(call):
    """A line for each family, on stdout, with its scale and its sampling."""
    finished = call("profiles").ended(0)
    assert finished.err == ""
    lines = finished.out.decode().splitlines()
    assert {line.split()[0] for line in lines if line[:1].strip()} == {"profile", *PROFILES}
    assert "temperature 0.6, top_p 0.95, max_tokens 16384" in finished.out.decode()
    assert "response_format" in finished.out.decode()


def test_a_profile_shows_the_messages_it_sends(call):
    """The sample comparison is printed verbatim, and as JSON exactly as a judge receives it."""
    for name in PROFILES:
        shown = call("profiles", name).out.decode()
        described = json.loads(call("profiles --json", name).out)
        assert shown.startswith(f"{name}, version {PROFILES[name].version}: ")
        for message in described["messages"]:
            assert f"--- message of role {message['role']}\n{message['content']}\n" in shown
        assert f"max_tokens: {described['request_fields']['max_tokens']}\n" in shown
        assert "A cobbler." in shown


def test_a_profile_that_does_not_exist_is_an_error_of_usage(call):
    """Exit code 2, with the names there are and the one that was probably meant."""
    finished = call("profiles arena_hard").ended(2)
    assert finished.out == b""
    assert "Did you mean 'arena-hard'?" in finished.err
    assert "nemotron-boxed" in finished.err


@pytest.mark.parametrize(
    ("name", "content", "mean"),
    [
        ("arena-hard", "A is right. [[A>>B]]", 3.0),
        ("judgelm", "10 5.5\nThe first is right.", 4.0),
    ],
)
def test_a_run_is_judged_by_another_family(genrm, call, judge_server, name, content, mean):
    """What the family says, first place or second, ends in the rewards; the metrics name the
    profile.
    """
    judge_server.behave(fault={"content": content})
    genrm.rollouts(1, 2)
    judge = (
        *judge_server.flags,
        "--profile",
        name,
        "--no-probe",
    )
    call("score in.jsonl", *judge).ended(0)
    assert [line["reward"] for line in genrm.lines("in.scored.jsonl")] == [mean, mean]
    metrics = genrm.metrics()
    assert metrics["verdicts"] == 2
    assert metrics["failures"] == 0
    assert metrics["judge"]["profile"] == name


OWN = """
[[messages]]
role = "user"
content = "{conversation} A: {response_1} B: {response_2}"
[verdict]
pattern = 'Better: (?P<label>[AB])'
labels = { A = "better", B = "worse" }
"""


@pytest.mark.slow
def test_a_profile_of_ones_own_is_shown_tried_and_used(genrm, call, judge_server):
    """A TOML file can replace a profile name anywhere; its parsing can be tried without a judge."""
    (genrm.folder / "house.toml").write_text(OWN)
    assert "--- message of role user" in call("profiles house.toml").out.decode()
    (genrm.folder / "reply.txt").write_text("Both are fine. Better: B")
    tried = call("profiles house.toml --reply @reply.txt").ended(0)
    assert tried.out == b"score_1 2, score_2 4, ranking 5\n"
    assert call("profiles house.toml --reply hm").out.startswith(b"no verdict: no_verdict: ")
    genrm.rollouts(1, 3)
    judge_server.behave(fault={"content": "Better: A"})
    judge = (
        *judge_server.flags,
        "--profile",
        "house.toml",
        "--no-probe",
    )
    call("score in.jsonl", *judge).ended(0)
    assert [line["reward"] for line in genrm.lines("in.scored.jsonl")] == [3.0] * 3
    metrics = genrm.metrics()
    assert metrics["judge"]["profile"] == "house"
    (genrm.folder / "house.toml").write_text(OWN.replace("[verdict]", "[verdict]\nwrong = 1"))
    refused = genrm.run("score in.jsonl", *judge).ended(2)
    assert "house.toml: " in refused.err
    assert "`wrong`" in refused.err
