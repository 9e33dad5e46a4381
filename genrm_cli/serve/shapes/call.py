"""What a shape is given and what it returns; no HTTP library."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.serve.rounds_service import RoundsService
from genrm_cli.serve.service import RewardService
from genrm_cli.settings.serve_settings import ServeSettings

Json = dict[str, Any]


@dataclass(slots=True)
class Call:
    """One request.

    Attributes:
        body: as it was sent; `take_body` empties it, as thousands of requests may wait for long.
        parameters: of the path.
        query: parameters behind the path.
        service: judges groups and cohorts.
        rounds: of trainers that do not name their groups anew in each step.
        settings: of the server.
        is_gone: whether the client has left.
    """

    body: bytes
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    service: RewardService
    rounds: RoundsService
    settings: ServeSettings
    is_gone: Callable[[], Awaitable[bool]]

    def take_body(self) -> bytes:
        """Return the body, and forget it."""
        body, self.body = self.body, b""
        return body


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent back.

    Attributes:
        content: JSON.
        status: of HTTP.
        headers: further ones.
    """

    content: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class NoRewardError(Exception):
    """A rollout has no reward, and the shape requires a number."""


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint of a shape."""

    method: str
    path: str
    handle: Handler


@dataclass(frozen=True, slots=True)
class Shape:
    """The wire shape of one trainer, or one of our own."""

    name: str
    routes: Sequence[Route]
