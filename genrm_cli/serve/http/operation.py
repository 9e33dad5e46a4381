"""Routes for whoever operates the server."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from genrm_cli.serve.http.gate import Gate
from genrm_cli.serve.http.replies import response_of
from genrm_cli.serve.prometheus import ServiceCollector
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.service import RewardService
from genrm_cli.serve.shapes.call import Reply

_LOOK_LIMIT_S = 2.0


def operation_routes(service: RewardService, scorer: ServedScorer, gate: Gate) -> list[Route]:
    """Return the routes; health and readiness need no token."""

    async def healthz(request: Request) -> Response:
        del request
        return response_of(Reply({"status": "ok", "open": service.open_groups, "waiting": service.waiting}))

    async def readyz(request: Request) -> Response:
        del request
        if service.is_draining:
            return response_of(Reply({"status": "draining"}, 503))
        if not await scorer.is_ready(_LOOK_LIMIT_S):
            return response_of(Reply({"status": "judge down"}, 503))
        return response_of(Reply({"status": "ready"}))

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        metrics_route(ServiceCollector(service, scorer), gate),
    ]


def metrics_route(collector: Collector, gate: Gate) -> Route:
    """Return the route of Prometheus: what the collector yields, and the process's own figures."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)

    async def metrics(request: Request) -> Response:
        if (refusal := gate.refusal(request)) is not None:
            return refusal
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Route("/metrics", metrics, methods=["GET"])
