"""The HTTP application of a reward server: the routes of all shapes, health, readiness and metrics."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from genrm_cli.serve.http.endpoints import Answer, Gate, build_router, response_of
from genrm_cli.serve.prometheus import ServiceCollector
from genrm_cli.serve.rounds import RoundsService
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.service import RewardService
from genrm_cli.serve.shapes import SHAPES
from genrm_cli.serve.shapes.call import Call, Handler, Reply
from genrm_cli.settings.serve_settings import ServeSettings

_LOOK_LIMIT_S = 2.0


def build_app(
    service: RewardService, scorer: ServedScorer, settings: ServeSettings, token: str | None = None
) -> Router:
    """Return the ASGI application."""
    rounds = RoundsService(service, settings.keep)

    def answering(handle: Handler) -> Answer:
        async def answer(request: Request, body: bytes) -> Response:
            parameters, query = request.path_params, request.query_params
            call = Call(body, parameters, query, service, rounds, settings, request.is_disconnected)
            del body  # the handler may wait for long
            return response_of(await handle(call))

        return answer

    async def healthz() -> Reply:
        return Reply({"status": "ok", "open": service.open_groups, "waiting": service.waiting})

    async def readyz() -> Reply:
        if service.is_draining:
            return Reply({"status": "draining"}, 503)
        if not await scorer.is_ready(_LOOK_LIMIT_S):
            return Reply({"status": "judge down"}, 503)
        return Reply({"status": "ready"})

    routes = [(route.method, route.path, answering(route.handle)) for shape in SHAPES for route in shape]
    return build_router(
        routes,
        [("/healthz", healthz), ("/readyz", readyz)],
        ServiceCollector(service, scorer),
        Gate(settings.max_body, token),
    )
