"""The flags of a collecting run, in groups."""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from genrm_cli.catalog import COUNSELLORS, ENVIRONMENTS, explained, listed
from genrm_cli.cli.options import option
from genrm_cli.errors import UsageError
from genrm_cli.settings.judge_settings import JudgeSettings
from genrm_cli.settings.sources.keys import find_api_key

if TYPE_CHECKING:
    from genrm_cli.sessions.agents import AgentConfig

_POLICY, _CLIENT, _EPISODES = "Policy", "Simulated client", "Episodes"
_MOST_TURNS = 200


@dataclass(frozen=True, slots=True)
class PolicyFlags:
    """The policy, and another one for the turns before a branch."""

    policy_base_url: Annotated[
        list[str] | None, option("URL", "OpenAI-compatible endpoint of the policy. Repeatable.", panel=_POLICY)
    ] = None
    policy_model: Annotated[str | None, option("NAME", "Its model name on the server.", panel=_POLICY)] = None
    policy_temperature: Annotated[float, option("NUMBER", "Default: 1.", panel=_POLICY)] = 1.0
    policy_top_p: Annotated[float | None, option("NUMBER", "Default: the server's.", panel=_POLICY)] = None
    policy_max_tokens: Annotated[int, option("N", "Most tokens of a turn. Default: 512.", panel=_POLICY)] = 512
    policy_api_key_env: Annotated[
        str | None,
        option("NAME", "Variable with its key. Default: GENRM_API_KEY, then OPENAI_API_KEY.", panel=_POLICY),
    ] = None
    policy_name: Annotated[
        str | None, option("NAME", "Name of the policy in the records. Default: its model.", panel=_POLICY)
    ] = None
    base_model: Annotated[str | None, option("NAME", "What the policy was trained from.", panel=_POLICY)] = None
    policy_role: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="policy, or teacher for sessions to imitate, which go below a folder named teacher.",
            rich_help_panel=_POLICY,
        ),
    ] = "policy"
    trunk_base_url: Annotated[
        list[str] | None,
        option("URL", "Endpoint of another policy, which has the turns before --branch-at.", panel=_POLICY),
    ] = None
    trunk_model: Annotated[
        str | None,
        option("NAME", "Its model name; with its --journal, its turns are not asked again.", panel=_POLICY),
    ] = None
    scripted_policy: Annotated[
        str | None,
        option("NAME", f"A counsellor without a model, for demos and tests: {explained(COUNSELLORS)}.", panel=_POLICY),
    ] = None

    def check(self, branch_at: int | None) -> None:
        """Refuse flags that do not fit.

        Raises:
            UsageError: says which.
        """
        scripted = self.scripted_policy
        if self.policy_role not in ("policy", "teacher"):
            raise UsageError(f"--policy-role: {self.policy_role!r} is neither policy nor teacher.")
        if scripted is not None and scripted not in COUNSELLORS:
            raise UsageError(f"--scripted-policy: unknown {scripted!r}; expected one of {listed(COUNSELLORS)}.")
        if (scripted is None) is not bool(self.policy_base_url):
            raise UsageError("pass --policy-base-url and --policy-model, or --scripted-policy to try without a model.")
        if branch_at is not None and scripted is not None:
            raise UsageError("--branch-at needs a policy that answers differently each time; drop --scripted-policy.")
        if self.trunk_base_url and (branch_at is None or scripted is not None):
            raise UsageError("--trunk-base-url needs --branch-at and a policy of its own at --policy-base-url.")

    @property
    def name(self) -> str:
        """What records call the policy."""
        return self.policy_name or self.policy_model or f"scripted-{self.scripted_policy}"

    def policy(self) -> "AgentConfig | None":
        """Return the policy's model; None for a scripted one."""
        if not self.policy_base_url:
            return None
        agent = agent_config(
            "policy", self.policy_base_url, self.policy_model, self.policy_api_key_env, only_named=False
        )
        return self._sampled(agent)

    def trunk(self) -> "AgentConfig | None":
        """Return the model of the turns before a branch; None if it is the policy's."""
        if not self.trunk_base_url:
            return None
        shares_key = set(self.trunk_base_url) <= set(self.policy_base_url or ())
        agent = agent_config(
            "trunk", self.trunk_base_url, self.trunk_model, self.policy_api_key_env, only_named=not shares_key
        )
        return self._sampled(agent)

    def _sampled(self, agent: "AgentConfig") -> "AgentConfig":
        return replace(
            agent, temperature=self.policy_temperature, top_p=self.policy_top_p, max_tokens=self.policy_max_tokens
        )


@dataclass(frozen=True, slots=True)
class ClientFlags:
    """The model that plays the client."""

    client_base_url: Annotated[
        list[str] | None,
        option(
            "URL",
            "Endpoint of the model that plays the client. Default: the embedded scripted client, a stand-in.",
            panel=_CLIENT,
        ),
    ] = None
    client_model: Annotated[str | None, option("NAME", "Its model name on the server.", panel=_CLIENT)] = None
    client_temperature: Annotated[float, option("NUMBER", "Default: 0.7.", panel=_CLIENT)] = 0.7
    client_max_tokens: Annotated[int, option("N", "Most tokens of a reply. Default: 256.", panel=_CLIENT)] = 256
    client_api_key_env: Annotated[
        str | None,
        option(
            "NAME",
            "Variable with its key. Default: GENRM_API_KEY, then OPENAI_API_KEY; none if the policy is elsewhere.",
            panel=_CLIENT,
        ),
    ] = None

    def roles(self, policy_base_url: list[str] | None = None) -> "dict[str, AgentConfig]":
        """Return the models that play the client, by role; none if the scripted client plays."""
        if not self.client_base_url:
            return {}
        shares_key = not policy_base_url or set(self.client_base_url) <= set(policy_base_url)
        client = agent_config(
            "client", self.client_base_url, self.client_model, self.client_api_key_env, only_named=not shares_key
        )
        return client_roles(replace(client, temperature=self.client_temperature, max_tokens=self.client_max_tokens))


@dataclass(frozen=True, slots=True)
class EpisodeFlags:
    """Which sessions to play."""

    environment: Annotated[
        str, typer.Option(metavar="NAME", help=f"{explained(ENVIRONMENTS)}.", rich_help_panel=_EPISODES)
    ] = next(iter(ENVIRONMENTS))
    episodes: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="Sessions of a group.", rich_help_panel=_EPISODES)
    ] = 4
    variants: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="Variants of the client in each scenario, each a group.",
            rich_help_panel=_EPISODES,
        ),
    ] = 1
    client_seed: Annotated[
        int, typer.Option(metavar="N", min=0, max=2**31, help="Random seed of clients.", rich_help_panel=_EPISODES)
    ] = 0
    max_turns: Annotated[
        int | None, option("N", "Most turns of the policy. Default: the scenario's.", panel=_EPISODES)
    ] = None
    branch_at: Annotated[
        int | None,
        option("N", "Let the sessions of a group share one history up to the policy's Nth turn.", panel=_EPISODES),
    ] = None
    run_id: Annotated[
        str | None,
        option(
            "NAME", "Name of the run. Default: that of the output; a teacher's begins with teacher-.", panel=_EPISODES
        ),
    ] = None
    sessions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Sessions in flight.", rich_help_panel=_EPISODES)
    ] = 512
    keep_client_faults: Annotated[
        bool,
        typer.Option(
            "--keep-client-faults",
            help="Write sessions in which the simulated client was at fault, too.",
            rich_help_panel=_CLIENT,
        ),
    ] = False

    def check(self) -> None:
        """Refuse an unknown environment, and turns out of range.

        Raises:
            UsageError: says which.
        """
        if self.environment not in ENVIRONMENTS:
            raise UsageError(f"--environment: unknown {self.environment!r}; expected one of {listed(ENVIRONMENTS)}.")
        check_turns("--max-turns", self.max_turns)
        check_turns("--branch-at", self.branch_at)


def check_turns(flag: str, number: int | None) -> None:
    """Refuse a number of turns that is out of range."""
    if number is not None and not 1 <= number <= _MOST_TURNS:
        raise UsageError(f"{flag} is {number}; expected 1 to {_MOST_TURNS}.")


if TYPE_CHECKING:
    from genrm_cli.sessions.agents import AgentConfig


def agent_config(
    role: str, base_url: list[str], model: str | None, api_key_env: str | None, *, only_named: bool
) -> "AgentConfig":
    """Return a model that takes part, as the flags of its role name it.

    Raises:
        UsageError: a flag is missing or cannot be used.
    """
    from genrm_cli.judging.client import chat_url
    from genrm_cli.sessions.agents import AgentConfig

    if not model:
        raise UsageError(f"missing --{role}-model: the name of the model at --{role}-base-url.")
    try:
        for url in base_url:
            chat_url(url)
        key = find_api_key(JudgeSettings(api_key_env=api_key_env), os.environ, only_named=only_named)
    except UsageError as error:
        names = {name: f"{role}_{name}" for name in ("base_url", "api_key_env")}
        raise UsageError(error.message.with_names(names)) from error
    return AgentConfig(tuple(base_url), model, api_key=key)


def client_roles(client: "AgentConfig | None") -> "dict[str, AgentConfig]":
    """Return what a model plays for a simulated client, by role; nothing if the scripted client plays."""
    from genrm_cli.sessions.therapy.model_client import READER, READER_FIELDS, READER_TOKENS, SPEAKER

    if client is None:
        return {}
    reads = max(client.max_tokens, READER_TOKENS)
    return {
        READER: replace(client, temperature=0.0, max_tokens=reads, request_fields=READER_FIELDS),
        SPEAKER: client,
    }
