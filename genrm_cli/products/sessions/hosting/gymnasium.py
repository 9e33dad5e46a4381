"""Sessions over HTTP, as NeMo Gym's gymnasium-style resources server offers them.

Source: NVIDIA-NeMo/Gym `resources_servers/gymnasium/base.py`,
`responses_api_agents/gymnasium_agent/app.py`."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from genrm_cli.http_server.gym_rows import aggregate, masked
from genrm_cli.http_server.http_replies import JsonReply
from genrm_cli.http_server.router import AccessLimits, Answer, build_router, parse_body, response_of
from genrm_cli.http_server.server import listen_on, run_server
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record, whole_characters
from genrm_cli.products.sessions.environment import AnyEnvironment
from genrm_cli.products.sessions.environments import ScenarioSet
from genrm_cli.products.sessions.episode import client_record, spoken_words
from genrm_cli.products.sessions.hosting.hosted import HostedSessions, Observation, SessionRecorder
from genrm_cli.products.sessions.session_agents import AgentConfig, open_agents
from genrm_cli.products.sessions.session_judge import open_session_judge
from genrm_cli.products.sessions.session_options import CLIENT
from genrm_cli.rollouts.reading.answers import items_of_response
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.rollouts.rollout import Turn, UnreadableRecordError, words_of
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import render_record

Handler = Callable[[HostedSessions, str, Record], Awaitable[Record]]
"""Takes the sessions, the caller's session id, and the body; returns the reply."""


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


async def _reset(sessions: HostedSessions, id_: str, row: Record) -> Record:
    seen = await sessions.reset(id_, *_episode_of(row, sessions))
    supports = {"supports_explicit_close": True, "supports_step_idempotency": True}
    return {"observation": seen.text, "info": _info(seen) | supports}


async def _step(sessions: HostedSessions, id_: str, row: Record) -> Record:
    response = row.get("response")
    said = words_of(items_of_response(whole_characters(response)) or ()).strip()
    model = _text_at(response, "model")
    seen = await sessions.step(id_, said, _text_at(row, "_ng_step_request_id"), model)
    info: Record = _info(seen) | _rewarded(seen)
    if seen.faults:
        info["client_faults"] = list(seen.faults)
    if seen.is_failure:
        info["mask_sample"] = True
    is_cut = seen.end is not None and seen.end.truncated
    return {
        "observation": seen.text or None,
        "reward": seen.gain,
        "terminated": seen.end is not None and not is_cut,
        "truncated": is_cut,
        "info": info,
    }


def _text_at(row: object, name: str) -> str | None:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, str) else None


async def _verify(sessions: HostedSessions, id_: str, row: Record) -> Record:
    seen = await sessions.look(id_)
    end_reason = None if seen.end is None else seen.end.reason
    reply: Record = {**row, **_rewarded(seen), "end_reason": end_reason}
    reward = seen.reward["total_reward"]
    if reward is not None and not seen.is_failure:
        return reply | {"reward": reward, "failure_reason": None}
    if seen.faults:
        reason = f"the simulated client is at fault: {', '.join(seen.faults)}"
        return masked(reply, reason) | {"_ng_failure_class": "user_failure"}
    if "reason" in seen.reward:
        reason = f"the judge gave no reward: {seen.reward['reason']}"
        return masked(reply, reason) | {"_ng_failure_class": "judge_failed"}
    return masked(reply, f"the session is no episode: {end_reason}")


async def _close(sessions: HostedSessions, id_: str, _row: Record) -> Record:
    await sessions.close(id_)
    return {}


async def _aggregate_metrics(_sessions: HostedSessions, _id: str, row: Record) -> Record:
    return aggregate(row)


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
    # Below 2^31, as both are parts of the number of a repeated call.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**31:
        raise UnreadableRecordError(f"{name} is not an integer of 0 or more")
    return value


COOKIE = "genrm_session"


def build_environment_app(sessions: HostedSessions, gate: AccessLimits) -> Router:
    """Return the ASGI application of an environment."""

    def answering(handle: Handler) -> Answer:
        async def answer(request: Request, body: bytes) -> Response:
            # The cookie is all that continues a session, so nobody may guess it.
            id_ = request.cookies.get(COOKIE) or secrets.token_urlsafe(24)
            row = parse_body(body) if body.strip() else {}
            response = response_of(JsonReply(await handle(sessions, id_, row)))
            response.set_cookie(COOKIE, id_, httponly=True, samesite="lax")
            return response

        return answer

    async def tasks(*_: object) -> Response:
        lines = []
        for name in sessions.scenarios:
            # A row of NeMo Gym's input, with the instructions that the policy gets.
            said = [{"role": "system", "content": text} for text in sessions.instructions(name)]
            place = {"scenario_id": name, "variant": 0, "seed": 0}
            lines.append(render_record({"responses_create_params": {"input": said}, **place}))
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
            AsyncExitStack() as opened,
        ):

            async def ask(conversation: tuple[Turn, ...]) -> str:
                return spoken_words(CLIENT, await answer(CLIENT, conversation, 1))

            sessions = HostedSessions(
                environment,
                scenarios,
                ask,
                max_sessions,
                settings.keep,
                client_record(environment, client),
                redactor_of(run.settings.judge.redact_pattern),
                recorder,
                session_judge,
            )
            if recorder is not None:
                await recorder.complete_left()
                opened.push_async_callback(recorder.close)
            app = build_environment_app(sessions, AccessLimits(settings, token))
            await run_server(app, listening, settings.read_timeout, on_ready)
