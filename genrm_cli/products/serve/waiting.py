"""Keep the connection of a request alive until its reply, which may take minutes.

Networks forget connections on which nothing moves, and a connection costs a descriptor. So no reply
depends on one that stays open:

- a client that says `?wait=SECONDS` is told 202 after them, and asks again: the server knows its
  members, connected or not. Where descriptors are few, the one that has waited longest is told
  at once, so that all members get a turn;
- any other gets a blank before its JSON from time to time.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from genrm_cli.http_server.http_replies import JsonReply
from genrm_cli.http_server.router import RETRY_AFTER_S, response_of
from genrm_cli.judging.pacing.descriptors import max_connections
from genrm_cli.rollouts.rollout import UnreadableRecordError

_BLANK_EVERY_S = 15.0  # the shortest common limits are 30 s and 60 s
_LONGEST_WAIT_S = 60.0
_JOINING_S = 0.05  # until the server knows the member


class Waits:
    """The requests of clients that ask again."""

    def __init__(self) -> None:
        self._turns: dict[asyncio.Future[None], None] = {}  # the oldest first

    async def answer(
        self, request: Request, handle: Callable[[], Awaitable[JsonReply]]
    ) -> Response:
        """Return the reply, or one that says that the client is to ask again.

        Raises:
            UnreadableRecordError: `?wait` is not a number of seconds.
        """
        wait_s = _wait_in(request.query_params)
        task = asyncio.ensure_future(handle())
        if wait_s is None:
            await asyncio.wait({task}, timeout=_BLANK_EVERY_S)
            return response_of(task.result()) if task.done() else _SlowResponse(task)
        await asyncio.wait({task}, timeout=_JOINING_S)
        is_crowded = not task.done() and await self._wait(task, wait_s)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            return response_of(task.result())
        response = response_of(JsonReply({"status": "waiting"}, 202))
        response.headers["Retry-After"] = str(RETRY_AFTER_S if is_crowded else 0)
        return response

    async def _wait(self, task: "asyncio.Future[JsonReply]", wait_s: float) -> bool:
        """Wait for a task; return whether others needed the connection."""
        turn = asyncio.get_running_loop().create_future()
        self._turns[turn] = None
        # The server accepts half of all connections; half of these are for those that come.
        if len(self._turns) > max_connections() // 4:
            oldest = next(iter(self._turns))
            del self._turns[oldest]
            oldest.set_result(None)
        try:
            await asyncio.wait({task, turn}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._turns.pop(turn, None)
        return turn.done()


def _wait_in(query: Mapping[str, str]) -> float | None:
    given = query.get("wait")
    if given is None:
        return None
    try:
        wait_s = float(given)
    except ValueError:
        wait_s = math.nan
    if not wait_s >= 0:
        raise UnreadableRecordError(f"?wait is {given!r}, expected a number of seconds")
    return min(wait_s, _LONGEST_WAIT_S)


class _SlowResponse(Response):
    """JSON after blanks. An error that comes after them breaks the connection, so that the client
    asks again and is told.
    """

    def __init__(self, task: "asyncio.Future[JsonReply]") -> None:
        super().__init__()
        self.task = task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send blanks until the reply is known."""
        del receive
        # nginx would keep the blanks until the reply is whole.
        headers = [(b"content-type", b"application/json"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while not self.task.done():
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.wait({self.task}, timeout=_BLANK_EVERY_S)
        if self.task.exception() is None and self.task.result().status == 200:
            await send({"type": "http.response.body", "body": response_of(self.task.result()).body})
        else:
            await scope["state"]["close"]()
