"""Run the self-test of one trainer, against a server that runs or one of our own."""

import asyncio
import signal
import uuid
from collections.abc import Mapping
from typing import Any

import httpx

from genrm_cli.errors import GenrmError
from genrm_cli.judging.open_judges import OnEvent
from genrm_cli.serve.run import serve
from genrm_cli.serve.self_test.probe import REPLY_LIMIT_S, OnCheck, Probe
from genrm_cli.serve.self_test.trainers import TRAINERS
from genrm_cli.settings import Settings, changed


async def probe_server(trainer: str, url: str, token: str | None, on_check: OnCheck) -> None:
    """Send a cohort to a server as a trainer would.

    Args:
        trainer: one of `TRAINERS`.
        url: of the server.
        token: that it wants, if any.
        on_check: called with each claim that holds.

    Raises:
        UsageError: nobody answers, or the token is refused.
        JudgeError: the server has no rewards.
        GenrmError: a reply is not what the trainer needs.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    timeout = httpx.Timeout(30.0, read=REPLY_LIMIT_S)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, trust_env=False) as client:
        probe = Probe(client, f"self-test-{uuid.uuid4().hex[:12]}", on_check)
        if token is not None:
            await probe.check_token()
        try:
            await TRAINERS[trainer](probe)
        except (LookupError, TypeError, AttributeError) as error:  # a reply of another form
            raise GenrmError(f"expected a reply as {trainer} reads it; it lacks {error}") from error


async def probe_own_server(
    trainer: str,
    settings: Settings,
    api_keys: Mapping[str, str],
    token: str | None,
    on_event: OnEvent,
    on_check: OnCheck,
) -> None:
    """Start a server with these settings on a free port, and test it; nothing is kept.

    Raises:
        GenrmError: as for `probe_server` and `serve`.
    """
    settings = changed(
        settings, listen="127.0.0.1:0", tls_cert=None, tls_key=None, record=None, use_journal=False, drain=0.0
    )
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve(settings, api_keys, token, on_event, ready.set_result))
    either: set[asyncio.Future[Any]] = {serving, ready}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    try:
        if ready.done():
            await probe_server(trainer, ready.result(), token, on_check)
    finally:
        if not serving.done():
            signal.raise_signal(signal.SIGTERM)  # the server ends as it always does
        await serving
