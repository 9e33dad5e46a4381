"""Choosing scenarios by id, difficulty and risk, and what the policy is shown of them."""

import json
from pathlib import Path

from sessions import begin, sample, step

from genrm_cli.sessions.therapy.session import TherapeuticSession

GOOD = (
    "--scripted-policy",
    "good",
    "--episodes",
    "1",
    "-q",
)


def sessions_of(name):
    """Return the records of a run."""
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def done(call, *arguments):
    """Run the command, which must succeed."""
    finished = call(*arguments)
    assert finished.code == 0, finished.err


def test_the_list_shows_what_would_be_played(call):
    """`--list` prints lines that are scenarios again."""
    cases = [
        (
            ("--risk", "CRISIS"),
            ["suicidal_student_007", "domestic_threat_008", "teen_self_harm_009"],
        ),
        (
            ("--difficulty", "beginner", "--limit", "2"),
            ["exam_stress_001", "workplace_bullying_015"],
        ),
        (
            ("--scenario", "grief_father_006", "--scenario", "exam_stress_001"),
            ["exam_stress_001", "grief_father_006"],
        ),
    ]
    for arguments, expected in cases:
        shown = call("collect", "--list", *arguments).out
        assert [json.loads(row)["scenario_id"] for row in shown.splitlines()] == expected
        Path("mine.jsonl").write_bytes(shown)
        assert call("collect", "mine.jsonl", "--list").out == shown


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
    ]
    for arguments, said in cases:
        finished = call("collect", "--list", *arguments)
        assert finished.code == 2
        assert said in finished.err


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
