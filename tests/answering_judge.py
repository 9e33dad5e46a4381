"""A judge without a server."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from genrm_cli.judging.requests import JudgeRequest, Prompt
from genrm_cli.verdicts import Failure, Judgment, Outcome


class AnsweringJudge:
    """Answers as a function says, and keeps what it was asked."""

    stopped_by: str | None = None

    def __init__(self, answer: Callable[[JudgeRequest], Judgment | Failure]) -> None:
        self.asked: list[JudgeRequest] = []
        self._answer = answer

    def recall(self, requests: Sequence[JudgeRequest]) -> list[Outcome | None]:
        """Know nothing."""
        return [None] * len(requests)

    def prepare(self, prompt: Prompt, judge_idx: int) -> JudgeRequest:
        """Keep the repeat."""
        return JudgeRequest(prompt, repeat=judge_idx)

    async def admit(self, lane: int | None = None, since_s: float = math.inf) -> Any:
        """Admit every request."""
        return object()

    async def ask(self, request: JudgeRequest, slot: object) -> Outcome:
        """Answer."""
        self.asked.append(request)
        return Outcome(self._answer(request))
