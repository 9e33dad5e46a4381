"""Who works on an output: claims that two runs, on one machine or several, cannot both have.

A claim on `x.scored.jsonl` is an object `x.claim-N` that is created only if it does not exist yet; the highest N
counts. It is renewed while its owner works and removed at the end. One that was not renewed for its expiry, or whose
owner was a process of this machine that is gone, is taken over by creating N + 1: of two that try, one succeeds. So
only the conditional creation is relied on, which S3 and most stores like it offer; ages go by the store's own clock.
"""

import json
import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from genrm_cli.errors import StorageError
from genrm_cli.storage.formats.location import S3Options, folder_of, stem_of
from genrm_cli.storage.listing import Found, iter_named
from genrm_cli.storage.objects import create_object, creates_atomically, read_object, remove_object, replace_object

_MARK = ".claim-"
_TRIES = 5
_SETTLE_S = 2.0


class LeaseLostError(StorageError):
    """Another run has taken the claim over: this one was silent for too long."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A claim that another run has.

    Attributes:
        owner: host and process, for a person.
        since: when it was taken, as its owner's clock says.
        expiry_s: how long its owner may be silent before it is taken over.
    """

    owner: str
    since: str
    expiry_s: float

    def __str__(self) -> str:
        over = f"it is taken over when its owner is silent for {self.expiry_s:g} s"
        return f"{self.owner} works on it since {self.since}; {over}"


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim that this run has. All methods block on storage."""

    uri: str
    content: bytes
    s3: S3Options

    def verify(self) -> None:
        """Make sure that the claim is still this run's.

        Raises:
            ClaimLostError: it is not.
        """
        start, _, number = self.uri.rpartition(_MARK)
        newer = [other for other, _ in _numbered(start, self.s3) if other > int(number)]
        if newer or read_object(self.uri, self.s3) != self.content:
            raise LeaseLostError(f"{self.uri}: another run has taken this claim over; its results stand, not these.")

    def renew(self) -> None:
        """Say that the owner still works.

        Raises:
            ClaimLostError: too late.
        """
        self.verify()
        replace_object(self.uri, self.s3, self.content)

    def release(self) -> None:
        """Give the claim up; one that was taken over is left alone."""
        if read_object(self.uri, self.s3) == self.content:
            remove_object(self.uri, self.s3)


class _Owner(NamedTuple):
    host: str
    pid: int
    started: str | None
    since: str
    expiry_s: float


class Leases:
    """Takes the claims of one run."""

    def __init__(self, s3: S3Options, expiry_s: float) -> None:
        self.expiry_s = expiry_s
        self._s3 = s3

    def are_certain(self, output_uri: str) -> bool:
        """Say whether the place of an output honours conditional creation, found out by trying.

        Where it does not, a claim is written, and counts if it is still there two seconds later: two runs that try
        within these two seconds do not both have it, but a slow one may overwrite another's.
        """
        return _are_certain(folder_of(output_uri), self._s3)

    def take(self, output_uri: str) -> Lease | HeldLease:
        """Claim an output, or say who has it.

        Raises:
            StorageError: claims cannot be written there.
        """
        stem = stem_of(output_uri)
        for _ in range(_TRIES):
            numbered = sorted(_numbered(stem, self._s3), key=lambda entry: entry[0])
            if numbered and (held := self._held(numbered[-1][1])) is not None:
                return held
            number = numbered[-1][0] + 1 if numbered else 1
            claim = Lease(f"{stem}{_MARK}{number}", self._content(), self._s3)
            if create_object(claim.uri, self._s3, claim.content) and self._settle(claim, numbered):
                return claim
        return HeldLease("another run", "a moment ago", self.expiry_s)

    def look(self, output_uri: str) -> HeldLease | None:
        """Say who has an output; None if nobody does."""
        numbered = sorted(_numbered(stem_of(output_uri), self._s3), key=lambda entry: entry[0])
        return self._held(numbered[-1][1]) if numbered else None

    def _held(self, found: Found) -> HeldLease | None:
        """Read a claim; None if nobody stands behind it any more."""
        content = read_object(found.identity.uri, self._s3)
        if content is None:
            return None
        owner = _parse_owner(content)
        if owner is None:
            unknown = HeldLease("somebody unknown", "an unknown time", self.expiry_s)
            return None if found.age_s > self.expiry_s else unknown
        gone = owner.host == _host() and _started(owner.pid) != owner.started
        if gone or found.age_s > owner.expiry_s:
            return None
        return HeldLease(f"process {owner.pid} on {owner.host.partition(' ')[0]}", owner.since, owner.expiry_s)

    def _content(self) -> bytes:
        claim = {
            "id": uuid.uuid4().hex,
            "host": _host(),
            "pid": os.getpid(),
            "started": _started(os.getpid()),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "expiry_s": self.expiry_s,
        }
        return json.dumps(claim).encode()

    def _settle(self, claim: Lease, before: list[tuple[int, Found]]) -> bool:
        """Make sure of a new claim and remove those before it: an owner that comes back must not find its own."""
        try:
            if not self.are_certain(claim.uri):
                time.sleep(_SETTLE_S)
                if read_object(claim.uri, self._s3) != claim.content:
                    return False
            if not self._is_highest(claim, before):
                claim.release()
                return False
            for _, found in before:
                with suppress(StorageError):  # perhaps it may not; the highest number counts anyway
                    remove_object(found.identity.uri, self._s3)
        except StorageError:
            with suppress(StorageError):  # nobody would renew it, or give it up
                claim.release()
            raise
        return True

    def _is_highest(self, claim: Lease, before: list[tuple[int, Found]]) -> bool:
        """Look once more, for a claim that was made while one was taken over is in neither half of that listing."""
        start, _, number = claim.uri.rpartition(_MARK)
        known = {found.identity for _, found in before}
        others = (entry for entry in _numbered(start, self._s3) if entry[1].identity.uri != claim.uri)
        return all(other < int(number) and found.identity in known for other, found in others)


def _parse_owner(content: bytes) -> _Owner | None:
    """Read who made a claim; None for what is no claim of ours."""
    try:
        found = json.loads(content)
        expiry_s = float(found["expiry_s"])
        owner = _Owner(str(found["host"]), int(found["pid"]), found["started"], str(found["since"]), expiry_s)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return owner if isfinite(expiry_s) else None  # infinite, or not a number, would be held for ever


def _numbered(stem: str, s3: S3Options) -> list[tuple[int, Found]]:
    found = ((entry.identity.uri.rpartition(_MARK)[2], entry) for entry in iter_named(stem + _MARK, s3))
    return [(int(number), entry) for number, entry in found if number.isdecimal()]


@cache
def _are_certain(folder_uri: str, s3: S3Options) -> bool:
    return creates_atomically(folder_uri, s3)


@cache
def _host() -> str:
    """Name where this process runs: machine, start of it, and container, as process numbers mean nothing elsewhere."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        container = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  (no path: a name in brackets)
    except OSError:
        boot = container = ""
    return f"{socket.gethostname()} {boot} {container}"


def _started(pid: int) -> str | None:
    """Return when a process of this machine began, in the kernel's words; None if there is none.

    Where the kernel does not say, every process counts as the one that was asked for.
    """
    try:
        # The name in parentheses may hold spaces; the start is the 22nd field, the 20th after it.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]  # dead, though nobody has taken notice
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else ""
    except OSError:
        return ""
