"""Hold leases on outputs while work is done.

A lease is renewed at a third of its expiry, so that two renewals may fail before another run may
take it. A renewal that fails is no error: whether the lease still holds is checked before outputs
appear, which is when it matters.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from genrm_cli.errors import StorageError
from genrm_cli.jobs.context import RunContext
from genrm_cli.storage.leases import EXPIRY_S, Lease, LeaseLostError, OtherLease, take_lease
from genrm_cli.tasks import first_error_of, in_thread


class LeaseHeldError(StorageError):
    """Another run works on an output."""


@contextlib.asynccontextmanager
async def leased(output_uris: Sequence[str], run: RunContext) -> AsyncIterator[list[Lease]]:
    """Hold leases on outputs for the duration of the block.

    Raises:
        LeaseHeldError: another run holds one of them.
    """
    taken: list[Lease] = []  # known even if the run is interrupted while leases are taken

    def take() -> None:
        for output_uri in output_uris:
            lease = take_lease(output_uri, run.store)
            if isinstance(lease, OtherLease):
                raise LeaseHeldError(f"{output_uri}: {lease}; run again when it is done.")
            taken.append(lease)

    def renew() -> None:
        for lease in taken:
            try:
                lease.renew()
            except LeaseLostError:
                raise
            except StorageError:
                pass  # retried before it expires; a lost lease is noticed in the end

    async def renew_repeatedly() -> None:
        while True:
            await asyncio.sleep(EXPIRY_S / 3)
            # Wait for it: a late renewal would restore a released lease.
            await in_thread(renew, threads=run.threads)

    def release() -> None:
        for lease in taken:
            # Without the right to delete, it stays until it expires: the work matters more.
            with contextlib.suppress(StorageError):
                lease.release()

    try:
        await in_thread(take, threads=run.threads)
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renew_repeatedly())
            yield taken
            renewing.cancel()
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None
    finally:
        await in_thread(release, threads=run.threads)
