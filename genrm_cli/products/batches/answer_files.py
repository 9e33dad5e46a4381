"""Answer files of requests through a batch API: submit them, wait, and write the replies."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from genrm_cli.errors import (
    JudgeError,
    PendingError,
    UsageError,
    naming,
)
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.leasing import leased
from genrm_cli.jobs.due.sources import find_files
from genrm_cli.jobs.offline.request_files import replies_of
from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.pacing.policy import CallPolicy
from genrm_cli.products.batches.batch_api import BatchApi
from genrm_cli.products.batches.file_batch import FileBatch

_CONNECTIONS = 4  # to the API; files are uploaded one after another
_FIRST_POLL_S = 0.5  # a small batch of a local server ends at once
_POLL_S = 30.0  # a batch takes hours, and each poll is a request
_BACKOFF = 1.3  # reaches _POLL_S after two minutes


async def answer_files(
    given: Sequence[str], run: RunContext, wait_s: float | None = None, *, cancel: bool = False
) -> list[str]:
    """Answer files of requests; return the URIs of the replies.

    Args:
        given: the files, or patterns.
        run: names the endpoint; `force` replaces replies.
        wait_s: how long to wait for the batches; None until they end.
        cancel: whether to cancel those in progress; their finished replies are written.

    Raises:
        PendingError: batches are still in progress.
        GenrmError: its subclasses say what went wrong. Batches that were submitted go on.
    """
    ends_at_s = time.monotonic() + (math.inf if wait_s is None else wait_s)
    uris = await run.in_thread(lambda: find_files(given, run))
    places = [replies_of(uri) for uri in uris]
    for uri, place in zip(uris, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(
                f"the replies to several files would be written to {place}; rename {uri}."
            )
        await run.in_thread(run.store.at(place).check_writable)
    async with cancelled_by_signals(), _open_api(run) as api, leased(places, run):
        files = [FileBatch(uri, api, run) for uri in uris]
        for file in files:
            await file.resume()
        if cancel:
            for file in files:
                await file.cancel()
        else:
            await _submit(files)
        await _wait(files, ends_at_s, submits=not cancel)
    return places


@asynccontextmanager
async def _open_api(run: RunContext) -> AsyncIterator[BatchApi]:
    """Connect to the batch API of the endpoint in the settings."""
    judge = run.settings.judge
    if len(judge.base_url) != 1:
        raise UsageError(naming("name the endpoint of the batch API, one, with $base_url."))
    [url] = judge.base_url
    limits = run.settings.limits
    key = next(iter(run.api_keys.values()), None)
    client = JudgeClient(url, key, limits.connect_timeout, _CONNECTIONS, judge.http_client)
    policy = CallPolicy(limits.call_timeout, limits.comparison_timeout, limits.retries)
    async with client:
        yield BatchApi(client, url, policy, limits.give_up_after)


async def _submit(files: Sequence[FileBatch]) -> None:
    """Submit each file that has no batch, one after another."""
    for file in files:
        if not file.is_done and not file.is_pending:
            await file.submit(is_alone=not any(each.is_pending for each in files))


async def _wait(files: Sequence[FileBatch], ends_at_s: float, *, submits: bool) -> None:
    """Poll the batches until all files are done. With `submits`, files that have no batch are
    submitted when another one has ended.

    Raises:
        PendingError: the time was up before all had ended.
        JudgeError: a batch ended without a reply; those of the other files are written.
    """
    poll_s = _FIRST_POLL_S
    while True:
        ended = [file for file in files if not file.is_done and await file.poll()]
        left = [file for file in files if not file.is_done]
        if not left:
            break
        if submits and (ended or not any(file.is_pending for file in left)):
            await _submit(left)
        left_s = ends_at_s - time.monotonic()
        if left_s <= 0:
            raise PendingError(
                f"{', '.join(file.uri for file in left)}: not answered yet; run the same command "
                "again to collect the replies."
            )
        await asyncio.sleep(min(poll_s, left_s))
        poll_s = min(_POLL_S, poll_s * _BACKOFF)
    if failures := [file.failure for file in files if file.failure is not None]:
        raise JudgeError(f"{'; '.join(failures)}. Run the same command again to submit again.")
