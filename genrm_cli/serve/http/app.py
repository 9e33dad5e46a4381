"""Route requests to the shapes, and turn their errors into replies."""

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

from genrm_cli.errors import GenrmError, InputError
from genrm_cli.rollouts.record import UnreadableRecordError
from genrm_cli.serve.cohorts.cohort import DisagreementError
from genrm_cli.serve.http.operation import operation_routes
from genrm_cli.serve.http.replies import error_response, response_of
from genrm_cli.serve.rounds_service import RoundsService
from genrm_cli.serve.service import RETRY_AFTER_S, BusyError, RewardService
from genrm_cli.serve.shapes import SHAPES
from genrm_cli.serve.shapes.call import Call, NoRewardError, Route
from genrm_cli.settings.serve_settings import ServeSettings
from genrm_cli.storage.formats.records import BadLineError

Answer = Callable[[Request], Awaitable[Response]]


def build_app(service: RewardService, settings: ServeSettings) -> Starlette:
    """Return the ASGI application."""
    rounds = RoundsService(service, settings.keep)
    routes = [
        HttpRoute(route.path, partial(_answer, route, service, rounds, settings), methods=[route.method])
        for shape in SHAPES.values()
        for route in shape.routes
    ]
    return Starlette(routes=[*routes, *operation_routes(service)])


async def _answer(
    route: Route, service: RewardService, rounds: RoundsService, settings: ServeSettings, request: Request
) -> Response:
    try:
        body = await request.body()
    except ClientDisconnect:
        return Response(status_code=400)
    call = Call(body, request.path_params, request.query_params, service, rounds, settings, request.is_disconnected)
    try:
        return response_of(await route.handle(call))
    except (UnreadableRecordError, BadLineError, InputError) as error:
        return error_response(422, "unreadable", str(error))
    except DisagreementError as error:
        return error_response(409, "disagreement", str(error))
    except BusyError as error:
        return error_response(503 if error.draining else 429, "busy", str(error), error.retry_after_s)
    except NoRewardError as error:
        return error_response(503, "no_reward", str(error), RETRY_AFTER_S)
    except GenrmError as error:
        return error_response(503, "unavailable", str(error), RETRY_AFTER_S)
