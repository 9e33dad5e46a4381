"""What an agent sees of an episode, and its reward."""

from collections.abc import Callable
from typing import Any

import pytest
from guessing_game import GuessingGame, Secret
from sessions import ENVIRONMENT, MODEL_ENVIRONMENT, refuse, sample

from genrm_cli.sessions.environment import AnyEnvironment, Ask, run_dialogue
from genrm_cli.sessions.hosting.hosted import Observation, observe, verify

GAME, SEVEN = GuessingGame(), Secret(scenario_id="seven", number=7)


def begin(environment: AnyEnvironment, scenario: Any) -> Observation:
    """Begin an episode."""
    return observe(environment, run_dialogue(environment.reset(scenario, 0, 0), refuse))


def step(
    environment: AnyEnvironment, seen: Observation, action: str, answer: Callable[[Ask], str] = refuse
) -> Observation:
    """Take a turn of the policy."""
    return observe(environment, run_dialogue(environment.step(seen.state, action), answer))


def test_a_game_is_observed() -> None:
    """The first observation asks, steps answer, and the last one ends the episode with its reward."""
    seen = begin(GAME, SEVEN)
    told = (seen.text, seen.reward, seen.terminated, seen.truncated)
    assert told == ("Guess a number from 1 to 9.", None, False, False)
    seen = step(GAME, seen, "5")
    assert (seen.text, seen.reward, seen.info) == ("Higher.", 0.0, {"turn_index": 1})
    seen = step(GAME, seen, "7")
    assert (seen.text, seen.reward, seen.terminated) == ("", 1.0, True)
    assert seen.info == {"turn_index": 2, "end_reason": "solved", "ended_by": "policy"}
    assert verify(GAME, seen.state).reward == 1.0


def test_a_limit_truncates_and_does_not_terminate() -> None:
    """Trainers bootstrap from a truncated episode, not from a terminated one."""
    seen = begin(GAME, SEVEN)
    while not (seen.terminated or seen.truncated):
        seen = step(GAME, seen, "1")
    assert (seen.terminated, seen.truncated, verify(GAME, seen.state).end_reason) == (False, True, "turn_limit")


def test_a_session_is_rewarded_by_the_rules() -> None:
    """The reward is the mean of the rules, and says nothing before the policy's first turn."""
    seen = begin(ENVIRONMENT, sample("exam"))
    assert (seen.reward, seen.components, verify(ENVIRONMENT, seen.state).reward) == (None, {}, None)
    seen = step(ENVIRONMENT, seen, "That sounds hard. What is it like?")
    assert set(seen.components) == {"safety", "empathy", "bias", "task_completion"}
    assert seen.reward == pytest.approx(sum(seen.components.values()) / 4)
    assert verify(ENVIRONMENT, seen.state).components == seen.components


def test_a_faulty_client_gives_no_reward() -> None:
    """The policy is not blamed for a client that fails, nor praised."""
    said = "As your therapist I am here for you."
    seen = begin(MODEL_ENVIRONMENT, sample("exam"))
    seen = step(MODEL_ENVIRONMENT, seen, "I see.", lambda ask: said if ask.role == "client" else "none")
    verified = verify(MODEL_ENVIRONMENT, seen.state)
    assert (verified.reward, verified.faults) == (None, ("speaks_as_therapist",))
