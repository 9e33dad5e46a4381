"""Several judges at once, and judges that grade instead of comparing, by commands."""

import json

import pytest

# A settings file that was only found in the folder may name neither endpoints nor keys.
KEYS = {
    "GENRM_CONFIG": "genrm.toml",
    "KEY_A": "sk-first-0123456789abcdef",
    "KEY_B": "sk-second-fedcba9876543210",
}
GRADERS = [("nemotron-principle", 1), ("rewardanything", 1), ("brrm", 2)]


@pytest.fixture
def panel(genrm, judge_server, start_judge):
    """Write a settings file with two judges, `a` and `b`, each with a key of its own."""

    def write(**rules):
        other = start_judge()
        rules = {"probe": False, "retries": 0, **rules}
        lines = [f"{name} = {json.dumps(value)}" for name, value in rules.items()]
        for letter, server in (("a", judge_server), ("b", other)):
            lines += ["[[judge]]", f'model = "{letter}"', f'base_url = "{server.base_url}"']
            lines += [f'api_key_env = "KEY_{letter.upper()}"', "concurrency = 2"]
        (genrm.folder / "genrm.toml").write_text("\n".join(lines))
        return judge_server, other

    return write


def requests_of(servers):
    """Return how many requests each server has seen."""
    return [server.stats()["requests"] for server in servers]


def make_pairs(count):
    """Make pairs whose better answer is the longer one."""
    return [
        {"prompt": f"Q{n}?", "chosen": "good " * (9 + n), "rejected": "bad"} for n in range(count)
    ]


@pytest.mark.slow
def test_each_server_of_a_panel_gets_its_own_key_and_no_other(genrm, panel):
    """Two judges with two keys; no key is in any file, on stdout or stderr, though a server repeats
    it.
    """
    one, other = panel(probe=True, log_json="events.jsonl", keep_replies=True)
    one.behave(require_key=KEYS["KEY_A"])
    echo = {"status": 500, "echo_authorization": True}
    other.behave(require_key=KEYS["KEY_B"], script=[echo, {}, {}])
    genrm.rollouts()
    finished = genrm.run("score in.jsonl --json --max-unscored 1", **KEYS).ended(0)
    for server, key in ((one, KEYS["KEY_A"]), (other, KEYS["KEY_B"])):
        seen = server.stats()["recent"]
        assert {each["headers"].get("authorization", "") for each in seen} == {f"Bearer {key}"}
        written = b"".join((genrm.folder / name).read_bytes() for name in genrm.names())
        assert key.encode() not in written + finished.out + finished.err.encode()
    assert "16 comparisons: 16 calls to make" in finished.err
    metrics = genrm.metrics()
    assert metrics == json.loads(finished.out)["results"][0]["metrics"]
    assert [each["name"] for each in metrics["judge"]["panel"]] == ["a", "b"]
    assert (metrics["calls"], metrics["failures"]) == (16, 0)
    assert "up to date" in genrm.run("score in.jsonl", **KEYS).err


@pytest.mark.slow
def test_a_judge_of_the_panel_that_is_down_is_4_and_what_was_paid_for_stays(genrm, call, panel):
    """The other one's verdicts are in the journal; when it is back, only the missing ones are
    asked.
    """
    servers = panel(give_up_after="3s")
    other = servers[1]
    genrm.rollouts(3)
    other.kill()
    assert other.base_url in call("score in.jsonl", **KEYS).ended(4).err
    assert genrm.names() == {"in.jsonl", "genrm.toml", "in.journal.sqlite"}
    other.restart()
    call("score in.jsonl", **KEYS).ended(0)
    stats = [server.stats() for server in servers]
    assert [(each["distinct_answered"], each["repeat_answers"]) for each in stats] == [(12, 0)] * 2


def test_only_what_failed_of_a_panel_is_asked_again(genrm, call, panel):
    """The failures of one judge; the other one, which answered all, is not asked."""
    servers = panel(max_extra=0, min_verdicts=0.5)
    servers[1].behave(script=[{"status": 500}] * 2)
    genrm.rollouts()
    call("score in.jsonl", **KEYS).ended(0)
    assert genrm.metrics()["failures_by_kind"] == {"http": 2}
    call("score in.jsonl --only-failed", **KEYS).ended(0)
    assert requests_of(servers) == [8, 10]
    assert genrm.metrics()["unscored"] == 0


def test_a_budget_is_that_of_the_whole_panel(genrm, call, panel):
    """Calls of all judges count together; what is left is asked next time."""
    servers = panel()
    genrm.rollouts()
    finished = call("score in.jsonl --max-calls 5", **KEYS).ended(6)
    assert "--max-calls" in finished.err
    assert sum(requests_of(servers)) == 5
    assert genrm.metrics()["failures_by_kind"] == {"not_asked": 11}
    call("score in.jsonl", **KEYS).ended(0)
    assert sum(requests_of(servers)) == 16


@pytest.mark.parametrize(("profile", "calls"), GRADERS)
def test_judges_that_are_asked_otherwise_are_evaluated(genrm, call_judged, profile, calls):
    """The longer answer is right here, and all of them find it; the plan counts every call."""
    genrm.write("pairs.jsonl", make_pairs(4))
    judge = f"eval pairs.jsonl -o m.json --json --profile {profile}"
    finished = call_judged(judge).ended(0)
    result = json.loads(finished.out)
    figures = result["figures"]
    assert (figures["accuracy"]["value"], figures["verdicts"]) == (1.0, 8)
    assert result["calls"] == 8 * calls
    assert f"8 comparisons: {8 * calls} calls to make" in finished.err
    assert json.loads(call_judged(f"{judge} --force").out)["calls"] == 0


def test_a_grade_that_failed_makes_both_orders_fail(genrm, call_judged, judge_server):
    """Without the grade of one answer nothing is known of the pair."""
    judge_server.behave(script=[{"content": "Hm."}])
    genrm.write("pairs.jsonl", make_pairs(2))
    words = "eval pairs.jsonl --json --concurrency 1 --profile nemotron-principle --no-probe"
    figures = json.loads(call_judged(words).out)["figures"]
    assert (figures["verdicts"], figures["failures_by_kind"]) == (2, {"no_verdict": 2})


@pytest.mark.parametrize(("profile", "calls"), GRADERS)
def test_judges_that_are_asked_otherwise_score_and_compare(
    genrm, call, call_judged, profile, calls
):
    """Graders have no first place and no flips; a second turn is not a retry; validate and score
    make the same plan.
    """
    genrm.rollouts()
    words = f"in.jsonl --both-orders --profile {profile}"
    plan = json.loads(call(f"validate {words} --json --model judge").out)["plan"]
    call_judged(f"score {words}").ended(0)
    metrics = genrm.metrics()
    assert plan["calls"] == metrics["calls"] == metrics["comparisons_planned"] * calls
    grades = profile != "brrm"
    assert (metrics["first_place_win_rate"] is None) == grades
    assert (metrics["flip_rate"] is None) == grades
    assert metrics["pairs_in_both_orders"] == (0 if grades else 8)
    assert (metrics["retries"], metrics["unscored"]) == (0, 0)
    compare = (f"compare -p Q? --profile {profile} one", "two " * 40, "three " * 20)
    call_judged(*compare).ended(0)
    rewards = json.loads(call_judged(*compare, "--json").ended(0).out)["rewards"]
    assert rewards[1] == max(rewards)


def test_the_references_reading_is_not_for_graders(genrm, call, judge_server):
    """`--compat nemo-gym` reads JSON scores of pairs: a panel with another judge is refused."""
    genrm.rollouts(1)
    url = judge_server.base_url
    judge = f'[[judge]]\nmodel = "a"\nprofile = "brrm"\nbase_url = "{url}"'
    (genrm.folder / "genrm.toml").write_text(judge)
    finished = call("score in.jsonl --compat nemo-gym", **KEYS).ended(2)
    assert "--compat nemo-gym parses JSON scores, which the profile brrm" in finished.err
    assert judge_server.stats()["requests"] == 0


def test_defaults_of_the_reference_count_in_a_panel(genrm, call, panel):
    """With --compat a judge that says nothing says 3, 3; rewards that rest on it are counted."""
    one, other = panel()
    one.behave(verdict={"score_1": 5, "score_2": 1, "ranking": 1})
    other.behave(fault={"content": "no idea"})
    genrm.rollouts(1, 2)
    call("score in.jsonl --compat nemo-gym", **KEYS).ended(0)
    metrics = genrm.metrics()
    assert (metrics["rewards_on_defaults"], metrics["mean_individual_score"]) == (2, 3.0)
    assert metrics["std_individual_score"] == pytest.approx(1.0)


def test_a_panel_is_evaluated_as_one(genrm, call, panel):
    """One judge takes the longer answer, the other always ties: joint figures are those of the
    first, and a second run asks nobody.
    """
    servers = panel()
    servers[1].behave(verdict={"score_1": 3, "score_2": 3, "ranking": 3.5})
    genrm.write("pairs.jsonl", make_pairs(4))
    result = json.loads(call("eval pairs.jsonl -o m.json --json", **KEYS).ended(0).out)
    assert (result["figures"]["accuracy"]["value"], result["calls"]) == (1.0, 16)
    call("eval pairs.jsonl -o m.json --force", **KEYS).ended(0)
    assert sum(requests_of(servers)) == 16
