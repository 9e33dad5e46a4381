"""The HTTP application of a reward server."""

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from genrm_cli.http_server.http_replies import JsonReply
from genrm_cli.http_server.router import (
    AccessLimits,
    Answer,
    build_router,
)
from genrm_cli.products.serve.cohorts.rounds import RoundsService
from genrm_cli.products.serve.prometheus import ServiceCollector
from genrm_cli.products.serve.service import RewardService
from genrm_cli.products.serve.shapes import nemo_gym, own, samples
from genrm_cli.products.serve.shapes.call import Call, Handler
from genrm_cli.products.serve.waiting import Waits
from genrm_cli.settings.file_settings import ServeSettings

_READY_TIMEOUT_S = 2.0  # a probe of Kubernetes or a balancer waits a few seconds


def build_app(service: RewardService, settings: ServeSettings, token: str | None = None) -> Router:
    """Return the ASGI application for a service."""
    rounds = RoundsService(service, settings)
    waits = Waits()
    registry = CollectorRegistry()
    registry.register(ServiceCollector(service))
    ProcessCollector(registry=registry)

    def answering(handle: Handler) -> Answer:
        async def answer(request: Request, body: bytes) -> Response:
            path = request.scope["raw_path"].decode("latin-1")
            query = request.query_params
            # Another server than ours does not say whether a client has left.
            is_gone = request.scope.get("state", {}).get("is_gone", lambda: False)
            call = Call(body, path, query, rounds, settings, is_gone)
            del body  # the handler may wait for long
            return await waits.answer(request, lambda: handle(call))

        return answer

    async def metrics(request: Request, body: bytes) -> Response:
        del request, body
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def healthz() -> JsonReply:
        counts = {"open": service.open_groups, "waiting": service.waiting}
        return JsonReply({"status": "ok", **counts})

    async def readyz() -> JsonReply:
        status = "ready"
        if service.is_draining:
            status = "draining"
        elif not await service.scorer.open_judges.is_reachable(_READY_TIMEOUT_S):
            status = "judge down"
        return JsonReply({"status": status}, 200 if status == "ready" else 503)

    shown = (*own.ROUTES, *nemo_gym.ROUTES, *samples.ROUTES)
    routes = [(method, path, answering(handle)) for method, path, handle in shown]
    pages = [("/healthz", healthz), ("/readyz", readyz)]
    routes.append(("GET", "/metrics", metrics))
    return build_router(routes, pages, AccessLimits(settings, token))
