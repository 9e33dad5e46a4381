"""Sessions over HTTP, as NeMo Gym's gymnasium-style resources server offers them.

Source: NVIDIA-NeMo/Gym `resources_servers/gymnasium/base.py`,
`responses_api_agents/gymnasium_agent/app.py`."""

import secrets
from collections.abc import Awaitable, Callable, Mapping

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from genrm_cli.http_server.gym_rows import aggregate, masked
from genrm_cli.http_server.http_replies import JsonReply
from genrm_cli.http_server.router import AccessLimits, Answer, build_router, parse_body, response_of
from genrm_cli.http_server.server import listen_on, run_server
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.rollouts.reading.answers import items_of_response
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.rollouts.rollout import Turn, UnreadableRecordError, words_of
from genrm_cli.sessions.environment import AnyEnvironment
from genrm_cli.sessions.environments import ScenarioSet
from genrm_cli.sessions.episode import client_record, spoken_words
from genrm_cli.sessions.hosting.hosted import HostedSessions, Observation, SessionRecorder
from genrm_cli.sessions.session_agents import AgentConfig, open_agents
from genrm_cli.sessions.session_judge import open_session_judge
from genrm_cli.sessions.session_options import CLIENT
from genrm_cli.settings import Settings

Handler = Callable[[HostedSessions, str, Record], Awaitable[JsonReply]]
"""Takes the sessions, the caller's session id, and the body."""


def _info(seen: Observation) -> Record:
    """Return turn index, shown state, and after the end the reason and who ended it."""
    info: Record = {"turn_index": seen.turn_index}
    if seen.end is not None:
        info |= {"end_reason": seen.end.reason, "ended_by": seen.end.by}
    return info if seen.state is None else info | {"state": seen.state}


def _rewarded(seen: Observation) -> Record:
    return {
        "reward_components": seen.reward["components"],
        "reward_source": seen.reward["source"],
    }


async def _reset(sessions: HostedSessions, id_: str, row: Record) -> JsonReply:
    seen = await sessions.reset(id_, *_episode_of(row, sessions))
    supports = {"supports_explicit_close": True, "supports_step_idempotency": True}
    return JsonReply({"observation": seen.text, "info": _info(seen) | supports})


async def _step(sessions: HostedSessions, id_: str, row: Record) -> JsonReply:
    response = row.get("response")
    model = response.get("model") if isinstance(response, dict) else None
    request_id = row.get("_ng_step_request_id")
    seen = await sessions.step(
        id_,
        words_of(items_of_response(response) or ()).strip(),
        request_id if isinstance(request_id, str) else None,
        model if isinstance(model, str) else None,
    )
    info: Record = _info(seen) | _rewarded(seen)
    if seen.faults:
        info["client_faults"] = list(seen.faults)
    if seen.is_failure:
        info["mask_sample"] = True
    is_cut = seen.end is not None and seen.end.truncated
    return JsonReply(
        {
            "observation": seen.text or None,
            "reward": seen.gain,
            "terminated": seen.end is not None and not is_cut,
            "truncated": is_cut,
            "info": info,
        }
    )


async def _verify(sessions: HostedSessions, id_: str, row: Record) -> JsonReply:
    seen = await sessions.look(id_)
    end_reason = None if seen.end is None else seen.end.reason
    reply: Record = {**row, **_rewarded(seen), "end_reason": end_reason}
    reward = seen.reward["total_reward"]
    if reward is not None and not seen.is_failure:
        return JsonReply(reply | {"reward": reward, "failure_reason": None})
    if seen.faults:
        reason = f"the simulated client is at fault: {', '.join(seen.faults)}"
        return JsonReply(masked(reply, reason) | {"_ng_failure_class": "user_failure"})
    if "reason" in seen.reward:
        return JsonReply(masked(reply, f"the judge gave no reward: {seen.reward['reason']}"))
    return JsonReply(masked(reply, f"the session is no episode: {end_reason}"))


async def _close(sessions: HostedSessions, id_: str, _row: Record) -> JsonReply:
    await sessions.close(id_)
    return JsonReply({})


async def _aggregate_metrics(_sessions: HostedSessions, _id: str, row: Record) -> JsonReply:
    return JsonReply(aggregate(row))


ENDPOINTS: Mapping[str, Handler] = {
    "/seed_session": _reset,
    "/reset": _reset,
    "/step": _step,
    "/verify": _verify,
    "/close": _close,
    "/aggregate_metrics": _aggregate_metrics,
}
"""POST handlers by path. A session begins with its seed, so an agent may omit either of the first
two.
"""


def _episode_of(row: Record, sessions: HostedSessions) -> tuple[str, int, int]:
    """Return scenario, variant and seed."""
    metadata = row.get("verifier_metadata")
    given = {**metadata, **row} if isinstance(metadata, dict) else row
    scenario_id = given.get("scenario_id")
    task = given.get("_ng_task_index")
    if scenario_id is None and task is not None:
        # All scenarios in order, then their variants.
        names = list(sessions.scenarios)
        variant, place = divmod(_whole_number(task, "_ng_task_index"), len(names))
        return names[place], variant, 0
    if not isinstance(scenario_id, str):
        raise UnreadableRecordError(
            "the row names no scenario; give scenario_id (GET /tasks lists rows)"
        )
    variant = _whole_number(given.get("variant", 0), "variant")
    return scenario_id, variant, _whole_number(given.get("seed", 0), "seed")


def _whole_number(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**31:
        raise UnreadableRecordError(f"{name} is not an integer of 0 or more")
    return value


COOKIE = "genrm_session"


def build_environment_app(sessions: HostedSessions, gate: AccessLimits) -> Router:
    """Return the ASGI application of an environment."""

    def answering(handle: Handler) -> Answer:
        async def answer(request: Request, body: bytes) -> Response:
            id_ = request.cookies.get(COOKIE) or secrets.token_urlsafe(24)
            row = parse_body(body) if body.strip() else {}
            response = response_of(await handle(sessions, id_, row))
            response.set_cookie(COOKIE, id_, httponly=True, samesite="lax")
            return response

        return answer

    async def tasks(*_: object) -> Response:
        lines = []
        for name in sessions.scenarios:
            # A row of NeMo Gym's input, with the instructions that the policy gets.
            said = [{"role": "system", "content": text} for text in sessions.instructions(name)]
            params = {"input": said}
            row = {"responses_create_params": params, "scenario_id": name, "variant": 0, "seed": 0}
            lines.append(orjson.dumps(row) + b"\n")
        return Response(b"".join(lines), media_type="application/x-ndjson")

    async def health() -> JsonReply:
        return JsonReply({"status": "ok", "sessions": len(sessions)})

    async def alive(*_: object) -> Response:
        return response_of(await health())

    async def reverify_mode(*_: object) -> Response:
        return response_of(JsonReply("unsupported"))  # a reward belongs to its session

    posts = [("POST", path, answering(handle)) for path, handle in ENDPOINTS.items()]
    gets = [("GET", "/tasks", tasks), ("GET", "/", alive), ("GET", "/reverify_mode", reverify_mode)]
    return build_router([*posts, *gets], [("/healthz", health), ("/readyz", health)], gate)


async def serve_environment(
    environment: AnyEnvironment,
    scenarios: ScenarioSet,
    client: AgentConfig | None,
    judge: Settings | None,
    max_sessions: int,
    run: RunContext,
    token: str | None,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or Ctrl-C; open sessions are then lost, and those that ended are
    recorded.

    Args:
        judge: settings of the judge that rewards sessions; None for none.
    """
    settings = run.settings.serve
    recorder = None if settings.record is None else SessionRecorder(settings.record, run)
    agents = {} if client is None else {CLIENT: client}
    with listen_on(settings, has_token=token is not None) as listening:
        async with (
            open_agents(agents, run, None) as answer,
            open_session_judge(judge, run, None) as session_judge,
        ):

            async def ask(conversation: tuple[Turn, ...]) -> str:
                return spoken_words(CLIENT, await answer(CLIENT, conversation, 1))

            sessions = HostedSessions(
                environment,
                scenarios,
                ask,
                max_sessions,
                settings.keep,
                client=client_record(environment, client),
                redactor=redactor_of(run.settings.judge.redact_pattern),
                recorder=recorder,
                judge=session_judge,
            )
            app = build_environment_app(sessions, AccessLimits(settings, token))
            if recorder is not None:
                await recorder.complete_left()
            try:
                await run_server(app, listening, settings.read_timeout, on_ready)
            finally:
                if recorder is not None:
                    await recorder.close()
