"""The options of sessions to play, without the modules that play them: the command line reads them for its help."""

from dataclasses import dataclass, replace
from functools import partial

from genrm_cli.settings.declare import setting
from genrm_cli.settings.kinds import TEXT

MOST_TURNS = 200
MAX_TURNS_HELP = "Maximum turns of the policy. Default: the scenario's."
SAMPLES = "samples"
"""Names the scenarios that come with an environment."""

SHOWN = ("dialogue", "scenario")
SHOW_POLICY_HELP = "What the policy sees: dialogue, or scenario: its goal, constraints and risk, too."
_session = partial(setting, panel="Sessions", low=1, high=1_000_000)
_text = partial(setting, panel="Sessions")
_NAME, _FILE, _SAYING = (replace(TEXT, metavar=metavar) for metavar in ("NAME", "FILE", "NAME=TEXT"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The sessions to play, as `genrm collect` takes them."""

    environment: str = _session("therapeutic_session", "Kind of sessions; packages can add more.", is_common=True)
    scenario: tuple[str, ...] = _text((), "Play this scenario only. Repeatable.", kind=_NAME, is_common=True)
    difficulty: tuple[str, ...] = _text(
        (), "Play scenarios of this difficulty only. Repeatable.", kind=_NAME, is_common=True
    )
    risk: tuple[str, ...] = _text((), "Play scenarios of this risk level only. Repeatable.", kind=_NAME, is_common=True)
    limit: int | None = _session(
        None, "Number of scenarios: the first ones, or as many draws with $weights.", is_common=True
    )
    weights: str | None = _text(
        None, "Sessions of an earlier run: draw scenarios with low or varying rewards more often.", kind=_FILE
    )
    identity: tuple[str, ...] = _text(
        (), "Let each client say this first, such as woman='I am a woman.' Repeatable: counterfactuals.", kind=_SAYING
    )
    show_policy: str = _text("dialogue", SHOW_POLICY_HELP, choices=SHOWN)
    episodes: int = _session(4, "Sessions per group.", is_common=True)
    variants: int = _session(1, "Variants of the client in each scenario, each a group.", is_common=True)
    client_seed: int = setting(0, "Random seed of clients.", panel="Sessions", low=0, high=2**31)
    max_turns: int | None = _session(None, MAX_TURNS_HELP, high=MOST_TURNS, is_common=True)
    branch_at: int | None = _session(
        None, "Let the sessions of a group share one history up to the policy's Nth turn.", high=MOST_TURNS
    )
    run_id: str = _session("", "Name of the run. Default: the output's; a teacher's begins with teacher-.")
    keep_client_faults: bool = _session(False, "Write sessions in which the simulated client was at fault, too.")
