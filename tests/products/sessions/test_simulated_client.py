"""The simulated client: its numbers, its faults, and what moves the scripted one."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace
from policies import GAMES
from sessions import ENVIRONMENT, begin, play, sample, samples, step

from genrm_cli.products.sessions.therapy.scripted import COUNSELLORS
from genrm_cli.products.sessions.therapy.simulated_client import (
    ClientState,
    Mood,
    Reaction,
    client_faults,
    move_client,
)
from genrm_cli.rollouts.rollout import Turn

SHARES = st.floats(0, 1)
LONGEST_STEP = 0.15 + 1e-9


@given(st.builds(Mood, SHARES, SHARES), st.floats(-5, 5), st.booleans())
def test_no_number_jumps_or_leaves_its_range(mood, effect, in_crisis):
    """Whatever a turn does, each number stays within 0 and 1 and moves by a step at most."""
    state = ClientState((mood,))
    after = move_client(state, Reaction("Yes.", effect), sample("exam"), in_crisis=in_crisis).mood
    for before, now in zip(astuple(mood), astuple(after), strict=True):
        assert 0 <= now <= 1
        assert abs(now - before) <= LONGEST_STEP


def test_facts_are_told_one_at_a_time():
    """The good counsellor hears each fact once, in the order of the scenario."""
    for scenario in samples():
        state = play("good", scenario)
        said = " ".join(turn.text for turn in state.messages if turn.role == "user")
        places = [said.find(fact) for fact in scenario.facts[: state.client.told]]
        assert places == sorted(places)
        assert -1 not in places
        assert said.count(scenario.facts[0]) <= 1


@pytest.mark.parametrize("game", ["mirror", "what about the noun", "retold", "word salad"])
def test_an_echo_moves_nothing(game):
    """An echo, a question that only names a noun, and a retelling never reach the client."""
    for scenario in samples():
        state = begin(scenario)
        for turn in range(3):
            said = [each.text for each in state.messages if each.role == "user"]
            state = step(state, GAMES[game](said, turn))
            if state.end is not None:
                break
        assert all(effect <= 0 for effect in state.client.effects), scenario.scenario_id
        assert state.client.told == 0


def test_the_scripted_client_answers_what_it_is_asked():
    """A question gets its answer, and asking the same again does not reach the client."""
    state = step(begin(sample("grief")), "How do you sleep, now that he is gone?")
    assert state.client.effects == (1.0,)
    again = step(state, "How do you sleep, now that he is gone?")
    assert again.client.effects == (1.0, -1.0)


def test_the_scripted_client_is_never_at_fault():
    """On every scenario and with every counsellor, the stand-in has no fault of those that are
    looked for.
    """
    for number, (kind, scenario) in enumerate(product(COUNSELLORS, samples())):
        state = play(kind, scenario, number % 2)
        assert ENVIRONMENT.faults(state) == (), (kind, scenario.scenario_id)


def test_a_client_in_crisis_does_not_calm_down_before_it_is_safe():
    """Good turns alone leave the distress; a question about safety and an offer of help end it."""
    state = ClientState((Mood(0.5, 0.9),))
    good = Reaction("Yes.", 1.0)
    safe = replace(good, asked_about_safety=True, was_offered_help=True)
    for _ in range(12):
        state = move_client(state, good, sample("suicidal"), in_crisis=True)
    assert state.mood.distress > 0.5
    assert not state.is_stable
    for reaction in (safe, *[good] * 4):
        state = move_client(state, reaction, sample("suicidal"), in_crisis=True)
    assert state.is_stable


CLIENT = ClientState((Mood(0.3, 0.8), Mood(0.35, 0.75)))


def heard(*replies):
    """Return a session in which the client says these replies."""
    turns = [Turn("user", "I am so tired of it.")]
    for reply in replies:
        turns += [Turn("assistant", "I see."), Turn("user", reply)]
    return turns


def test_each_fault_is_found():
    """A client that repeats itself or speaks as the therapist is found out."""
    cases = [
        (
            "repeats_itself",
            ("I can't say it any better today.", "Well.", "I can't say it any better today!"),
        ),
        ("repeats_itself", ("I am here. I'm with you. I'm with you.\n\nI'm with you! How is it?",)),
        ("speaks_as_therapist", ("It sounds like you feel overwhelmed.",)),
        ("speaks_as_therapist", ("Therapist: tell me more.",)),
    ]
    for fault, replies in cases:
        assert fault in client_faults(heard(*replies), CLIENT)
