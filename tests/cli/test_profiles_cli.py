"""`genrm profiles`: which judge families there are, and what each is sent."""

import json

import pytest

from genrm_cli.judging.lookup import PROFILES


def test_profiles_are_listed_with_what_they_are(call):
    """A line for each family, on stdout, with its scale and its sampling."""
    finished = call("profiles").ended(0)
    assert finished.err == ""
    out = finished.out.decode()
    names = {line.split()[0] for line in out.splitlines() if line[:1].strip()}
    assert names == {"profile", *PROFILES}
    assert "temperature 0.6, top_p 0.95, max_tokens 16384" in out
    assert "response_format" in out


def test_a_profile_shows_the_messages_it_sends(call):
    """The sample comparison is printed verbatim, and as JSON exactly as a judge receives it."""
    for name, profile in PROFILES.items():
        shown = call("profiles", name).out.decode()
        described = json.loads(call("profiles --json", name).out)
        assert shown.startswith(f"{name}, version {profile.version}: ")
        for message in described["messages"]:
            assert f"--- message of role {message['role']}\n{message['content']}\n" in shown
        assert f"max_tokens: {described['request_fields']['max_tokens']}\n" in shown
        assert "A cobbler." in shown


OWN = """
[[messages]]
role = "user"
content = "{conversation} A: {response_1} B: {response_2}"
[verdict]
pattern = 'Better: (?P<label>[AB])'
labels = { A = "better", B = "worse" }
"""


@pytest.mark.parametrize(
    ("profile", "content", "reward"),
    [
        ("arena-hard", "A is right. [[A>>B]]", 3.0),
        ("judgelm", "10 5.5\nThe first is right.", 4.0),
        ("house.toml", "Better: A", 3.0),
    ],
)
def test_a_run_is_judged_by_another_family(
    genrm, call_judged, judge_server, profile, content, reward
):
    """What the family says, first place or second, ends in the rewards; the metrics name the
    profile. A TOML file can replace a profile name anywhere.
    """
    (genrm.folder / "house.toml").write_text(OWN)
    judge_server.behave(fault={"content": content})
    genrm.rollouts(1, 2)
    call_judged(f"score in.jsonl --no-probe --profile {profile}").ended(0)
    assert [line["reward"] for line in genrm.lines()] == [reward] * 2
    metrics = genrm.metrics()
    assert (metrics["verdicts"], metrics["failures"]) == (2, 0)
    assert metrics["judge"]["profile"] == profile.removesuffix(".toml")


def test_a_profile_of_ones_own_is_shown_and_tried(genrm, call):
    """Its parsing can be tried without a judge."""
    (genrm.folder / "house.toml").write_text(OWN)
    assert b"--- message of role user" in call("profiles house.toml").out
    (genrm.folder / "reply.txt").write_text("Both are fine. Better: B")
    tried = call("profiles house.toml --reply @reply.txt").ended(0)
    assert tried.out == b"score_1 2, score_2 4, ranking 5\n"
    assert call("profiles house.toml --reply hm").out.startswith(b"no verdict: no_verdict: ")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("wrong = 1", "`wrong`"),
        ("[request]\ntop_pp = 1.0", "[request]: unknown request field 'top_pp'"),
        ("[request]\nstream = true", "[request]: stream"),
    ],
)
def test_a_mistake_in_a_profile_is_named(genrm, call, line, says):
    """Before any call: the file, the field and what was expected."""
    (genrm.folder / "wrong.toml").write_text(f"{OWN}{line}\n")
    said = call("profiles wrong.toml").ended(2).err
    assert "wrong.toml: " in said
    assert says in said
