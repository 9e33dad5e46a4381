"""The models of sessions, and `genrm serve --environment`: sessions over HTTP."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from genrm_cli.cli.console import say
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import run_to_end
from genrm_cli.errors import UsageError, naming
from genrm_cli.products.sessions.session_options import (
    FILE,
    KEY_HELP,
    NAME,
    SAMPLES,
    STATE_SHOWN,
    SessionOptions,
    max_turns_setting,
    show_policy_setting,
)
from genrm_cli.settings import Settings
from genrm_cli.settings.declare import setting
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.kinds import URL
from genrm_cli.settings.sources.keys import find_api_key, find_api_keys
from genrm_cli.settings.table import value_of

if TYPE_CHECKING:
    from genrm_cli.products.sessions.environment import AnyEnvironment
    from genrm_cli.products.sessions.session_agents import AgentConfig

_client = partial(setting, panel="Simulated client", only_with="environment")
# A default argument that nothing can change.
_NO_KEYS: Mapping[str, str] = {}
# Said at each start: rewards against a script must not be taken for a measurement.
SCRIPTED_CLIENT = "client: scripted, a stand-in without a model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The model that plays the environment's part, such as a simulated client."""

    client: str = _client(
        "auto: the model at $client_base_url, else the judge's, else the scripted stand-in; "
        "scripted: the stand-in.",
        "auto",
        choices=("auto", "scripted"),
    )
    client_base_url: tuple[str, ...] = _client(
        "Endpoint of the model that plays the client. Default: the judge's.",
        (),
        kind=URL,
        is_common=True,
    )
    client_model: str | None = _client(
        "Its model name on the server.",
        kind=NAME,
        is_common=True,
        only_with="client_base_url",
    )
    client_temperature: float = _client("", 0.7, low=0)
    client_max_tokens: int = _client(
        "Maximum tokens in a reply; an environment may need more.", 256, low=1
    )
    client_api_key_env: str | None = _client(
        f"{KEY_HELP}; none if the policy is elsewhere.", kind=NAME, only_with="client_base_url"
    )


_hosted = partial(setting, panel="Environment", is_common=True, only_with="environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The environment that `genrm serve` serves instead of rewards."""

    environment: str | None = _hosted(
        "Serve sessions to agents instead of rewards, for example therapeutic_session.",
        kind=NAME,
        only_with="",
    )
    scenarios: str = _hosted("Its scenarios, as for genrm collect.", SAMPLES, kind=FILE)
    show_policy: str = show_policy_setting(
        panel="Environment", is_common=True, only_with="environment"
    )
    max_turns: int | None = max_turns_setting(
        panel="Environment", is_common=True, only_with="environment"
    )
    max_sessions: int = _hosted(
        "Sessions kept, each for $keep after its last request; another one gets 429.", 20_000, low=1
    )


def agent_config(
    role: str, options: SessionOptions | ClientOptions, trusted: Sequence[str] = ()
) -> "AgentConfig | None":
    """Return the model of a role from the options that begin with it; None without an endpoint.

    The default key is sent to `trusted` endpoints only, or to any if there are none.
    """
    from genrm_cli.judging.client import chat_url
    from genrm_cli.products.sessions.session_agents import AgentConfig, setting_names

    def given(name: str) -> Any:
        return getattr(options, f"{role}_{name}", None)  # only a policy has top_p

    base_url = given("base_url")
    model = given("model")
    if not base_url:
        return None
    only_named = bool(trusted) and not set(base_url) <= set(trusted)
    try:
        if not model:
            raise UsageError(naming("missing $model: the name of the model at $base_url."))
        for url in base_url:
            chat_url(url)
        judge = JudgeSettings(
            base_url=tuple(base_url), model=model, api_key_env=given("api_key_env")
        )
        key = find_api_key(judge, os.environ, only_named=only_named)
    except UsageError as error:
        raise UsageError(error.message.with_names(setting_names(role))) from error
    sampling = {
        "temperature": given("temperature"),
        "top_p": given("top_p"),
        "max_reply_tokens": given("max_tokens"),
    }
    return AgentConfig(replace(judge, **sampling), api_key=key)


def client_agent(
    client: ClientOptions, trusted: Sequence[str], judge: Settings | None, keys: Mapping[str, str]
) -> "AgentConfig | None":
    """Return the model that plays the client: its own, else that of a single judge; None for the
    scripted one.
    """
    from genrm_cli.products.sessions.session_agents import AgentConfig

    if client.client == "scripted":
        return None
    agent = agent_config("client", client, trusted)
    if agent is not None or judge is None or judge.panel.judges or not judge.judge.base_url:
        return agent
    model = JudgeSettings(
        base_url=judge.judge.base_url,
        model=judge.judge.model,
        temperature=client.client_temperature,
        max_reply_tokens=client.client_max_tokens,
    )
    return AgentConfig(model, api_key=keys.get(judge.judge.judge_id or judge.judge.model or ""))


def open_environment(
    options: SessionOptions | HostOptions,
    client: ClientOptions,
    policy_base_url: Sequence[str] = (),
    judge: Settings | None = None,
    keys: Mapping[str, str] = _NO_KEYS,
) -> "tuple[AnyEnvironment, AgentConfig | None]":
    """Return an environment, and the model that plays its part, if it needs one."""
    from genrm_cli.products.sessions.environments import find_environment

    kind = find_environment(options.environment or "")
    agent = None
    if kind.model_use is not None:
        agent = client_agent(client, policy_base_url, judge, keys)
    environment = kind(
        has_model=agent is not None,
        has_judge=judge is not None,
        max_turns=options.max_turns,
        shows_state=options.show_policy == STATE_SHOWN,
    )
    if agent is None or kind.model_use is None:
        return environment, None
    return environment, agent.used(kind.model_use)


def host(
    settings: Settings,
    options: HostOptions,
    client: ClientOptions,
    token: str | None,
    events: Events,
    say_ready: Callable[[str], None],
) -> None:
    """Serve the sessions of an environment until a signal stops it."""
    from genrm_cli.jobs.context import new_run
    from genrm_cli.products.sessions.environments import read_scenarios
    from genrm_cli.products.sessions.hosting.gymnasium import serve_environment
    from genrm_cli.products.sessions.session_judge import SMOKE_TEST, judge_settings

    for name in ("wandb", "mlflow", "tensorboard"):
        if value_of(settings, name) is not None:
            raise UsageError(
                naming(
                    f"${name} is about groups; sessions of $environment are judged one by one; "
                    "omit it."
                )
            )
    judge = judge_settings(settings, of_groups=False)
    keys = find_api_keys(judge or settings)
    environment, model = open_environment(options, client, (), judge, keys)
    run = new_run(settings, keys, None, events)
    scenarios = read_scenarios(options.scenarios, environment, run.store)
    if environment.model_use is not None and model is None:
        say(SCRIPTED_CLIENT)
    if judge is None:
        say(SMOKE_TEST)
    run_to_end(
        serve_environment(
            environment, scenarios, model, judge, options.max_sessions, run, token, say_ready
        )
    )
