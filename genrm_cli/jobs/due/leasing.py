"""Work under a lease: take it, renew it meanwhile, release it in the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from genrm_cli.errors import StorageError
from genrm_cli.groups.tasks import first_error_of, in_thread
from genrm_cli.jobs.context import RunContext
from genrm_cli.storage.leases import HeldLease, Lease, LeaseLostError, Leases


@contextlib.asynccontextmanager
async def leased(output_uri: str, leases: Leases, run: RunContext) -> AsyncIterator[Lease | HeldLease]:
    """Hold the lease on an output while something is done, or yield the lease of another run.

    Raises:
        ClaimLostError: another run took it over, which ends the work.
        StorageError: claims cannot be written there.
    """
    taken: list[Lease] = []  # known even if the run is interrupted while the lease is taken

    def take() -> Lease | HeldLease:
        if not leases.are_certain(output_uri):
            run.on_event("claims_uncertain", {"output": output_uri})
        lease = leases.take(output_uri)
        if isinstance(lease, Lease):
            taken.append(lease)
        return lease

    try:
        lease = await in_thread(take)
        if isinstance(lease, HeldLease):
            yield lease
            return
        async with _renewed(lease, leases.expiry_s):
            yield lease
    finally:
        for lease in taken:
            try:
                await in_thread(lease.release)
            except StorageError as error:  # the outcome of the work matters more than the release
                run.on_event("claim_left", {"lease": lease.uri, "detail": str(error)})


@contextlib.asynccontextmanager
async def _renewed(lease: Lease, expiry_s: float) -> AsyncIterator[None]:
    async def renew() -> None:
        while True:
            await asyncio.sleep(expiry_s / 3)
            try:
                await in_thread(lease.renew)  # waited for: a late one would restore a released lease
            except LeaseLostError:
                raise
            except StorageError:
                continue  # retried before it expires; a lost lease is noticed in the end

    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renew())
            yield
            renewing.cancel()
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None
