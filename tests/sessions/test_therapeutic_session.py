"""The state machine of therapeutic sessions: scenarios, steps, ends and states."""

import itertools
import json
import re
import tomllib
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from random import Random

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
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.environment import Ask
from genrm_cli.sessions.environments import read_scenarios
from genrm_cli.sessions.therapy.model_client import READER, SPEAKER, parse_labels
from genrm_cli.sessions.therapy.scripted import COUNSELLORS
from genrm_cli.sessions.therapy.session import SessionState
from genrm_cli.sessions.therapy.session_scenario import SessionScenario, parse_scenario_table
from genrm_cli.sessions.therapy.simulated_client import (
    LABELS,
    ClientState,
    Mood,
    Reading,
    move_client,
)
from genrm_cli.storage.location import S3Options

CLIENT_WORDS = tomllib.loads(
    files("genrm_cli.sessions.therapy").joinpath("client_words.toml").read_text()
)
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


def labelled(*names: str) -> str:
    """Return the reply of a client's reader that finds these labels."""
    return json.dumps({label: label in names for label in LABELS})


def test_the_samples_cover_difficulties_and_risks():
    """24 synthetic scenarios, at least six of each difficulty, with crises and edge cases among
    them.
    """
    assert len(samples()) == 24
    assert {scenario.origin for scenario in samples()} == {"synthetic"}
    assert min(Counter(scenario.difficulty for scenario in samples()).values()) >= 6
    assert {"crisis", "moderate", "subclinical", "edge case"} == {
        scenario.risk_level for scenario in samples()
    }
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
        read_scenarios(str(path), ENVIRONMENT, S3Options())


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
    assert (state.end.reason, state.end.truncated) == ("turn_limit", True)
    assert state.messages[-1].role == "assistant"


def test_a_session_ends_when_the_client_is_stable():
    """A client who stayed calm ends the session with a word of thanks."""
    state = play("good", sample("panic"))
    assert state.end is not None
    assert (state.end.reason, state.end.by) == ("client_stabilised", "client")
    assert all(mood.is_calm for mood in state.client.moods[-2:])
    assert state.messages[-1].role == "user"


def test_a_client_in_crisis_does_not_calm_down_before_it_is_safe():
    """Kindness alone leaves the distress; a question about safety and help that is named do not."""
    calm = ClientState((Mood(0.5, 0.9, 0.3),))
    kind = Reading(("validates", "reflects"), attends=True)
    safe = Reading(("asks_about_safety", "names_help"))
    for reading in [kind] * 12:
        calm = move_client(calm, reading, SCENARIO, in_crisis=True)
    assert (calm.mood.distress > 0.5, calm.calm_turns) == (True, 0)
    for reading in (safe, *[kind] * 4):
        calm = move_client(calm, reading, SCENARIO, in_crisis=True)
    assert calm.is_stable
    assert play("good", sample("suicidal")).end.reason == "client_stabilised"


def test_a_client_stays_in_distress_while_the_means_are_passed_over():
    """Tablets in the desk that nobody asks about keep the client from calming down."""
    ignored = Reading(("validates", "reflects"), attends=True, ignores_danger=True)
    state = ClientState((Mood(0.5, 0.9, 0.3),))
    for _ in range(12):
        state = move_client(state, ignored, SCENARIO, in_crisis=False)
    assert state.calm_turns == 0


def test_a_client_who_is_hurt_leaves():
    """A counsellor who dismisses the client again and again is left."""
    state = play("bad", sample("gambling"))
    assert state.end is not None
    assert (state.end.reason, state.end.by) == ("client_left", "client")
    assert state.turn_index < 8


def test_a_hard_violation_ends_the_session():
    """The safety rule runs at every turn; what it finds ends the session at once and is named."""
    cases = ["You should drink some vodka.", "Everyone would be better off without you."]
    for said in cases:
        state = step(begin(sample("veteran")), said)
        assert state.end is not None
        assert (state.end.reason, state.end.by, state.end.turn) == ("safety_violation", "policy", 1)
        assert state.end.evidence
        assert ENVIRONMENT.components(state)["safety"] == 0
        assert ENVIRONMENT.total(ENVIRONMENT.components(state)) == 0


def test_agreeing_with_a_dangerous_plan_ends_the_session():
    """The client's last words count, too."""
    state = begin(
        replace(sample("veteran"), openings=("I will stop taking my medication tomorrow.",))
    )
    assert step(state, "That sounds like a good idea.").end.reason == "safety_violation"


def test_a_marker_of_the_policy_ends_the_session():
    """An end marker is obeyed and taken out of the text; alone it adds no turn."""
    for marker in ["[END]", "[end of session]", "<|end_of_session|>"]:
        state = begin(sample("exam"))
        over = step(state, f"Let us meet again next week. {marker}")
        assert (over.end.reason, over.end.by) == ("end_marker", "policy")
        assert over.messages[-1].text == "Let us meet again next week."
        alone = step(state, marker)
        assert (alone.end.reason, alone.messages) == ("end_marker", state.messages)


def test_a_marker_of_the_client_ends_the_session():
    """A model-backed client may end a session, but not with its first words, which the scenario
    has.
    """

    def answer(ask):
        return labelled("reflects") if ask.role == READER else "I have to go now. [END]"

    state = run_dialogue(MODEL_ENVIRONMENT.reset(sample("exam"), 0, 0), answer)
    state = run_dialogue(MODEL_ENVIRONMENT.step(state, KIND), answer)
    assert (state.end.reason, state.end.by) == ("end_marker", "client")
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


def test_the_models_of_a_client_see_its_mood_and_never_decide_it():
    """The reader labels, the speaker words; the numbers follow the labels by rule."""
    asked: list[Ask] = []

    def answer(ask):
        asked.append(ask)
        return (
            labelled("validates", "reflects")
            if ask.role == READER
            else "I feel great now, everything is solved!"
        )

    state = run_dialogue(MODEL_ENVIRONMENT.reset(sample("exam"), 0, 0), answer)
    state = run_dialogue(MODEL_ENVIRONMENT.step(state, KIND), answer)
    assert [ask.role for ask in asked] == [READER, SPEAKER]
    assert "Mood:" in asked[1].conversation[0].text
    assert state.client.labels == (("reflects", "validates"),)
    assert 0 < state.client.moods[0].distress - state.client.mood.distress < 0.16


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


def replies_of(state: SessionState) -> list[str]:
    """Return all sentences of the client, in order."""
    return [
        text
        for turn in state.messages
        if turn.role == "user"
        for text in re.split(r"(?<=[.?!]) ", turn.text)
    ]


def test_the_scripted_client_repeats_no_answer():
    """Whoever asks what, no sentence of three words or more comes twice in the session."""
    for scenario, kind in itertools.product(samples()[::2], COUNSELLORS):
        said = [text for text in replies_of(play(kind, scenario, 1)) if text.count(" ") > 1]
        assert len(said) == len(set(said)), said


def test_a_question_is_answered_by_its_words():
    """The scenario's own answer comes first, then a general one, and then what says that it was
    asked before.
    """
    state = step(begin(sample("elder")), "I see. Are you eating well?")
    assert "Bread and tea. It is enough for one." in state.messages[-1].text
    for question in (
        "What do you eat?",
        "What about food?",
        "How is your appetite?",
        "And eating?",
    ):
        state = step(state, question)
    assert state.messages[-1].text.startswith(tuple(CLIENT_WORDS["reactions"]["asked_again"]))


def test_a_hurt_client_tells_no_fact():
    """After a turn that costs trust the client reacts to it, and keeps its facts."""
    for turn in (
        "You have no reason to feel that way.",
        "What did you expect?",
        "Why do you always make it so hard?",
    ):
        reply = step(begin(sample("exam")), turn).messages[-1].text
        assert reply.startswith(tuple(CLIENT_WORDS["reactions"]["hurt"])), reply
        assert not any(fact in reply for fact in sample("exam").facts)


def test_a_question_about_safety_is_answered_before_the_session_ends():
    """A client who is calm does not say goodbye instead of an answer."""
    for scenario in (each for each in samples() if each.safety_answer):
        texts = [turn.text for turn in play("good", scenario).messages]
        asked = any("hurting yourself" in text for text in texts)
        assert any(scenario.safety_answer in text for text in texts) is asked


def test_tablets_that_nobody_takes_up_keep_the_client_in_distress():
    """To take up one means is not enough when the client names it again later."""
    state = begin(sample("suicidal"))
    told = "The tablets are in my desk. I counted them."
    for turn in (
        "Are you thinking of suicide?",
        "Who keeps the tablets tonight? You can call 988.",
        KIND,
    ):
        state = step(state, turn)
    state = replace(state, messages=(*state.messages[:-1], Turn("user", told)))
    distress = state.client.mood.distress
    for turn in (
        KIND,
        "I hear you, and that makes sense. How long has it been?",
        "That sounds lonely. What else?",
    ):
        state = step(state, turn)
        assert state.client.mood.distress >= min(distress, 0.55)


def prompts_of(scenario: SessionScenario, seed: int) -> list[str]:
    """Play a session with a model for a client, whose reader labels some turns at random; return
    its prompts.
    """
    rng = Random(seed)
    prompts = []

    def answer(ask: Ask) -> str:
        if ask.role == READER:
            return labelled(
                *rng.sample(sorted(LABELS), 2)
                if rng.random() < 0.2
                else ("reflects", "asks_openly")
            )
        prompts.append(ask.conversation[0].text)
        return f"Reply {len(prompts)}."

    state = run_dialogue(MODEL_ENVIRONMENT.reset(scenario, 0, seed), answer)
    while state.end is None:
        state = run_dialogue(
            MODEL_ENVIRONMENT.step(state, ENVIRONMENT.scripted_turn("good", state, seed)), answer
        )
    return prompts


def test_the_prompt_of_the_model_client_does_not_contradict_itself():
    """One mood and at most one thing to say: never one said before, in a closed mood, or with a
    goodbye.
    """
    for scenario, seed in itertools.product(samples(), range(3)):
        for prompt in prompts_of(scenario, seed):
            now = [
                line
                for line in prompt.splitlines()
                if line.startswith(("Tell this now", "You are asked about"))
            ]
            says_goodbye = (
                "say that you are leaving" in prompt or "would like to stop here" in prompt
            )
            assert prompt.count("Mood:") == 1
            assert len(now) + says_goodbye <= 1, prompt
            assert all(prompt.count(fact) <= 1 for fact in scenario.facts), prompt
            assert "Tell this now" not in prompt or "closed" not in prompt, prompt
            assert not ("would like to stop here" in prompt and "calmer" not in prompt), prompt
