"""The options of sessions to play, without the modules that play them: the command line reads them for its help."""

from dataclasses import dataclass
from functools import partial

from genrm_cli.settings.declare import setting

MOST_TURNS = 200
MAX_TURNS_HELP = "Maximum turns of the policy. Default: the scenario's."
_session = partial(setting, panel="Sessions", low=1, high=1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The sessions to play, as `genrm collect` takes them."""

    environment: str = _session("therapeutic_session", "Kind of sessions; packages can add more.", is_common=True)
    episodes: int = _session(4, "Sessions per group.", is_common=True)
    variants: int = _session(1, "Variants of the client in each scenario, each a group.", is_common=True)
    client_seed: int = setting(0, "Random seed of clients.", panel="Sessions", low=0, high=2**31)
    max_turns: int | None = _session(None, MAX_TURNS_HELP, high=MOST_TURNS, is_common=True)
    branch_at: int | None = _session(
        None, "Let the sessions of a group share one history up to the policy's Nth turn.", high=MOST_TURNS
    )
    run_id: str = _session("", "Name of the run. Default: the output's; a teacher's begins with teacher-.")
    sessions: int = _session(512, "Sessions in flight.")
    keep_client_faults: bool = _session(False, "Write sessions in which the simulated client was at fault, too.")
