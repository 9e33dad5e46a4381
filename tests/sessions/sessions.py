"""Sessions of the shipped scenarios for the tests."""

from functools import cache

from genrm_cli.sessions.environment import T
from genrm_cli.sessions.environments import read_scenarios
from genrm_cli.sessions.therapy.session import TherapeuticSession
from genrm_cli.sessions.therapy.session_scenario import SessionScenario
from genrm_cli.storage.store import Store

ENVIRONMENT = TherapeuticSession()
MODEL_ENVIRONMENT = TherapeuticSession(has_models=True)


def run_dialogue(dialogue, answer):
    """Run a dialogue to its end and return its result."""
    try:
        ask = next(dialogue)
        while True:
            ask = dialogue.send(answer(ask))
    except StopIteration as ended:
        result: T = ended.value
        return result


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


def refuse(ask):
    """Fail a test whose client should not need a model."""
    raise AssertionError(ask)


def begin(scenario, variant=0, seed=0):
    """Begin a session with the scripted client."""
    return run_dialogue(ENVIRONMENT.reset(scenario, variant, seed), refuse)


def step(state, action, environment=ENVIRONMENT):
    """Take one turn of the counsellor."""
    return run_dialogue(environment.step(state, action), refuse)


def play(kind, scenario, variant=0):
    """Play a whole session with a scripted counsellor."""
    state = begin(scenario, variant)
    while state.end is None:
        state = step(state, ENVIRONMENT.scripted_turn(kind, state, 1))
    return state
