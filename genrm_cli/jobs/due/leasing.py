"""Work under leases: take them, renew them meanwhile, release them in the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from genrm_cli.errors import StorageError
from genrm_cli.groups.tasks import first_error_of, in_thread
from genrm_cli.jobs.context import RunContext
from genrm_cli.storage.leases import HeldLease, Lease, LeaseLostError, Leases

_AT_ONCE = 32

Given = TypeVar("Given")
Result = TypeVar("Result")


@contextlib.asynccontextmanager
async def leased(
    output_uris: Sequence[str], leases: Leases, run: RunContext
) -> AsyncIterator[dict[str, Lease | HeldLease]]:
    """Hold the leases on outputs while something is done; yield them, or those of other runs, by output.

    Raises:
        LeaseLostError: another run took one over, which ends the work.
        StorageError: leases cannot be written there.
    """
    taken: list[Lease] = []  # known even if the run is interrupted while leases are taken

    def take(output_uri: str) -> Lease | HeldLease:
        if not leases.are_certain(output_uri):
            run.on_event("claims_uncertain", {"output": output_uri})
        lease = leases.take(output_uri)
        if isinstance(lease, Lease):
            taken.append(lease)
        return lease

    def release(lease: Lease) -> None:
        try:
            lease.release()
        except StorageError as error:  # the outcome of the work matters more than the release
            run.on_event("claim_left", {"lease": lease.uri, "detail": str(error)})

    try:
        found = await in_thread(lambda: _each(take, output_uris))
        async with _renewed(taken, leases.expiry_s):
            yield dict(zip(output_uris, found, strict=True))
    finally:
        await in_thread(lambda: _each(release, taken))


@contextlib.asynccontextmanager
async def _renewed(taken: Sequence[Lease], expiry_s: float) -> AsyncIterator[None]:
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
            await in_thread(lambda: _each(renew, taken))  # waited for: a late one would restore a released lease

    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renew_all())
            yield
            renewing.cancel()
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None


def _each(work: Callable[[Given], Result], things: Iterable[Given]) -> list[Result]:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(work, things))
