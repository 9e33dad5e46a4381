"""The options of sessions to play, without the modules that play them: the command line reads them
for its help.
"""

from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from genrm_cli.settings.declare import setting
from genrm_cli.settings.kinds import REQUIREMENT, TEXT, URL

SAMPLES = "samples"
"""Names the scenarios that come with an environment."""

STATE_SHOWN = "state"
POLICY = "policy"
CLIENT = "client"
TEACHER = "teacher"
NAME = replace(TEXT, metavar="NAME")
FILE = replace(TEXT, metavar="FILE")
IDENTITY = replace(
    REQUIREMENT, expected="NAME=TEXT, for example woman='I am a woman.'", metavar="NAME=TEXT"
)
KEY_HELP = "Variable with its key. Default: GENRM_API_KEY, then OPENAI_API_KEY"
_policy = partial(setting, panel="Policy", kind=NAME)
_model = partial(_policy, only_with="policy_base_url")
_session = partial(setting, panel="Sessions")
_number = partial(_session, low=1, high=1_000_000)
max_turns_setting = partial(
    setting, "Maximum turns of the policy. Default: the scenario's.", low=1, high=200
)
show_policy_setting = partial(
    setting,
    "What the policy sees: dialogue, or state: the scenario and the turn number as JSON, too.",
    "dialogue",
    choices=("dialogue", STATE_SHOWN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The sessions to play and their policy, as `genrm collect` takes them."""

    policy_base_url: tuple[str, ...] = _policy(
        "Endpoint of the policy. Repeatable.", (), kind=URL, is_common=True
    )
    policy_model: str | None = _model("Its model name on the server.", is_common=True)
    policy_temperature: float = _model("Default: 1.", 1.0, kind=None, low=0)
    policy_top_p: float | None = _model("Default: the server's.", kind=None, low=0, high=1)
    policy_max_tokens: int = _model("Maximum tokens in a turn.", 512, kind=None, low=1)
    policy_api_key_env: str | None = _model(f"{KEY_HELP}.")
    policy_name: str | None = _policy("Its name in the records. Default: its model.")
    base_model: str | None = _policy("Model that the policy was trained from.")
    nemotron_teacher: str | None = _policy("Teacher of the policy, for the records.")
    policy_role: str = _policy(
        "policy, or teacher: sessions to imitate, below a folder named teacher.",
        POLICY,
        choices=(POLICY, TEACHER),
    )
    scripted_policy: str | None = _policy(
        "A policy without a model, for demos: bad, fair or good in a therapeutic_session.",
        is_common=True,
    )
    environment: str = _session(
        "Kind of sessions; packages can add more.", "therapeutic_session", is_common=True
    )
    scenario: tuple[str, ...] = _session(
        "Play this scenario only. Repeatable.", (), kind=NAME, is_common=True
    )
    difficulty: tuple[str, ...] = _session(
        "Play scenarios of this difficulty only. Repeatable.", (), kind=NAME
    )
    risk: tuple[str, ...] = _session(
        "Play scenarios of this risk level only. Repeatable.", (), kind=NAME
    )
    limit: int | None = _number(
        "Number of scenarios: the first ones, or as many draws with $weights.", is_common=True
    )
    weights: str | None = _session(
        "Sessions of an earlier run: draw scenarios with low or varying rewards more often.",
        kind=FILE,
    )
    identity: tuple[str, ...] = _session(
        "Let each client say this first, such as woman='I am a woman.' Repeatable: "
        "counterfactuals.",
        (),
        kind=IDENTITY,
    )
    show_policy: str = show_policy_setting(panel="Sessions")
    episodes: int = _number("Sessions per group.", 4, is_common=True)
    variants: int = _number("Variants of the client in each scenario, each a group.", 1)
    client_seed: int = _session("Random seed of clients.", 0, low=0, high=2**31)
    max_turns: int | None = max_turns_setting(panel="Sessions", is_common=True)
    branch_at: int | None = _session(
        "Let the sessions of a group share one history up to the policy's Nth turn.",
        low=1,
        high=200,
    )
    run_id: str = _session(
        "Name of the run. Default: the output's; a teacher's begins with teacher-.", ""
    )
