"""Leases on outputs, so that only one of several runs, on any machine, works on an output.

The lease on `x.scored.jsonl` is an object `x.lease-N`, created only if it does not exist; the
highest N counts. Its owner renews it while working and removes it at the end. A run takes over a
lease that was not renewed within its expiry, or whose owner was a process of this machine that no
longer exists, by creating N + 1: if several runs try, one succeeds. This relies only on conditional
creation, which S3 and most compatible stores support, and on ages by the clock of the store. Where
a store ignores the condition, the first owner finds another content when it renews or writes."""

import json
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from operator import itemgetter
from pathlib import Path

from genrm_cli.errors import StorageError
from genrm_cli.storage.contract import Found
from genrm_cli.storage.location import stem_of
from genrm_cli.storage.store import Store

_MARK = ".lease-"
# Each try that fails means that another run took or released a lease in that moment.
_TRIES = 5


class LeaseLostError(StorageError):
    """Another run took over the lease because this one did not renew it in time, or the lease was
    removed.
    """


@dataclass(frozen=True, slots=True)
class OtherLease:
    """A lease of another run, which expires after `expiry_s` without renewal; `since` is by the
    clock of its owner.
    """

    owner: str
    since: str
    expiry_s: float

    def __str__(self) -> str:
        expiry = f"its lease expires {self.expiry_s:g} s after the last renewal"
        return f"{self.owner} has been working on it since {self.since}; {expiry}"


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease held by this run. All methods block on storage."""

    stem: str
    number: int
    content: bytes
    store: Store

    @property
    def uri(self) -> str:
        """Where the lease is stored."""
        return f"{self.stem}{_MARK}{self.number}"

    def verify(self) -> None:
        """Raise `LeaseLostError` if another run took over the lease, or the lease was removed."""
        highest = max((number for number, _ in _numbered(self.stem, self.store)), default=0)
        content = self.store.at(self.uri).read()
        if highest > self.number or content not in (None, self.content):
            raise LeaseLostError(
                f"{self.uri}: another run took over this lease; its results are kept instead of "
                "those of this run."
            )
        if content is None:
            raise LeaseLostError(
                f"{self.uri}: this lease was removed: another run took it over and finished, or "
                "someone deleted it or its folder. This run wrote nothing. Run again."
            )

    def renew(self) -> None:
        """Extend the lease by its expiry, or raise `LeaseLostError`."""
        self.verify()
        self.store.at(self.uri).replace(self.content)

    def release(self) -> None:
        """Remove the lease, unless another run took it over."""
        if self.store.at(self.uri).read() == self.content:
            self.store.at(self.uri).remove()


class Leases:
    """Take leases on behalf of one run."""

    def __init__(self, store: Store, expiry_s: float) -> None:
        self.expiry_s = expiry_s
        self._store = store

    def take(self, output_uri: str) -> Lease | OtherLease:
        """Take the lease on an output, or return the lease that another run holds."""
        stem = stem_of(output_uri)
        for _ in range(_TRIES):
            numbered = _numbered(stem, self._store)
            if numbered and (held := self._held(numbered[-1][1])) is not None:
                return held
            number = numbered[-1][0] + 1 if numbered else 1
            lease = Lease(stem, number, self._content(), self._store)
            if self._store.at(lease.uri).create(lease.content) and self._settle(lease, numbered):
                return lease
        return OtherLease("another run", "a moment ago", self.expiry_s)

    def _held(self, found: Found) -> OtherLease | None:
        """Return a stored lease; None if it has expired or its owner is gone."""
        content = self._store.at(found.identity.uri).read()
        if content is None:
            return None
        unknown = OtherLease("an unknown process", "an unknown time", self.expiry_s)
        held, is_gone = _parse_lease(content) or (unknown, False)
        return None if is_gone or found.age_s > held.expiry_s else held

    def _content(self) -> bytes:
        lease = {
            "id": uuid.uuid4().hex,
            "host": _host(),
            "pid": os.getpid(),
            "started": _started(os.getpid()),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "expiry_s": self.expiry_s,
        }
        return json.dumps(lease).encode()

    def _settle(self, lease: Lease, before: list[tuple[int, Found]]) -> bool:
        """Verify a new lease and remove earlier ones, so that a returning owner does not find its
        own lease.
        """
        known = {found.identity for _, found in before}
        try:
            # A lease created during a take-over may be missing from the first listing.
            for number, found in _numbered(lease.stem, self._store):
                is_known = number == lease.number or found.identity in known
                if number > lease.number or not is_known:
                    lease.release()
                    return False
            for _, found in before:
                # Deleting may be forbidden, but only the highest number counts.
                with suppress(StorageError):
                    self._store.at(found.identity.uri).remove()
        except StorageError:
            with suppress(StorageError):  # nothing would renew or remove it
                lease.release()
            raise
        return True


def _parse_lease(content: bytes) -> tuple[OtherLease, bool] | None:
    """Return a stored lease and whether its owner is gone; None if the content is not a lease."""
    try:
        lease = json.loads(content)
        host = str(lease["host"])
        pid = int(lease["pid"])
        started = lease["started"]
        since = str(lease["since"])
        expiry_s = float(lease["expiry_s"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not isfinite(expiry_s):  # it would never expire
        return None
    is_gone = host == _host() and _started(pid) != started
    return OtherLease(f"process {pid} on {host.partition(' ')[0]}", since, expiry_s), is_gone


def _numbered(stem: str, store: Store) -> list[tuple[int, Found]]:
    listed = store.at(stem + _MARK).iter_named()
    found = ((entry.identity.uri.rpartition(_MARK)[2], entry) for entry in listed)
    return sorted(
        ((int(number), entry) for number, entry in found if number.isdecimal()), key=itemgetter(0)
    )


@cache
def _host() -> str:
    """Identify the machine, its boot and the container: process ids have no meaning outside
    them.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # Not a path: a name in brackets.
        container = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        boot = container = ""
    return f"{socket.gethostname()} {boot} {container}"


def _started(pid: int) -> str | None:
    """Return the kernel's start time of a process of this machine; None if it does not run, "" if
    it is unknown.
    """
    try:
        # The name in parentheses may hold spaces; the start is the 22nd field, the 20th after it.
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
        return None if fields[0] in "ZX" else fields[19]  # a zombie
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else ""
    except OSError:
        return ""
