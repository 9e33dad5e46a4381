"""Sessions of the shipped scenarios for the tests."""

import asyncio
import json
from functools import cache

from genrm_cli.products.sessions.environments import read_scenarios
from genrm_cli.products.sessions.therapy.session import TherapeuticSession
from genrm_cli.products.sessions.therapy.session_scenario import SessionScenario
from genrm_cli.storage.store import Store

ENVIRONMENT = TherapeuticSession()
MODEL_ENVIRONMENT = TherapeuticSession(has_model=True)


@cache
def sample_set():
    """Return the scenarios that come with the program, with their digests."""
    return read_scenarios("samples", ENVIRONMENT, Store())


def samples():
    """Return the scenarios that come with the program."""
    return [each for each in sample_set().scenarios if isinstance(each, SessionScenario)]


def sample(name):
    """Return a scenario by the beginning of its id."""
    return next(scenario for scenario in samples() if scenario.scenario_id.startswith(name))


def reaction(effect=1, reply="I have to think about that.", **more):
    """Return the reply of a client's model."""
    flags = dict.fromkeys(("harmed", "asked_about_safety", "offered_help", "tells"), False)
    return json.dumps({**flags, "effect": effect, "reply": reply, **more})


async def refuse(conversation):
    """Fail a test whose client should not need a model."""
    raise AssertionError(conversation)


def begin(scenario, variant=0, seed=0):
    """Begin a session."""
    return ENVIRONMENT.reset(scenario, variant, seed)


def step(state, action, environment=ENVIRONMENT, ask=refuse):
    """Take one turn of the counsellor."""
    return asyncio.run(environment.step(state, action, ask))


def play(kind, scenario, variant=0):
    """Play a whole session with a scripted counsellor."""
    state = begin(scenario, variant)
    while state.end is None:
        state = step(state, ENVIRONMENT.scripted_turn(kind, state, 1))
    return state
