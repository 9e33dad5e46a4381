import json
from typing import Any

import pytest
from genrm_process import make_rollouts, read_lines

# A settings file that was only found in the folder may name neither endpoints nor keys.
NAMED = {"GENRM_CONFIG": "genrm.toml"}
KEYS = {
    **NAMED,
    "KEY_A": "sk-first-0123456789abcdef",
    "KEY_B": "sk-second-fedcba9876543210",
}
GRADERS = [
    ("nemotron-principle", 1),
    ("rewardanything", 1),
    ("brrm", 2),
]


def write_panel(genrm, *servers, **rules):
    """Write a settings file with a judge for each server, `a`, `b`, ..., each with a key of its
    own.
    """
    lines = [
        f"{name} = {json.dumps(value)}"
        for name, value in {"probe": False, "retries": 0, **rules}.items()
    ]
    for letter, server in zip("ab", servers, strict=False):
        lines += ["[[judge]]", f'model = "{letter}"', f'base_url = "{server.base_url}"']
        lines += [f'api_key_env = "KEY_{letter.upper()}"', "concurrency = 2"]
    (genrm.folder / "genrm.toml").write_text("\n".join(lines))


def keys_seen(server):
    """Return what a server was given as a key."""
    return {request["headers"].get("authorization", "") for request in server.stats()["recent"]}


@pytest.mark.slow
def test_each_server_of_a_panel_gets_its_own_key_and_no_other(genrm, judge_server, start_judge):
    """Two judges with two keys; no key is in any file, on stdout or stderr, though a server repeats
    it.
    """
    other = start_judge()
    judge_server.behave(require_key=KEYS["KEY_A"])
    other.behave(
        require_key=KEYS["KEY_B"], script=[{"status": 500, "echo_authorization": True}, {}, {}]
    )
    write_panel(genrm, judge_server, other, probe=True, log_json="events.jsonl", keep_replies=True)
    genrm.write("in.jsonl", make_rollouts(groups=2))
    finished = genrm.run("score in.jsonl --json --max-unscored 1", **KEYS).ended(0)
    assert keys_seen(judge_server) == {f"Bearer {KEYS['KEY_A']}"}
    assert keys_seen(other) == {f"Bearer {KEYS['KEY_B']}"}
    assert "16 comparisons: 16 calls to make" in finished.err
    written = b"".join((genrm.folder / name).read_bytes() for name in genrm.names())
    for key in (KEYS["KEY_A"], KEYS["KEY_B"]):
        assert key.encode() not in written + finished.out
        assert key not in finished.err
    metrics = genrm.metrics()
    assert metrics == json.loads(finished.out)["results"][0]["metrics"]
    assert [one["name"] for one in metrics["judge"]["panel"]] == ["a", "b"]
    assert [one["judge"] for one in metrics["panel"]["judges"]] == ["a", "b"]
    assert metrics["calls"] == 16
    assert metrics["retries"] == 0
    assert metrics["failures"] == 0
    assert {line["genrm"]["judge"] for line in read_lines(genrm.folder / "in.scored.jsonl")} == {
        "a + b"
    }
    again = genrm.run("score in.jsonl", **KEYS)
    assert "up to date" in again.err


@pytest.mark.slow
def test_a_judge_of_the_panel_that_is_down_is_4_and_what_was_paid_for_stays(
    genrm, call, judge_server, start_judge
):
    """The other one's verdicts are in the journal; when it is back, only the missing ones are
    asked.
    """
    other = start_judge()
    write_panel(genrm, judge_server, other, give_up_after="3s")
    genrm.write("in.jsonl", make_rollouts(groups=3))
    other.kill()
    finished = call("score in.jsonl", **KEYS).ended(4)
    assert other.base_url in finished.err
    assert genrm.names() == {"in.jsonl", "genrm.toml", "in.journal.sqlite"}
    other.restart()
    finished = call("score in.jsonl", **KEYS).ended(0)
    stats = judge_server.stats(), other.stats()
    assert [one["distinct_answered"] for one in stats] == [12, 12]
    assert [one["repeat_answers"] for one in stats] == [0, 0]


def test_only_what_failed_of_a_panel_is_asked_again(genrm, call, judge_server, start_judge):
    """The failures of one judge; the other one, which answered all, is not asked."""
    other = start_judge()
    other.behave(script=[{"status": 500}] * 2)
    write_panel(genrm, judge_server, other, max_extra=0, min_verdicts=0.5)
    genrm.write("in.jsonl", make_rollouts(groups=2))
    assert call("score in.jsonl", **KEYS).code == 0
    assert genrm.metrics()["failures_by_kind"] == {"http": 2}
    assert call("score in.jsonl --only-failed", **KEYS).code == 0
    assert judge_server.stats()["requests"] == 8
    assert other.stats()["requests"] == 10
    assert genrm.metrics()["unscored"] == 0


def test_a_budget_is_that_of_the_whole_panel(genrm, call, judge_server, start_judge):
    """Calls of all judges count together; what is left is asked next time."""
    other = start_judge()
    write_panel(genrm, judge_server, other)
    genrm.write("in.jsonl", make_rollouts(groups=2))
    finished = call("score in.jsonl --max-calls 5", **KEYS).ended(6)
    assert "--max-calls" in finished.err
    assert judge_server.stats()["requests"] + other.stats()["requests"] == 5
    assert genrm.metrics()["failures_by_kind"] == {"not_asked": 11}
    assert call("score in.jsonl", **KEYS).code == 0
    assert judge_server.stats()["requests"] + other.stats()["requests"] == 16


@pytest.mark.parametrize(("profile", "calls"), GRADERS)
def test_judges_that_are_asked_otherwise_are_evaluated(genrm, call, judge_server, profile, calls):
    """The longer answer is right here, and all of them find it; the plan counts every call."""
    pairs = [
        {
            "prompt": f"Q{n}?",
            "chosen": "good " * (9 + n),
            "rejected": "bad",
        }
        for n in range(4)
    ]
    genrm.write("pairs.jsonl", pairs)
    judge = (*judge_server.flags, "--profile", profile)
    finished = call("eval pairs.jsonl -o m.json --json", *judge).ended(0)
    result = json.loads(finished.out)
    assert result["figures"]["accuracy"]["value"] == 1.0
    assert result["figures"]["verdicts"] == 8
    assert result["calls"] == 8 * calls
    assert f"8 comparisons: {8 * calls} calls to make" in finished.err
    asked = judge_server.stats()["requests"]
    assert json.loads(call("eval pairs.jsonl -o m.json --force --json", *judge).out)["calls"] == 0
    assert judge_server.stats()["requests"] == asked


def test_a_grade_that_failed_makes_both_orders_fail(genrm, call, judge_server):
    """Without the grade of one answer nothing is known of the pair."""
    judge_server.behave(script=[{"content": "Hm."}])
    genrm.write(
        "pairs.jsonl",
        [{"prompt": f"Q{n}?", "chosen": "good " * 9, "rejected": "bad"} for n in range(2)],
    )
    judge = (*judge_server.flags, "--profile", "nemotron-principle", "--no-probe")
    finished = call("eval pairs.jsonl --json --concurrency 1", *judge)
    figures = json.loads(finished.out)["figures"]
    assert (figures["verdicts"], figures["failures_by_kind"]) == (2, {"no_verdict": 2})


@pytest.mark.parametrize(("profile", "calls"), GRADERS)
def test_judges_that_are_asked_otherwise_score_and_compare(
    genrm, call, judge_server, profile, calls
):
    """Graders have no first place and no flips; a second turn is not a retry; validate and score
    make the same plan.
    """
    genrm.write("in.jsonl", make_rollouts(groups=2))
    judge: tuple[Any, ...] = (*judge_server.flags, "--profile", profile)
    known = ("--model", "judge", "--profile", profile)
    plan = json.loads(call("validate in.jsonl --both-orders --json", *known).out)["plan"]
    finished = call("score in.jsonl --both-orders", *judge).ended(0)
    metrics = genrm.metrics()
    assert plan["calls"] == metrics["calls"] == metrics["comparisons_planned"] * calls
    assert metrics["retries"] == 0
    grades = profile != "brrm"
    assert (metrics["first_place_win_rate"] is None) == grades
    assert (metrics["flip_rate"] is None) == grades
    assert metrics["pairs_in_both_orders"] == (0 if grades else 8)
    assert metrics["unscored"] == 0
    for form in ((), ("--json",)):
        finished = call("compare -p Q? one", "two " * 40, "three " * 20, *judge, *form).ended(0)
    rewards = json.loads(finished.out)["rewards"]
    assert rewards[1] == max(rewards)


@pytest.mark.parametrize("profile", [name for name, _ in GRADERS])
def test_the_references_reading_is_not_for_them(genrm, call, judge_server, profile):
    """`--compat nemo-gym` reads JSON scores of pairs: for another judge, alone or in a panel, it is
    refused.
    """
    genrm.write("in.jsonl", make_rollouts(groups=1))
    for arguments in (
        ("score", "in.jsonl", *judge_server.flags),
        ("validate", "in.jsonl", "--model", "judge"),
        ("compare", "one", "two", *judge_server.flags),
    ):
        finished = call(*arguments, "--compat", "nemo-gym", "--profile", profile).ended(2)
        assert f"the profile {profile} does not ask for" in finished.err
    write_panel(genrm, judge_server)
    with (genrm.folder / "genrm.toml").open("a") as file:
        file.write(f'\nprofile = "{profile}"')
    finished = call("score in.jsonl --compat nemo-gym", **KEYS).ended(2)
    assert f"--compat nemo-gym parses JSON scores, which the profile {profile}" in finished.err
    assert judge_server.stats()["requests"] == 0


def test_defaults_of_the_reference_count_in_a_panel(genrm, call, judge_server, start_judge):
    """With --compat a judge that says nothing says 3, 3; rewards that rest on it are counted."""
    other = start_judge()
    other.behave(fault={"content": "no idea"})
    judge_server.behave(
        verdict={
            "score_1": 5,
            "score_2": 1,
            "ranking": 1,
        }
    )
    write_panel(genrm, judge_server, other)
    genrm.write("in.jsonl", make_rollouts(groups=1, size=2))
    call("score in.jsonl --compat nemo-gym", **KEYS).ended(0)
    metrics = genrm.metrics()
    assert metrics["rewards_on_defaults"] == 2
    assert metrics["mean_individual_score"] == 3.0
    assert metrics["std_individual_score"] == pytest.approx(1.0)


def test_a_panel_is_evaluated_as_one(genrm, call, judge_server, start_judge):
    """One judge takes the longer answer, the other always ties: joint figures are those of the
    first, and a second run asks nobody.
    """
    other = start_judge()
    other.behave(verdict={"score_1": 3, "score_2": 3, "ranking": 3.5})
    write_panel(genrm, judge_server, other)
    pairs = [{"prompt": f"Q{n}?", "chosen": "good " * (9 + n), "rejected": "bad"} for n in range(4)]
    genrm.write("pairs.jsonl", pairs)
    finished = call("eval pairs.jsonl -o m.json --json", **KEYS).ended(0)
    result = json.loads(finished.out)
    assert (result["figures"]["accuracy"]["value"], result["calls"]) == (1.0, 16)
    call("eval pairs.jsonl -o m.json --force", **KEYS).ended(0)
    assert judge_server.stats()["requests"] + other.stats()["requests"] == 16
