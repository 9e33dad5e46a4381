"""Hold leases while work is done, and detect the leases and manifests that killed runs left.

A lease is renewed at a third of its expiry, so that two renewals may fail before another run may
take it. A renewal that fails is no error: whether the lease still holds is checked before outputs
appear, which is when it matters.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from genrm_cli.errors import StorageError
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.input_events import LeaseLeftEvent
from genrm_cli.storage.leases import Lease, LeaseLostError, Leases, OtherLease, is_lease
from genrm_cli.storage.location import folder_of, stem_of
from genrm_cli.storage.outputs import MANIFEST_SUFFIX
from genrm_cli.storage.store import Store
from genrm_cli.tasks import first_error_of, in_thread

_AT_ONCE = 32  # requests to a store, which only wait for it

Given = TypeVar("Given")
Result = TypeVar("Result")


@contextlib.asynccontextmanager
async def leased(
    output_uris: Sequence[str], leases: Leases, run: RunContext
) -> AsyncIterator[dict[str, Lease | OtherLease]]:
    """Hold leases on outputs for the duration of the block; yield them, or those of other runs, by
    output.
    """
    taken: list[Lease] = []  # known even if the run is interrupted while leases are taken

    def take(output_uri: str) -> Lease | OtherLease:
        lease = leases.take(output_uri)
        if isinstance(lease, Lease):
            taken.append(lease)
        return lease

    def release(lease: Lease) -> None:
        try:
            lease.release()
        except StorageError as error:  # the outcome of the work matters more than the release
            run.on_event(LeaseLeftEvent(lease.uri, str(error)))

    try:
        found = await in_thread(lambda: _each(take, output_uris), threads=run.threads)
        async with _renewed(taken, leases.expiry_s, run):
            yield dict(zip(output_uris, found, strict=True))
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


def _each(work: Callable[[Given], Result], things: Iterable[Given]) -> list[Result]:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(work, things))


class Leftovers:
    """Finds outputs with leases or manifests next to them; lists a folder once, or only
    `one_output`. Thread-safe.
    """

    def __init__(self, store: Store, *, one_output: bool) -> None:
        self._store = store
        self._one_output = one_output
        self._stems: dict[str, set[str]] = {}
        self._locks: dict[str, Lock] = {}

    def are_beside(self, output_uri: str) -> bool:
        """Whether a killed run left files next to an output."""
        stem = stem_of(output_uri)
        start = f"{stem}." if self._one_output else f"{folder_of(output_uri).rstrip('/')}/"
        with self._locks.setdefault(start, Lock()):
            if start not in self._stems:
                self._stems[start] = self._list(start)
        return stem.rpartition("/")[2] in self._stems[start]

    def _list(self, start: str) -> set[str]:
        listed = self._store.at(start).iter_named(flat=True)
        names = (found.identity.uri.rpartition("/")[2] for found in listed)
        return {
            name.rpartition(".")[0]
            for name in names
            if name.endswith(MANIFEST_SUFFIX) or is_lease(name)
        }
