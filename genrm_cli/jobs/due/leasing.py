"""Hold leases on outputs while work is done.

A lease is renewed at a third of its expiry, so that two renewals may fail before another run may
take it. A renewal that fails is no error: whether the lease still holds is checked before outputs
appear, which is when it matters.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from genrm_cli.errors import StorageError
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.input_events import LeaseLeftEvent
from genrm_cli.storage.leases import Lease, LeaseLostError, Leases, OtherLease
from genrm_cli.tasks import first_error_of, in_thread

_AT_ONCE = 32  # requests to a store, which only wait for it

Given = TypeVar("Given")


class LeaseHeldError(StorageError):
    """Another run works on an output."""


@contextlib.asynccontextmanager
async def leased(output_uris: Sequence[str], run: RunContext) -> AsyncIterator[list[Lease]]:
    """Hold leases on outputs for the duration of the block, unless the settings switch leases off.

    Raises:
        LeaseHeldError: another run holds one of them.
    """
    if not run.settings.storage.leases:
        yield []
        return
    leases = Leases(run.store, run.settings.storage.lease_expiry)
    taken: list[Lease] = []  # known even if the run is interrupted while leases are taken

    def take(output_uri: str) -> None:
        lease = leases.take(output_uri)
        if isinstance(lease, OtherLease):
            raise LeaseHeldError(f"{output_uri}: {lease}; run again when it is done.")
        taken.append(lease)

    def release(lease: Lease) -> None:
        try:
            lease.release()
        except StorageError as error:  # the outcome of the work matters more than the release
            run.on_event(LeaseLeftEvent(lease.uri, str(error)))

    try:
        await in_thread(lambda: _each(take, output_uris), threads=run.threads)
        async with _renewed(taken, leases.expiry_s, run):
            yield taken
    finally:
        await in_thread(lambda: _each(release, taken), threads=run.threads)


@contextlib.asynccontextmanager
async def _renewed(taken: Sequence[Lease], expiry_s: float, run: RunContext) -> AsyncIterator[None]:
    def renew(lease: Lease) -> None:
        try:
            lease.renew()
        except LeaseLostError:
            raise
        except StorageError:
            pass  # retried before it expires; a lost lease is noticed in the end

    async def renew_all() -> None:
        while True:
            await asyncio.sleep(expiry_s / 3)
            # Wait for it: a late renewal would restore a released lease.
            await in_thread(lambda: _each(renew, taken), threads=run.threads)

    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renew_all())
            yield
            renewing.cancel()
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None


def _each(work: Callable[[Given], None], things: Iterable[Given]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(work, things))
