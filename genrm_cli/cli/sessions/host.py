"""The model that plays the environment's part, and `genrm serve --environment`: its sessions over HTTP."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from genrm_cli.cli.console import say
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import option, run_to_end
from genrm_cli.errors import SettingRef, UsageError, naming
from genrm_cli.sessions.session_options import MAX_TURNS_HELP, MOST_TURNS, SHOW_POLICY_HELP, SHOWN
from genrm_cli.settings import Settings
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.sources.keys import find_api_key
from genrm_cli.settings.table import value_of

if TYPE_CHECKING:
    from genrm_cli.sessions.agents import AgentConfig
    from genrm_cli.sessions.environment import AnyEnvironment

KEY_HELP = "Variable with its key. Default: GENRM_API_KEY, then OPENAI_API_KEY"


def agent_config(role: str, flags: object, trusted: list[str] | None = None) -> "AgentConfig | None":
    """Return the model of a role from the fields of flags that begin with it; None without an endpoint.

    The default key is sent to `trusted` endpoints only, or to any if that is None.
    """
    from genrm_cli.judging.client import chat_url
    from genrm_cli.sessions.agents import AgentConfig, setting_names

    def given(name: str) -> Any:
        return getattr(flags, f"{role}_{name}", None)  # only a policy has top_p

    base_url, model = given("base_url"), given("model")
    if not base_url:
        return None
    only_named = trusted is not None and not set(base_url) <= set(trusted)
    try:
        if not model:
            raise UsageError(naming("missing $model: the name of the model at $base_url."))
        for url in base_url:
            chat_url(url)
        key = find_api_key(JudgeSettings(api_key_env=given("api_key_env")), os.environ, only_named=only_named)
    except UsageError as error:
        raise UsageError(error.message.with_names(setting_names(role))) from error
    sampling = {name: given(name) for name in ("temperature", "top_p", "max_tokens")}
    return AgentConfig(tuple(base_url), model, **sampling, api_key=key)


_client = partial(option, panel="Simulated client")
_rare = partial(_client, is_common=False)


@dataclass(frozen=True, slots=True)
class ClientFlags:
    """The model that plays the environment's part, such as a simulated client."""

    client_base_url: Annotated[
        list[str] | None, _client("URL", "Endpoint of the model that plays the client. Default: a scripted stand-in.")
    ] = None
    client_model: Annotated[str | None, _client("NAME", "Its model name on the server.")] = None
    client_temperature: Annotated[float, _rare("NUMBER", "Default: 0.7.")] = 0.7
    client_max_tokens: Annotated[int, _rare("N", "Maximum tokens in a reply. Default: 256.")] = 256
    client_api_key_env: Annotated[str | None, _rare("NAME", f"{KEY_HELP}; none if the policy is elsewhere.")] = None

    def open(
        self, environment: str, max_turns: int | None, policy_base_url: list[str] | None = None
    ) -> "tuple[AnyEnvironment, Mapping[str, AgentConfig]]":
        """Return an environment by its name, and the models that play its part, by role, if it needs any."""
        from genrm_cli.sessions.environments import find_environment

        kind = find_environment(environment)
        client = agent_config("client", self, policy_base_url or None)
        models = {} if client is None else {role: client.used(use) for role, use in kind.models.items()}
        return kind(has_models=client is not None, max_turns=max_turns), models


_hosted = partial(option, panel="Environment")


@dataclass(frozen=True, slots=True)
class HostFlags:
    """The environment that `genrm serve` serves instead of rewards."""

    environment: Annotated[
        str | None, _hosted("NAME", "Serve sessions to agents instead of rewards, for example therapeutic_session.")
    ] = None
    scenarios: Annotated[str, _hosted("FILE", "Its scenarios, as for genrm collect. Default: samples.")] = "samples"
    show_policy: Annotated[str, _hosted("NAME", f"{SHOW_POLICY_HELP} Default: dialogue.")] = SHOWN[0]
    max_turns: Annotated[int | None, _hosted("N", MAX_TURNS_HELP, min=1, max=MOST_TURNS)] = None
    max_sessions: Annotated[
        int, _hosted("N", "Sessions kept, each for --keep after its last request; another one gets 429.", min=1)
    ] = 20_000


def host(
    settings: Settings,
    flags: HostFlags,
    client: ClientFlags,
    token: str | None,
    events: Events,
    say_ready: Callable[[str], None],
) -> None:
    """Serve the sessions of an environment until a signal stops it."""
    from genrm_cli.jobs.context import new_run
    from genrm_cli.sessions.environments import read_scenarios
    from genrm_cli.sessions.hosting.gymnasium import serve_environment

    about_groups = ("reference", "wandb", "mlflow", "tensorboard")
    if (given := next((name for name in about_groups if value_of(settings, name) is not None), None)) is not None:
        raise UsageError(naming(f"${given} is about groups that a judge compared, and $environment asks none."))
    if flags.show_policy not in SHOWN:
        raise UsageError(SettingRef("show_policy", flags.show_policy), f": expected {' or '.join(SHOWN)}.")
    environment, models = client.open(flags.environment or "", flags.max_turns)
    environment.shows_scenario = flags.show_policy == SHOWN[1]
    run = new_run(settings, {}, None, events)
    scenarios = read_scenarios(flags.scenarios, environment, run.s3)
    if environment.models and not models and not settings.output.quiet:
        say("client: scripted, a stand-in without a model")
    run_to_end(serve_environment(environment, scenarios, models, flags.max_sessions, run, token, say_ready))
