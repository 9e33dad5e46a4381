"""Route requests to the shapes, and turn their errors into replies."""

from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from genrm_cli.errors import GenrmError, InputError
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.serve.cohorts.cohort import DisagreementError
from genrm_cli.serve.http.gate import Gate, TooLargeError
from genrm_cli.serve.http.operation import operation_routes
from genrm_cli.serve.http.replies import error_response, response_of
from genrm_cli.serve.rounds_service import RoundsService
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.service import RETRY_AFTER_S, BusyError, RewardService
from genrm_cli.serve.shapes import SHAPES
from genrm_cli.serve.shapes.call import Call, NoRewardError, Route
from genrm_cli.settings.serve_settings import ServeSettings
from genrm_cli.storage.encoding.records import BadLineError


def build_app(
    service: RewardService, scorer: ServedScorer, settings: ServeSettings, token: str | None = None
) -> Router:
    """Return the ASGI application: the routes of all shapes, and those for whoever operates the server.

    It is a bare router: the layers of a whole Starlette application would take memory for every request that waits.
    """
    gate, rounds = Gate(settings.max_body, token), RoundsService(service, settings.keep)
    routes = [
        HttpRoute(route.path, _Endpoint(route, service, rounds, settings, gate), methods=[route.method])
        for shape in SHAPES.values()
        for route in shape.routes
    ]
    return Router([*routes, *operation_routes(service, scorer, gate)])


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """One endpoint of a shape."""

    route: Route
    service: RewardService
    rounds: RoundsService
    settings: ServeSettings
    gate: Gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = self.gate.refusal(request) or await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        call = Call(
            b"",
            request.path_params,
            request.query_params,
            self.service,
            self.rounds,
            self.settings,
            request.is_disconnected,
        )
        try:
            call.body = await self.gate.read(request)
        except TooLargeError:
            return self.gate.too_large()
        except ClientDisconnect:
            return Response(status_code=400)
        try:
            return response_of(await self.route.handle(call))
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
