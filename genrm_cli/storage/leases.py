"""Leases on outputs, so that only one of several runs, on any machine, works on an output.

The lease on `x.scored.jsonl` is an object `x.lease-N`, created only if it does not exist; the
highest N counts. Its owner renews it while working and removes it at the end. A run takes over a
lease that was not renewed within its expiry, or whose owner was a process of this machine that no
longer exists, by creating N + 1: if several runs try, one succeeds. This relies only on conditional
creation, which S3 and most compatible stores support, and on ages by the clock of the store. Where
a store ignores the condition, the first owner finds another content when it renews or writes."""

import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from pathlib import Path

import msgspec

from genrm_cli.errors import StorageError
from genrm_cli.storage.contract import Found
from genrm_cli.storage.location import stem_of
from genrm_cli.storage.store import Store
from genrm_cli.typed_json import parse_json

_MARK = ".lease-"
EXPIRY_S = 300.0  # long against a pause of the machine or of the store
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


class _LeaseContent(msgspec.Struct, frozen=True):
    """What a lease says of its owner; `id` tells two leases of one process apart."""

    id: str
    host: str
    pid: int
    started: str | None
    since: str
    expiry_s: float


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


def take_lease(output_uri: str, store: Store, expiry_s: float = EXPIRY_S) -> Lease | OtherLease:
    """Take the lease on an output, or return the lease that another run holds."""
    stem = stem_of(output_uri)
    content = _LeaseContent(
        id=uuid.uuid4().hex,
        host=_host(),
        pid=os.getpid(),
        started=_started(os.getpid()),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        expiry_s=expiry_s,
    )
    for _ in range(_TRIES):
        numbered = _numbered(stem, store)
        number = 1
        if numbered:
            latest, found = numbered[-1]
            held = _held(found, store, expiry_s)
            if held is not None:
                return held
            number = latest + 1
        lease = Lease(stem, number, msgspec.json.encode(content), store)
        if store.at(lease.uri).create(lease.content) and _settle(lease, numbered):
            return lease
    return OtherLease("another run", "a moment ago", expiry_s)


def _held(found: Found, store: Store, expiry_s: float) -> OtherLease | None:
    """Return a stored lease; None if it has expired or its owner is gone."""
    content = store.at(found.identity.uri).read()
    if content is None:
        return None
    held = OtherLease("an unknown process", "an unknown time", expiry_s)
    with suppress(ValueError):  # not a lease: it expires like ours
        lease = parse_json(_LeaseContent, content)
        if lease.host == _host() and _started(lease.pid) != lease.started:
            return None
        owner = f"process {lease.pid} on {lease.host.partition(' ')[0]}"
        held = OtherLease(owner, lease.since, lease.expiry_s)
    return None if found.age_s > held.expiry_s else held


def _settle(lease: Lease, before: list[tuple[int, Found]]) -> bool:
    """Verify a new lease and remove earlier ones, so that a returning owner does not find its
    own lease.
    """
    known = {found.identity for _, found in before}
    try:
        # A lease created during a take-over may be missing from the first listing.
        for number, found in _numbered(lease.stem, lease.store):
            is_known = number == lease.number or found.identity in known
            if number > lease.number or not is_known:
                lease.release()
                return False
        for _, found in before:
            # Deleting may be forbidden, but only the highest number counts.
            with suppress(StorageError):
                lease.store.at(found.identity.uri).remove()
    except StorageError:
        with suppress(StorageError):  # nothing would renew or remove it
            lease.release()
        raise
    return True


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
