"""Serve an environment until told to stop."""

from collections.abc import Callable, Mapping

from genrm_cli.jobs.context import RunContext
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.serve.http.endpoints import Gate
from genrm_cli.serve.http.server import check_tls, listen_on, run_server, url_of
from genrm_cli.sessions.agents import AgentConfig, SilentError, open_agents, spoken_words
from genrm_cli.sessions.counts import RoleCounts
from genrm_cli.sessions.environment import AnyEnvironment, Ask
from genrm_cli.sessions.environments import ScenarioSet
from genrm_cli.sessions.hosting.gymnasium import build_environment_app
from genrm_cli.sessions.hosting.hosted import HostedSessions, RefusedError


async def serve_environment(
    environment: AnyEnvironment,
    scenarios: ScenarioSet,
    client: Mapping[str, AgentConfig],
    max_sessions: int,
    run: RunContext,
    token: str | None,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or Ctrl-C; open sessions are then lost.

    Args:
        environment: of all sessions.
        scenarios: that may be played.
        client: the environment's models, by role; empty if it needs none.
        max_sessions: how many are kept.
        run: settings and events.
        token: that requests must carry; None if anybody may ask.
        on_ready: called with the server's URL once it listens.

    Raises:
        GenrmError: a setting or a scenario cannot be used, or a model does not answer.
    """
    settings = run.settings.serve
    check_tls(settings)
    with listen_on(settings, has_token=token is not None) as listening:
        roles: dict[str, RoleCounts] = {role: RoleCounts() for role in client}
        async with open_agents(list(client.items()), environment, run, None) as agents:

            async def answer(ask: Ask) -> str:
                outcome = await agents.ask(ask.role, ask.conversation, 1)
                roles[ask.role].add(outcome)
                try:
                    return spoken_words(outcome)
                except SilentError as silent:
                    raise RefusedError(503, "client_failed", f"{ask.role}: {silent}") from silent

            redactor = redactor_of(patterns) if (patterns := run.settings.judge.redact_pattern) else None
            sessions = HostedSessions(environment, scenarios.scenarios, answer, max_sessions, settings.keep, redactor)
            app = build_environment_app(sessions, roles, Gate(settings.max_body, token))
            on_ready(url_of(listening, settings))
            await run_server(app, listening, settings, _drain)


async def _drain() -> None:
    """Wait for nothing: a session may go on for hours."""
