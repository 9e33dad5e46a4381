"""Routes for whoever operates the server."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from genrm_cli.serve.http.replies import response_of
from genrm_cli.serve.service import RewardService
from genrm_cli.serve.shapes.call import Reply


def operation_routes(service: RewardService) -> list[Route]:
    """Return the routes."""

    async def healthz(request: Request) -> Response:
        del request
        return response_of(Reply({"status": "ok", "open": service.open_groups, "waiting": service.waiting}))

    return [Route("/healthz", healthz, methods=["GET"])]
