"""The simulated client: its numbers, its faults, and what it makes of good and bad counsellors."""

from dataclasses import astuple, replace
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import ENVIRONMENT, play, sample, samples

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.therapy.screening import client_faults
from genrm_cli.sessions.therapy.scripted import COUNSELLORS
from genrm_cli.sessions.therapy.simulated_client import (
    LABELS,
    LONGEST_STEP,
    ClientState,
    Mood,
    Reading,
    move_client,
    move_mood,
)

SHARES = st.floats(0, 1)


@given(
    st.builds(Mood, SHARES, SHARES, SHARES, SHARES),
    st.sets(st.sampled_from(sorted(LABELS))),
    st.floats(0.5, 1.5),
)
def test_no_number_jumps_or_leaves_its_range(mood, labels, openness):
    """Whatever a turn does, each number stays within 0 and 1 and moves by a step at most."""
    after = move_mood(mood, labels, openness)
    for before, now in zip(astuple(mood), astuple(after), strict=True):
        assert 0 <= now <= 1
        assert abs(now - before) <= LONGEST_STEP + 1e-9


@given(st.lists(st.sets(st.sampled_from(sorted(LABELS))), max_size=30), st.integers(1, 6))
def test_facts_are_told_one_at_a_time(turns, facts):
    """A client tells at most one fact a turn, never more than it has, and none twice."""
    state = ClientState((Mood(0.4, 0.6, 0.4),))
    scenario = replace(sample("exam"), facts=("Once.",) * facts)
    told = []
    for labels in turns:
        state = move_client(state, Reading(tuple(labels)), scenario, in_crisis=False)
        if state.tells is not None:
            told.append(state.tells)
            state = replace(state, told=state.told + 1)  # as the session does once it is said
    assert told == list(range(len(told)))
    assert len(told) <= facts


def test_the_scripted_client_is_never_at_fault():
    """On every scenario and with every counsellor, the stand-in has no fault of those that are
    looked for.
    """
    for kind in COUNSELLORS:
        assert {
            ENVIRONMENT.faults(play(kind, scenario, variant))
            for scenario in samples()
            for variant in (0, 1)
        } == {()}


CLIENT = ClientState((Mood(0.3, 0.8, 0.6), Mood(0.35, 0.75, 0.55)), ((),))


def heard(*replies):
    """Return a session in which the client says these replies."""
    turns = [Turn("user", "I am so tired of it.")]
    for reply in replies:
        turns += [Turn("assistant", "I see."), Turn("user", reply)]
    return turns


def test_each_fault_is_found():
    """A client that repeats itself, speaks as the therapist, gives in, tells all or jumps is found
    out.
    """
    cases = [
        (
            "repeats_itself",
            ("I can't say it any better today.", "Well.", "I can't say it any better today!"),
        ),
        (
            "repeats_itself",
            ("I am here. I'm with you. I'm with you.\n\nI'm with you! How is it going?",),
        ),
        ("speaks_as_therapist", ("It sounds like you feel overwhelmed.",)),
        ("speaks_as_therapist", ("That is very common in a practice session.",)),
        ("speaks_as_therapist", ("Therapist: tell me more.",)),
        ("agrees_at_once", ("You're absolutely right, I'll do that.",)),
        ("mood_jumps", ("I feel so much better now!",)),
        (
            "discloses_everything",
            (
                "My sister had top marks and my parents mention it at every dinner. I lie awake "
                "and count the days "
                "left. I told them I had passed a test that I never took. If I fail I do not know "
                "who I am to them.",
            ),
        ),
    ]
    for fault, replies in cases:
        assert fault in client_faults(sample("exam"), heard(*replies), CLIENT)


def effect_size(low, high):
    """Return Cohen's d of two samples, by their mean deviation; infinite if neither varies."""
    spread = (stdev(low) ** 2 + stdev(high) ** 2) ** 0.5 / 2**0.5
    return (mean(high) - mean(low)) / spread if spread else float("inf")


@pytest.mark.slow
def test_counsellors_come_out_in_order_on_every_scenario():
    """Bad, fair and good counsellors are told apart by reward and by the client's relief, by at
    least 0.8 d each.
    """
    for scenario in samples():
        rewards: dict[str, list[float]] = {}
        relief: dict[str, list[float]] = {}
        for kind in COUNSELLORS:
            played = [play(kind, scenario, variant) for variant in range(8)]
            totals = [ENVIRONMENT.total(ENVIRONMENT.components(state)) for state in played]
            rewards[kind] = [total for total in totals if total is not None]
            relief[kind] = [
                state.client.moods[0].distress - state.client.mood.distress for state in played
            ]
        sizes = []
        for measure in (rewards, relief):
            assert mean(measure["bad"]) < mean(measure["fair"]) < mean(measure["good"]), (
                scenario.scenario_id
            )
            sizes += [
                effect_size(measure["bad"], measure["fair"]),
                effect_size(measure["fair"], measure["good"]),
            ]
        print(f"{scenario.scenario_id:28}" + "".join(f"{size:8.1f}" for size in sizes))
        assert min(sizes) >= 0.8, scenario.scenario_id
