"""Sessions of the shipped scenarios for the tests."""

from functools import cache

from genrm_cli.sessions.environment import Ask, run_dialogue
from genrm_cli.sessions.scenario_files import read_scenario_tables
from genrm_cli.sessions.therapy.environment import counsellor_words, therapeutic_session
from genrm_cli.sessions.therapy.scenario import SessionScenario
from genrm_cli.sessions.therapy.scripted import scripted_turn
from genrm_cli.sessions.therapy.session import SessionState, TherapeuticSession
from genrm_cli.storage.location import S3Options

ENVIRONMENT = therapeutic_session()


@cache
def samples() -> list[SessionScenario]:
    """Return the scenarios that come with the program."""
    return ENVIRONMENT.parse_scenarios(read_scenario_tables("samples", S3Options()), "samples")


def sample(name: str) -> SessionScenario:
    """Return a scenario by the beginning of its id."""
    return next(scenario for scenario in samples() if scenario.scenario_id.startswith(name))


def refuse(ask: Ask) -> str:
    """Fail a test whose client should not need a model."""
    raise AssertionError(ask)


def begin(scenario: SessionScenario, variant: int = 0, seed: int = 0) -> SessionState:
    """Begin a session with the scripted client."""
    return run_dialogue(ENVIRONMENT.reset(scenario, variant, seed), refuse)


def step(state: SessionState, action: str, environment: TherapeuticSession = ENVIRONMENT) -> SessionState:
    """Take one turn of the counsellor."""
    return run_dialogue(environment.step(state, action), refuse)


def play(kind: str, scenario: SessionScenario, variant: int = 0) -> SessionState:
    """Play a whole session with a scripted counsellor."""
    state = begin(scenario, variant)
    while state.end is None:
        state = step(state, scripted_turn(kind, counsellor_words(), state, 1))
    return state
