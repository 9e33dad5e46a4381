"""Leases on outputs, so that only one of several runs, on any machine, works on an output.

The lease on `x.scored.jsonl` is an object `x.lease-N`, created only if it does not exist; the
highest N counts. Its owner renews it while working and removes it at the end. A run takes over a
lease that was not renewed within its expiry, or whose owner was a process of this machine that no
longer exists, by creating N + 1: if several runs try, one succeeds. This relies only on conditional
creation, which S3 and most compatible stores support, and on ages by the clock of the store. Where
a store ignores the condition, a run looks first, and of two that look at the same moment the first
owner finds another content when it renews or writes.
Without the right to list, a run sees `x.lease-1` only, and takes it over by removing it: of several
that try, the one that creates it last has it, and the others find its content."""

import hashlib
import math
import os
import socket
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import StorageError
from genrm_cli.storage.contract import Found, ListingDeniedError
from genrm_cli.storage.location import is_remote, split_bucket, stem_of
from genrm_cli.storage.store import Store
from genrm_cli.typed_json import parse_json

_MARK = ".lease-"
EXPIRY_S = 300.0  # long against a pause of the machine or of the store
# Each try that fails means that another run took or released a lease in that moment.
_TRIES = 5
# Whether a bucket honours conditions, as the first lease of this process in it has found.
_HONOURS: dict[str, bool] = {}
_SEEN_S = 10.0  # a lease that was there a moment ago; far below any expiry


class LeaseLostError(StorageError):
    """Another run took over the lease because this one did not renew it in time, or the lease was
    removed.
    """


class OtherLease(Struct, frozen=True):
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
    """The owner of a lease; `id` tells two leases of one process apart."""

    id: str
    host: str
    pid: int
    started: str | None
    since: str
    expiry_s: float


class Lease(Struct):
    """A lease held by this run. All methods block on storage."""

    stem: str
    number: int
    content: bytes
    store: Store
    beside: frozenset[str] | None = None
    """The files next to the lease when it was taken: URIs that begin with the stem and a dot; None
    without the right to list."""
    seen_s: float = -math.inf
    """When it was last verified, by the monotonic clock."""

    @property
    def uri(self) -> str:
        """Where the lease is stored."""
        return f"{self.stem}{_MARK}{self.number}"

    @property
    def _usual_etag(self) -> str:
        return hashlib.md5(self.content, usedforsecurity=False).hexdigest()

    def verify(self) -> None:
        """Raise `LeaseLostError` if another run took over the lease, or the lease was removed."""
        numbered, _ = _numbered(self.stem, self.store)
        highest = max((number for number, _ in numbered), default=0)
        if highest == self.number and numbered[-1][1].identity.etag == self._usual_etag:
            self.seen_s = time.monotonic()
            return  # this saves a request; where ETags are no digests, the content decides
        content = self.store.at(self.uri).look()
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
        place = self.store.at(self.uri)
        was_just_seen = time.monotonic() - self.seen_s < _SEEN_S  # which saves a request
        self.seen_s = -math.inf
        if was_just_seen or place.look() == self.content:
            place.remove()


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
    root = split_bucket(stem)[0] if is_remote(stem) else ""
    for tried in range(_TRIES):
        # Nearly always there is none. Creating the first number and settling finds others, where
        # the condition holds.
        must_look = tried > 0 or not _HONOURS.get(root, False)
        numbered, are_listed = _numbered(stem, store) if must_look else ([], True)
        number = 1
        if numbered:
            latest, found = numbered[-1]
            held = _held(found, store, expiry_s)
            if held is not None:
                return held
            if are_listed:
                number = latest + 1
            else:
                store.at(found.identity.uri).remove()
        lease = Lease(stem, number, msgspec.json.encode(content), store)
        place = store.at(lease.uri)
        if not place.create(lease.content):
            continue
        if root not in _HONOURS:
            _HONOURS[root] = True
            with suppress(StorageError):  # refused in another way
                _HONOURS[root] = not place.create(lease.content)
        settled = _settle(lease, numbered)
        if settled is not None:
            return settled
    return OtherLease("another run", "a moment ago", expiry_s)


def _held(found: Found, store: Store, expiry_s: float) -> OtherLease | None:
    """Return a stored lease; None if it has expired or its owner is gone."""
    content = store.at(found.identity.uri).look()
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


def _settle(lease: Lease, before: list[tuple[int, Found]]) -> Lease | None:
    """Verify a new lease and remove earlier ones, so that a returning owner does not find its
    own lease. Return it with what is beside it; None if another run was faster.
    """
    known = {found.identity for _, found in before}
    try:
        # A lease created during a take-over may be missing from the first listing.
        beside = list(lease.store.at(f"{lease.stem}.").iter_named())
        for number, found in _leases_in(lease.stem, beside):
            is_known = number == lease.number or found.identity in known
            if number > lease.number or not is_known:
                lease.release()
                return None
        for _, found in before:
            # Deleting may be forbidden, but only the highest number counts.
            with suppress(StorageError):
                lease.store.at(found.identity.uri).remove()
    except ListingDeniedError:
        return lease
    except StorageError:
        with suppress(StorageError):  # nothing would renew or remove it
            lease.release()
        raise
    return replace(lease, beside=frozenset(found.identity.uri for found in beside))


def _numbered(stem: str, store: Store) -> tuple[list[tuple[int, Found]], bool]:
    """Return the leases in their order, and whether they could be listed: otherwise the first."""
    try:
        return _leases_in(stem, store.at(stem + _MARK).iter_named()), True
    except ListingDeniedError:
        first = store.at(f"{stem}{_MARK}1").find()
        return [] if first is None else [(1, first)], False


def _leases_in(stem: str, listed: Iterable[Found]) -> list[tuple[int, Found]]:
    # The lease of `x.more` begins with the stem `x` of another, too.
    start = stem + _MARK
    leases = (entry for entry in listed if entry.identity.uri.startswith(start))
    found = ((entry.identity.uri.removeprefix(start), entry) for entry in leases)
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
