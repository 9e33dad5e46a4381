import re

import pytest
from scored_lines import scored, verdict


def test_what_is_shown_is_what_the_judge_is_sent(genrm, call, call_judged, judge_server):
    """The messages of `show` are, byte for byte, those of a request that `score` makes."""
    genrm.rollouts(1, 2)
    plain = "in.jsonl --profile nemotron-plain"
    shown = call(f"show {plain} --model m").out.decode()
    assert judge_server.stats()["requests"] == 0
    call_judged(f"score {plain} --no-probe").ended(0)
    sent = [request["body"]["messages"] for request in judge_server.stats()["recent"]]
    _, _, content = shown.partition("--- message of role user\n")
    assert [{"role": "user", "content": content.removesuffix("\n")}] in sent


@pytest.mark.parametrize(
    ("option", "profile", "is_stand_in"),
    [
        ("", "nemotron-plain", True),
        ("--judging listwise", "listwise", False),
        ("--compat nemo-gym", "nemotron+nemo-gym-3", False),
    ],
)
def test_a_judge_without_a_name_is_shown_as_it_is_asked(genrm, call, option, profile, is_stand_in):
    """Lists and NeMo Gym's roles are shown without a model, too; only pairs of a judge that nothing
    describes stand in for its own.
    """
    genrm.rollouts(1, 3)
    shown = call(f"show in.jsonl {option}").ended(0)
    assert f", profile {profile}" in shown.out.decode().splitlines()[0]
    assert ("no --model or --profile given" in shown.err) is is_stand_in


def test_an_output_is_known_by_the_run_that_wrote_it(genrm, call):
    """Scored lines under another name than *.scored.jsonl are shown with their rewards, and
    rollouts are not.
    """
    genrm.rollouts(1, 3)
    call("score in.jsonl --offline -o rewards.jsonl").ended(0)
    assert b"reward  rank" in call("show rewards.jsonl").out
    assert b"reward  rank" not in call("show in.jsonl").out


def test_rewards_verdicts_and_words_are_shown(genrm, call):
    """`genrm show` prints the matrix of a scored group with dots where nothing was asked, and the
    judge's words.
    """
    genrm.write("x.scored.jsonl", [scored("a", n, index=n, size=3) for n in range(3)])
    asked = [verdict(0, 1, 5, 2, reply="The first."), verdict(1, 2, 4, 1)]
    genrm.write("x.comparisons.jsonl", asked)
    shown = call("show x.scored.jsonl").out.decode()
    assert "=== group task:1: 3 rollouts" in shown
    assert re.search(r"^0 +\. +5-2 +\.$", shown, re.MULTILINE)
    assert "on 0 and 1: scores 5 and 2" in shown
    assert "The first." in shown


@pytest.fixture
def unreliable(genrm):
    """Write three groups of different reliability, one of them with a failed comparison."""
    lines = [scored("a", 1.0, group=f"task:{n}", reliability=n / 10) for n in (3, 1, 2)]
    genrm.write("x.scored.jsonl", lines)
    failure = {"kind": "timeout", "detail": "after 1 s"}
    missing = dict.fromkeys(("score_1", "score_2", "ranking"), None)
    failed = verdict(0, 1, 0, 0, group="task:3") | missing | {"failure": failure}
    genrm.write("x.comparisons.jsonl", [failed])


@pytest.mark.usefixtures("unreliable")
@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ("--worst 2", ["task:1", "task:2"]),
        ("--failures --limit 9", ["task:3"]),
        ("--failures --worst 3", ["task:3"]),
    ],
)
def test_failures_and_the_worst_are_found(options, keys, call):
    """--worst shows the least reliable groups first, --failures those with failed comparisons."""
    shown = call(f"show x.scored.jsonl {options}").out.decode()
    assert re.findall(r"=== group (task:\d)", shown) == keys
    assert ("no verdict: timeout (after 1 s)" in shown) == ("task:3" in keys)


def test_it_is_said_that_no_group_is_found(genrm, call):
    """Without failures, --failures prints no group and says so."""
    genrm.write("x.scored.jsonl", [scored("a", 1.0)])
    found = call("show x.scored.jsonl --failures").ended(0)
    assert found.out == b""
    assert "no group has a failed comparison" in found.err
