"""Calls of a judge's client."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from genrm_cli.judging.client import CallError, JudgeClient
from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import FailureKind

KEY = "sk-local-0123456789abcdef"
BODY = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "Say ok."}]})
TIMEOUT_S = 10.0


def open_client(base_url: str, http_client: str = "auto", **changes: Any) -> JudgeClient:
    """Make a client of a URL."""
    fields = {"api_key": None, "connect_timeout_s": 2, "max_connections": 4} | changes
    return JudgeClient(base_url, http_client=http_client, **fields)


def use(client: JudgeClient, act: Callable[[JudgeClient], Any]) -> Any:
    """Open a client, use it and close it."""

    async def run() -> Any:
        async with client:
            return await act(client)

    return asyncio.run(run())


def complete(client: JudgeClient, timeout_s: float = TIMEOUT_S) -> Reply:
    """Make one call."""
    reply: Reply = use(client, lambda client: client.complete(BODY, timeout_s))
    return reply


def failed_call(client: JudgeClient, timeout_s: float = TIMEOUT_S) -> CallError:
    """Make one call that must fail."""
    with pytest.raises(CallError) as caught:
        complete(client, timeout_s)
    return caught.value


def check_passing(error: CallError, kind: FailureKind, words: str = "") -> None:
    """Check that a failure may pass, is of a kind, and says something."""
    assert error.failure.kind == kind
    assert error.may_pass is True
    assert error.failure.detail
    assert words in error.failure.detail
