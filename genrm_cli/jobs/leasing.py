"""Work under a claim: taken before, renewed meanwhile, given up in the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from genrm_cli.errors import StorageError
from genrm_cli.jobs.context import RunContext, first_error_of, in_thread
from genrm_cli.storage.leases import HeldLease, Lease, LeaseLostError, Leases


@contextlib.asynccontextmanager
async def claimed(output_uri: str, claims: Leases, run: RunContext) -> AsyncIterator[Lease | HeldLease]:
    """Hold the claim on an output while something is done, or tell who has it.

    Raises:
        ClaimLostError: another run has taken it over meanwhile, which ends what is done.
        StorageError: claims cannot be written there.
    """
    taken: list[Lease] = []  # known here even if the run is interrupted while the claim is taken

    def take() -> Lease | HeldLease:
        if not claims.are_certain(output_uri):
            run.on_event("claims_uncertain", {"output": output_uri})
        claim = claims.take(output_uri)
        if isinstance(claim, Lease):
            taken.append(claim)
        return claim

    try:
        claim = await in_thread(take)
        if isinstance(claim, HeldLease):
            yield claim
            return
        async with _renewed(claim, claims.expiry_s):
            yield claim
    finally:
        for claim in taken:
            try:
                await in_thread(claim.release)
            except StorageError as error:  # what happened counts, not whether the claim can be given up
                run.on_event("claim_left", {"claim": claim.uri, "detail": str(error)})


@contextlib.asynccontextmanager
async def _renewed(claim: Lease, expiry_s: float) -> AsyncIterator[None]:
    async def renew() -> None:
        while True:
            await asyncio.sleep(expiry_s / 3)
            try:
                await in_thread(claim.renew)  # waited for: one that ends late would put back what was given up
            except LeaseLostError:
                raise
            except StorageError:
                continue  # it is tried again before it expires; what is lost is found out in the end

    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renew())
            yield
            renewing.cancel()
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None
