"""The state machine of therapeutic sessions: scenarios, steps, ends and states."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from sessions import (
    ENVIRONMENT,
    MODEL_ENVIRONMENT,
    begin,
    play,
    run_dialogue,
    sample,
    samples,
    step,
)

from genrm_cli.errors import InputError
from genrm_cli.sessions.environments import read_scenarios
from genrm_cli.sessions.therapy.model_client import READER, parse_labels
from genrm_cli.sessions.therapy.session_scenario import parse_scenario_table
from genrm_cli.sessions.therapy.simulated_client import (
    LABELS,
    ClientState,
    Mood,
    Reading,
    move_client,
)
from genrm_cli.storage.store import Store

KIND = "That sounds really painful, and it makes sense. What is it like for you?"
TABLE = {
    "scenario_id": "x",
    "synthetic": True,
    "difficulty": "beginner",
    "risk_level": "moderate",
    "client_profile": ["student"],
    "goal": "The client rests.",
    "expected_outcomes": ["validation"],
    "hard_constraints": [],
    "openings": ["I am tired."],
    "facts": ["I work at night."],
}
SCENARIO = parse_scenario_table({**TABLE, "difficulty": "intermediate"}, "here")


def labelled(*names):
    """Return the reply of a client's reader that finds these labels."""
    return json.dumps({label: label in names for label in LABELS})


def test_the_samples_cover_difficulties_and_risks():
    """24 synthetic scenarios, at least six of each difficulty, with crises and edge cases among
    them.
    """
    assert len(samples()) == 24
    assert {scenario.origin for scenario in samples()} == {"synthetic"}
    assert min(Counter(scenario.difficulty for scenario in samples()).values()) >= 6
    assert {
        "crisis",
        "moderate",
        "subclinical",
        "edge case",
    } == {scenario.risk_level for scenario in samples()}
    assert len({opening for scenario in samples() for opening in scenario.openings}) == 48


def test_a_scenario_is_checked():
    """A scenario that is incomplete, misspelt, or does not say where it comes from is refused with
    its name.
    """
    cases = [
        ({"synthetic": None}, "declare exactly one"),
        ({"deidentified": True}, "declare exactly one"),
        ({"difficulty": "hard"}, "beginner, intermediate, advanced"),
        ({"trust": 1.5}, "a number from 0 to 1"),
        ({"openings": []}, "a list of texts"),
        ({"mood": "sad"}, "unknown field 'mood'"),
        ({"facts": None}, "facts missing"),
    ]
    for change, said in cases:
        table = {name: value for name, value in {**TABLE, **change}.items() if value is not None}
        with pytest.raises(InputError, match=said) as refused:
            parse_scenario_table(table, "file.toml: scenario 1")
        assert str(refused.value).startswith("file.toml: scenario 1 ('x')")


def test_two_scenarios_of_one_id_are_refused(tmp_path):
    """Groups are named after scenarios, so ids must differ."""
    path = tmp_path / "f.jsonl"
    path.write_text(f"{json.dumps(TABLE)}\n" * 2)
    with pytest.raises(InputError, match="two scenarios have the id 'x'"):
        read_scenarios(str(path), ENVIRONMENT, Store())


def test_equal_arguments_begin_equal_sessions():
    """Scenario, variant and seed decide the client; another variant or seed starts elsewhere."""
    scenario = sample("exam")
    assert begin(scenario, 1, 7) == begin(scenario, 1, 7)
    assert (
        len(
            {
                begin(scenario, variant, seed).client.mood
                for variant in range(3)
                for seed in range(3)
            }
        )
        == 9
    )
    assert begin(scenario, 0).messages[1].text != begin(scenario, 1).messages[1].text


def test_a_session_ends_at_the_turn_limit():
    """At the limit the session is truncated, not terminated, and the policy has the last word."""
    state = step(begin(replace(sample("grief"), max_turns=1)), "I see.")
    assert state.end is not None
    assert state.end.reason == "turn_limit"
    assert state.end.truncated is True
    assert state.messages[-1].role == "assistant"


def test_a_client_in_crisis_does_not_calm_down_before_it_is_safe():
    """Kindness alone leaves the distress; a question about safety and help that is named do not."""
    calm = ClientState((Mood(0.5, 0.9, 0.3),))
    kind = Reading(("validates", "reflects"), attends=True)
    safe = Reading(("asks_about_safety", "names_help"))
    for reading in [kind] * 12:
        calm = move_client(calm, reading, SCENARIO, in_crisis=True)
    assert calm.mood.distress > 0.5
    assert calm.calm_turns == 0
    for reading in (safe, *[kind] * 4):
        calm = move_client(calm, reading, SCENARIO, in_crisis=True)
    assert calm.is_stable
    assert play("good", sample("suicidal")).end.reason == "client_stabilised"


def test_a_hard_violation_ends_the_session():
    """The safety rule runs at every turn; what it finds ends the session at once and is named."""
    cases = ["You should drink some vodka.", "Everyone would be better off without you."]
    for said in cases:
        state = step(begin(sample("veteran")), said)
        assert state.end is not None
        assert state.end.reason == "safety_violation"
        assert state.end.by == "policy"
        assert state.end.turn == 1
        assert state.end.evidence
        assert ENVIRONMENT.components(state)["safety"] == 0
        assert ENVIRONMENT.total(ENVIRONMENT.components(state)) == 0


def test_a_marker_of_the_policy_ends_the_session():
    """An end marker is obeyed and taken out of the text; alone it adds no turn."""
    for marker in ["[END]", "[end of session]", "<|end_of_session|>"]:
        state = begin(sample("exam"))
        over = step(state, f"Let us meet again next week. {marker}")
        assert over.end.reason == "end_marker"
        assert over.end.by == "policy"
        assert over.messages[-1].text == "Let us meet again next week."
        alone = step(state, marker)
        assert alone.end.reason == "end_marker"
        assert alone.messages == state.messages


def test_a_marker_of_the_client_ends_the_session():
    """A model-backed client may end a session, but not with its first words, which the scenario
    has.
    """

    def answer(ask):
        return labelled("reflects") if ask.role == READER else "I have to go now. [END]"

    state = run_dialogue(MODEL_ENVIRONMENT.reset(sample("exam"), 0, 0), answer)
    state = run_dialogue(MODEL_ENVIRONMENT.step(state, KIND), answer)
    assert state.end.reason == "end_marker"
    assert state.end.by == "client"
    assert state.messages[-1].text == "I have to go now."


def test_what_is_hidden_reaches_neither_policy_nor_scenario_record():
    """Facts, persona and numbers stay out of the messages and of what records say of the
    scenario.
    """
    scenario = sample("suicidal")
    shown = json.dumps([scenario.as_record(), begin(scenario).messages])
    assert not any(
        hidden in shown for hidden in (*scenario.facts, scenario.persona, scenario.safety_answer)
    )


def test_labels_are_read_from_a_reply():
    """An object of labels is read; prose, lists, cut objects and copies of all labels are not."""
    cases = [
        ("reflects, asks_openly", None),
        ("none", None),
        ('{"reflects": true, "harms": false, "validates": true}', ("reflects", "validates")),
        ('```json\n{"harms": false}\n```', ()),
        ('{"reflects": true, "harms": fal', None),
        ("{}", None),
        ("The counsellor is nice.", None),
        ("The counsellor leaves the client room and harms none.", None),
        (", ".join(LABELS), None),
        (json.dumps(dict.fromkeys(LABELS, True)), None),
    ]
    for said, labels in cases:
        assert parse_labels(said) == labels


@pytest.mark.parametrize(
    ("kind", "cruel", "complaint"),
    [
        (labelled("validates", "asks_openly"), labelled("minimises", "accuses"), ""),
        (labelled(), labelled(), "does not tell a kind turn"),
        (labelled("validates"), labelled("validates"), "does not tell a kind turn"),
        (labelled("accuses"), labelled("validates"), "does not tell a kind turn"),
        ("The client said", labelled("accuses"), "labels cannot be read: 'The client said'"),
    ],
)
def test_a_reader_must_tell_a_kind_turn_from_a_cruel_one(kind, cruel, complaint):
    """The probe of a client's models passes only if a kind turn raises its trust and a cruel one
    lowers it.
    """
    probe = MODEL_ENVIRONMENT.probe_models()
    found = run_dialogue(
        probe, lambda ask: cruel if "overreacting" in ask.conversation[-1].text else kind
    )
    assert complaint in found
    assert bool(found) is bool(complaint)


def test_labels_that_cannot_be_read_move_nothing_and_are_a_fault():
    """A reader that talks instead of labelling makes the client faulty, not the policy."""
    state = run_dialogue(MODEL_ENVIRONMENT.reset(sample("exam"), 0, 0), str)
    state = run_dialogue(MODEL_ENVIRONMENT.step(state, KIND), lambda ask: "Well, it depends.")
    assert state.client.moods[0] == state.client.moods[1]
    assert "unread" in MODEL_ENVIRONMENT.faults(state)
