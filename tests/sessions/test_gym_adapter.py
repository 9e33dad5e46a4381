"""Environments behind reset, step and verify."""

import json

import pytest
from guessing_game import GuessingGame, Secret
from sessions import ENVIRONMENT, refuse, sample

from genrm_cli.sessions.environment import run_dialogue
from genrm_cli.sessions.hosting.hosted import reset, step, verify
from genrm_cli.sessions.therapy.environment import therapeutic_session

GAME, SEVEN = GuessingGame(), Secret("seven", 7)


def test_a_game_is_served() -> None:
    """Reset asks, steps answer, and the last one ends the episode with its reward."""
    seen = run_dialogue(reset(GAME, SEVEN), refuse)
    assert (seen.text, seen.reward, seen.terminated, seen.truncated) == (
        "Guess a number from 1 to 9.",
        None,
        False,
        False,
    )
    seen = run_dialogue(step(GAME, seen.state, "5"), refuse)
    assert (seen.text, seen.reward, seen.info) == ("Higher.", 0.0, {"turn_index": 1})
    seen = run_dialogue(step(GAME, seen.state, "7"), refuse)
    assert (seen.text, seen.reward, seen.terminated) == ("", 1.0, True)
    assert seen.info == {"turn_index": 2, "end_reason": "solved", "ended_by": "policy"}
    assert verify(GAME, seen.state).reward == 1.0


def test_a_limit_truncates_and_does_not_terminate() -> None:
    """Trainers bootstrap from a truncated episode, not from a terminated one."""
    seen = run_dialogue(reset(GAME, SEVEN), refuse)
    while not (seen.terminated or seen.truncated):
        seen = run_dialogue(step(GAME, seen.state, "1"), refuse)
    assert (seen.terminated, seen.truncated, verify(GAME, seen.state).end_reason) == (False, True, "turn_limit")


def test_a_session_is_served_from_its_json() -> None:
    """Between two requests a server may keep nothing but the JSON of the state."""
    seen = run_dialogue(reset(ENVIRONMENT, sample("exam"), 1, 3), refuse)
    assert seen.text == sample("exam").openings[1]
    kept = json.dumps(ENVIRONMENT.render_state(seen.state))
    state = ENVIRONMENT.parse_state(json.loads(kept))
    seen = run_dialogue(step(ENVIRONMENT, state, "That sounds hard. What is it like?"), refuse)
    assert set(seen.components) == {"safety", "empathy", "bias", "task_completion"}
    assert seen.reward == pytest.approx(sum(seen.components.values()) / 4)
    assert verify(ENVIRONMENT, seen.state).components == seen.components


def test_a_faulty_client_gives_no_reward() -> None:
    """The policy is not blamed for a client that fails, nor praised."""
    environment = therapeutic_session(scripted=False)
    seen = run_dialogue(reset(environment, sample("exam")), refuse)
    said = "As your therapist I am here for you."
    seen = run_dialogue(step(environment, seen.state, "I see."), lambda ask: said if ask.role == "client" else "none")
    verified = verify(environment, seen.state)
    assert (verified.reward, verified.faults) == (None, ("speaks_as_therapist",))


def test_nothing_said_is_no_reward() -> None:
    """Before the policy's first turn there is nothing to reward."""
    seen = run_dialogue(reset(ENVIRONMENT, sample("exam")), refuse)
    assert (seen.reward, seen.components, verify(ENVIRONMENT, seen.state).reward) == (None, {}, None)
