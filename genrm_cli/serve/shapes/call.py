"""What a shape is given and what it returns; no HTTP library."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from genrm_cli.groups.results import RolloutScore
from genrm_cli.serve.answers import GroupAnswer
from genrm_cli.serve.cohort import RefusedError
from genrm_cli.serve.rounds import RoundsService
from genrm_cli.serve.service import RewardService
from genrm_cli.settings.serve_settings import ServeSettings


@dataclass(slots=True)
class Call:
    """One request.

    Attributes:
        body: as it was sent; `take_body` empties it, as thousands of requests may wait for long.
        rounds: of trainers that do not name their groups anew in each step.
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
    """What is sent back: JSON, and the status of HTTP."""

    content: Any
    status: int = 200


class NoRewardError(RefusedError):
    """A rollout has no reward, and the shape requires a number."""

    kind = "no_reward"


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint of a shape."""

    method: str
    path: str
    handle: Handler


def number_of(score: RolloutScore, answer: GroupAnswer, call: Call) -> float:
    """Return the reward of a rollout, or what the user sends instead; each of these is counted.

    Raises:
        NoRewardError: there is neither.
    """
    if score.reward is not None:
        return score.reward
    if call.settings.on_failure is None:
        raise NoRewardError(f"group {answer.name!r}: no reward for {answer.ids[score.index]!r}: {score.reason_text}")
    call.service.counts.defaults_sent += 1
    return call.settings.on_failure
