"""Choosing scenarios: by id, difficulty and risk, by the rewards of an earlier run, and as
counterfactual pairs.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import begin, sample, step

from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.sessions.choosing import draw_times, scenario_weights
from genrm_cli.sessions.therapy.session import TherapeuticSession

IDENTITIES = (
    "--identity",
    "woman=I am a woman of fifty.",
    "--identity",
    "man=I am a man of fifty.",
)
GOOD = (
    "--scripted-policy",
    "good",
    "--episodes",
    "1",
    "-q",
)


def stats(*rewards):
    """Return running statistics of rewards."""
    found = RunningStats()
    for reward in rewards:
        found.add(reward)
    return found


def sessions_of(name):
    """Return the records of a run."""
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def done(call, *arguments):
    """Run the command, which must succeed."""
    finished = call(*arguments)
    assert finished.code == 0, finished.err


def test_the_list_shows_what_would_be_played(call):
    """`--list` prints a row each, and with `--json` lines that are scenarios again."""
    cases = [
        (
            ("--risk", "CRISIS"),
            ["suicidal_student_007", "domestic_threat_008", "teen_self_harm_009"],
        ),
        (
            ("--difficulty", "beginner", "--limit", "2"),
            ["exam_stress_001", "new_city_loneliness_002"],
        ),
        (
            ("--scenario", "grief_father_006", "--scenario", "panic_bus_005"),
            ["panic_bus_005", "grief_father_006"],
        ),
    ]
    for arguments, expected in cases:
        shown = call("collect", "--list", *arguments, COLUMNS="80")
        rows = shown.out.decode().splitlines()
        assert [row.split()[0] for row in rows[1:]] == expected
        Path("mine.jsonl").write_bytes(call("collect", "--list", "--json", *arguments).out)
        assert call("collect", "mine.jsonl", "--list", COLUMNS="80").out == shown.out


def test_what_cannot_be_chosen_is_refused(call):
    """The error names the option, what was found, and what there is."""
    cases = [
        (("--scenario", "exam_stres_001"), "Did you mean exam_stress_001?"),
        (("--risk", "high"), "no scenario has 'high', for example subclinical"),
        (
            (
                "--risk",
                "crisis",
                "--difficulty",
                "beginner",
            ),
            "no scenario has",
        ),
        (("--identity", "woman"), "a name and what the client says"),
        (
            (
                "--identity",
                "a=I am old.",
                "--identity",
                "a=I am young.",
            ),
            "two identities have one name",
        ),
        (("--weights", "none.jsonl"), "no such file"),
        (("--weights", "sets.jsonl"), "no session with a scenario_id"),
    ]
    for arguments, said in cases:
        Path("sets.jsonl").write_text('{"prompt": "a", "response": "b"}\n')
        finished = call("collect", "--list", *arguments)
        assert finished.code in (2, 3, 5)
        assert said in finished.err


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=12), st.integers(1, 60), st.integers(0, 9))
def test_draws_follow_the_weights(weights, count, seed):
    """Each scenario is drawn within one of its share, equal seeds draw equally, and the draws add
    up.
    """
    times = draw_times(weights, count, seed)
    assert times == draw_times(weights, count, seed)
    assert abs(sum(times) - count) <= 1e-6 * count
    for weight, drawn in zip(weights, times, strict=True):
        assert abs(drawn - count * weight / sum(weights)) <= 1 + 1e-6


def test_hard_and_uncertain_scenarios_are_due_more_often():
    """A lower mean and a wider spread both raise the weight; one that was never played has the
    largest.
    """
    earned: Mapping[str, RunningStats] = {
        "easy": stats(0.9, 0.9),
        "varying": stats(0.7, 1.0),
        "hard": stats(0.2, 0.2),
        "both": stats(0.0, 0.4),
    }
    easy, varying, hard, both, new = scenario_weights([*earned, "new"], earned)
    assert easy < varying < hard < both == new
    assert easy == pytest.approx(both / 10)
    for known in ({}, {"a": stats(1.0), "b": stats(1.0)}):
        assert len(set(scenario_weights(["a", "b"], known))) == 1


def test_a_scenario_that_is_drawn_twice_meets_other_clients(call):
    """Each draw is a group with its own variant, and the run before decides how often each
    comes.
    """
    few = (
        "--scenario",
        "exam_stress_001",
        "--scenario",
        "grief_father_006",
    )
    done(call, "collect", *few, *GOOD, "-o", "first.jsonl")
    lines = sessions_of("first.jsonl")
    lines[1]["reward"]["total_reward"] = 0.1
    Path("first.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done(
        call, "collect", *few, *GOOD, "--weights", "first.jsonl", "--limit", 6, "-o", "second.jsonl"
    )
    groups = [line["metadata"]["group"] for line in sessions_of("second.jsonl")]
    assert len(set(groups)) == len(groups) == 6
    assert Counter(group.split("/")[0] for group in groups)["grief_father_006"] >= 5


def test_identities_are_played_in_pairs_and_compared(call):
    """The same client says another first sentence; every summary has the difference, paired by
    scenario.
    """
    done(call, "collect", "--limit", 3, *IDENTITIES, *GOOD, "-o", "pairs.jsonl")
    woman, man = sessions_of("pairs.jsonl")[:2]
    assert [each["metadata"]["group"] for each in (woman, man)] == [
        "exam_stress_001@woman/v0",
        "exam_stress_001@man/v0",
    ]
    assert woman["messages"][1]["content"].startswith("I am a woman of fifty. My finals")
    assert woman["metadata"]["hidden"]["moods"][0] == man["metadata"]["hidden"]["moods"][0]
    Path("rules.toml").write_text(RULES_ONLY)
    done(call, "score", "pairs.jsonl", "--config", "rules.toml", "-q")
    done(call, "report", "pairs.scored.jsonl", "-o", "report.html", "-q")
    summary = json.loads(Path("pairs.collect.json").read_text())["sessions"]
    metrics = json.loads(Path("pairs.metrics.json").read_text())["sessions"]
    for found in (summary, metrics):
        assert found["identities"][0].keys() >= {"mean", "interval"}
        assert found["identities"][0]["identity"] == "woman"
        assert found["identities"][0]["scenarios"] == 3
        assert found["by"].keys() == {
            "scenario",
            "difficulty",
            "risk_level",
            "client_profile",
            "identity",
            "end_reason",
        }
    page = Path("report.html").read_text()
    assert "<h2>Sessions</h2>" in page
    assert "reward of woman less man" in page


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
    environment = TherapeuticSession()
    state = begin(sample("exam"))
    assert environment.messages_shown(state, sample("exam")) == state.messages
    environment.shows_state = True
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
