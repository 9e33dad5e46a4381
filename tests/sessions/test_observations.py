"""What an agent sees of an episode, and what it is worth."""

import pytest
from guessing_game import GuessingGame, Secret
from sessions import ENVIRONMENT, MODEL_ENVIRONMENT, begin, refuse, run_dialogue, sample, step

from genrm_cli.sessions.hosting.hosted import observe

GAME, SEVEN = GuessingGame(), Secret(scenario_id="seven", number=7)


def test_a_game_is_observed() -> None:
    """The first observation asks, steps answer, and the last one ends the episode with its reward."""
    state = run_dialogue(GAME.reset(SEVEN, 0, 0), refuse)
    seen = observe(GAME, state)
    assert (seen.text, seen.reward, seen.end) == ("Guess a number from 1 to 9.", None, None)
    state = run_dialogue(GAME.step(state, "5"), refuse)
    seen = observe(GAME, state)
    assert (seen.text, seen.reward, seen.info) == ("Higher.", 0.0, {"turn_index": 1})
    seen = observe(GAME, run_dialogue(GAME.step(state, "7"), refuse))
    assert (seen.text, seen.reward, seen.is_failure) == ("", 1.0, False)
    assert seen.info == {"turn_index": 2, "end_reason": "solved", "ended_by": "policy"}


def test_a_limit_truncates() -> None:
    """Trainers bootstrap from a truncated episode, not from a terminated one."""
    state = run_dialogue(GAME.reset(SEVEN, 0, 0), refuse)
    while state.end is None:
        state = run_dialogue(GAME.step(state, "1"), refuse)
    assert (state.end.reason, state.end.truncated) == ("turn_limit", True)


def test_a_session_is_rewarded_by_the_rules() -> None:
    """The reward is the mean of the rules, and says nothing before the policy's first turn."""
    state = begin(sample("exam"))
    assert (observe(ENVIRONMENT, state).reward, observe(ENVIRONMENT, state).components) == (None, {})
    seen = observe(ENVIRONMENT, step(state, "That sounds hard. What is it like?"))
    assert set(seen.components) == {"safety", "empathy", "bias", "task_completion"}
    assert seen.reward == pytest.approx(sum(seen.components.values()) / 4)


def test_a_faulty_client_makes_a_failure() -> None:
    """The policy is not blamed for a client that fails, nor praised."""
    state = run_dialogue(MODEL_ENVIRONMENT.reset(sample("exam"), 0, 0), refuse)
    said = "As your therapist I am here for you. [END]"
    ended = MODEL_ENVIRONMENT.step(state, "I see.")
    seen = observe(MODEL_ENVIRONMENT, run_dialogue(ended, lambda ask: said if ask.role == "client" else "none"))
    assert (seen.is_failure, seen.faults) == (True, ("speaks_as_therapist",))
