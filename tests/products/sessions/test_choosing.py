"""Choosing scenarios by id, difficulty and risk, by the rewards of an earlier run, and as
counterfactual pairs; and what the policy is shown of them.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import begin, sample, step

from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.metrics.session_metrics import SessionMetrics
from genrm_cli.products.sessions.environments import draw, scenario_weights
from genrm_cli.products.sessions.therapy.session import TherapeuticSession

GOOD = ("--scripted-policy", "good", "--episodes", "1", "-q")


def sessions_of(name):
    """Return the records of a run."""
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def done(call, *arguments):
    """Run the command, which must succeed."""
    finished = call(*arguments)
    assert finished.code == 0, finished.err


def test_the_list_shows_what_would_be_played(call):
    """`--list` prints lines that are scenarios again."""
    cases = {
        "--risk CRISIS": "suicidal_student_007 domestic_threat_008 teen_self_harm_009",
        "--difficulty beginner --limit 2": "exam_stress_001 workplace_bullying_015",
        "--scenario grief_father_006 --limit 1": "grief_father_006",
    }
    for arguments, expected in cases.items():
        shown = call("collect", "--list", *arguments.split()).out
        assert [json.loads(row)["scenario_id"] for row in shown.splitlines()] == expected.split()
        Path("mine.jsonl").write_bytes(shown)
        assert call("collect", "mine.jsonl", "--list").out == shown


def test_what_cannot_be_chosen_is_refused(call):
    """The error names the option, what was found, and what there is."""
    cases = [
        (("--scenario", "exam_stres_001"), "Did you mean exam_stress_001?"),
        (("--risk", "high"), "no scenario has 'high', for example subclinical"),
        (("--risk", "crisis", "--difficulty", "beginner"), "no scenario has"),
        (("--identity", "woman"), "NAME=TEXT"),
        (("--weights", "none.jsonl"), "no such file"),
        (("--weights", "sets.jsonl"), "no session with a scenario.scenario_id"),
    ]
    Path("sets.jsonl").write_text('{"prompt": "a", "response": "b"}\n')
    for arguments, said in cases:
        finished = call("collect", "--list", *arguments)
        assert finished.code in (2, 3)
        assert said in finished.err
    twice = ("--identity", "a=I am old.", "--identity", "a=I am young.")
    assert "two identities have one name" in call("collect", *twice, *GOOD, "-o", "a.jsonl").err


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=12), st.integers(1, 60), st.integers(0, 9))
def test_draws_follow_the_weights(weights, count, seed):
    """Each scenario is drawn within one of its share, equal seeds draw equally, and the draws add
    up.
    """
    drawn = draw(weights, count, seed)
    assert drawn == draw(weights, count, seed) == sorted(drawn)
    assert len(drawn) == count
    times = Counter(drawn)
    for number, weight in enumerate(weights):
        assert abs(times[number] - count * weight / sum(weights)) <= 1 + 1e-6


def test_hard_and_uncertain_scenarios_are_due_more_often():
    """A lower mean and a wider spread both raise the weight; one that was never played has the
    largest.
    """
    rewards = {"easy": (0.9, 0.9), "varying": (0.7, 1.0), "hard": (0.2, 0.2), "both": (0.0, 0.4)}
    stats = {id_: RunningStats() for id_ in rewards}
    for id_, values in rewards.items():
        for value in values:
            stats[id_].add(value)
    easy, varying, hard, both, new = scenario_weights([*rewards, "new"], stats)
    assert easy < varying < hard < both == new
    assert easy == pytest.approx(both / 10)
    for known in (["new", "newer"], ["easy", "easy"]):
        assert len(set(scenario_weights(known, stats))) == 1


def test_a_scenario_that_is_drawn_twice_meets_other_clients(call):
    """The run before decides how often each comes, and each draw has its own variant."""
    few = ("--scenario", "exam_stress_001", "--scenario", "grief_father_006")
    done(call, "collect", *few, *GOOD, "-o", "first.jsonl")
    lines = sessions_of("first.jsonl")
    lines[1]["reward"]["total_reward"] = 0.1
    Path("first.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    weighted = ("--weights", "first.jsonl", "--limit", 6)
    done(call, "collect", *few, *GOOD, *weighted, "-o", "second.jsonl")
    groups = [line["metadata"]["group"] for line in sessions_of("second.jsonl")]
    assert len(set(groups)) == len(groups) == 6
    assert Counter(group.split("/")[0] for group in groups)["grief_father_006"] >= 5
    assert len(call("collect", *few, *weighted, "--list").out.splitlines()) == 6


def test_identities_are_played_in_pairs_and_compared(call):
    """The same client says another first sentence; every summary has the difference, paired by
    scenario.
    """
    identities = ("--identity", "woman=I am a woman of fifty.", "--identity", "plain=")
    done(call, "collect", "--limit", 3, *identities, *GOOD, "-o", "pairs.jsonl")
    woman, plain = sessions_of("pairs.jsonl")[:2]
    assert [each["metadata"]["group"] for each in (woman, plain)] == [
        "exam_stress_001@woman/v0",
        "exam_stress_001@plain/v0",
    ]
    said = [each["messages"][1]["content"] for each in (woman, plain)]
    assert said[0] == f"I am a woman of fifty. {said[1]}"
    assert woman["metadata"]["hidden"]["moods"][0] == plain["metadata"]["hidden"]["moods"][0]
    Path("rules.toml").write_text(RULES_ONLY)
    done(call, "score", "pairs.jsonl", "--config", "rules.toml", "-q")
    done(call, "report", "pairs.scored.jsonl", "-o", "report.html", "-q")
    for name in ("pairs.collect.json", "pairs.metrics.json"):
        found = json.loads(Path(name).read_text())["sessions"]
        (difference,) = found["identities"].items()
        assert difference[0] == "woman less plain"
        assert difference[1]["low"] <= difference[1]["value"] <= difference[1]["high"]
        assert found["by"]["identity"].keys() == {"woman", "plain"}
    assert "reward of woman less plain" in Path("report.html").read_text()


def test_the_difference_of_identities_is_paired_by_scenario():
    """What scenarios differ in cancels out, one that lacks an identity is left out, and fewer than
    three say nothing.
    """
    metrics = SessionMetrics()
    differences = []
    for number, gap in enumerate((0.1, 0.2, 0.3)):
        for identity, reward in (("a", number), ("b", number + gap)):
            metrics.add({"scenario": {"scenario_id": str(number), "identity": identity}}, reward)
        metrics.add({"scenario": {"scenario_id": "other", "identity": "a"}}, 50.0)
        differences.append(metrics.summary().identities["b less a"])
    assert [each.value for each in differences] == [None, None, pytest.approx(0.2)]
    assert (differences[2].low, differences[2].high) == pytest.approx((-0.0484, 0.4484), abs=0.01)


RULES_ONLY = """
[components.form]
kind = "rule"
[total]
weights = { form = 1 }
"""


def test_the_policy_is_shown_the_state_on_request(call):
    """With `--show-policy state` its instructions end with the scenario and the turn as JSON, and
    records stay as they are.
    """
    state = begin(sample("exam"))
    assert TherapeuticSession().messages_shown(state, sample("exam")) == state.messages
    environment = TherapeuticSession(shows_state=True)
    for turn in range(2):
        shown = environment.messages_shown(state, sample("exam"))[0].text
        assert "My sister" not in shown
        told = json.loads(shown.partition("State: ")[2])
        assert told["turn_index"] == turn
        assert told["scenario"]["hard_constraints"] == ["no diagnosis"]
        state = step(state, "What is it like for you?")
    for name, shown in (("plain", ()), ("shown", ("--show-policy", "state"))):
        done(call, "collect", "--limit", 1, *GOOD, *shown, "-o", f"{name}.jsonl")
    plain, told = (sessions_of(f"{name}.jsonl")[0]["messages"][0] for name in ("plain", "shown"))
    assert plain == told
