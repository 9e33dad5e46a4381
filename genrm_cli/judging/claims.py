"""Claims: the requests in progress of all runs on one journal, so that no two runs make the same
request.

All claims of a run are one row of the journal, which the run writes with its own commits. `take`
puts a key into `wanted` and waits for the next commit. Inside its transaction, the keys that no
other run claims move to `held`, so of two runs only one gets a key. A commit reads the rows of
other runs only if `PRAGMA data_version` shows that another run has written: a run alone pays
nothing.

A row expires unless its run renews it, so a killed run delays the others for `EXPIRY_S` at most."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable

from genrm_cli.errors import StorageError
from genrm_cli.judging.journal_file import JournalFile

# A killed run delays others by this time; a run that the machine stops for longer loses its claims.
EXPIRY_S = 5.0
_RENEWAL_S = 1.5  # a claim outlives two renewals that fail or come late
POLL_S = 0.2  # short against a judge's call, and five reads a second at most
# Keys are hashes, so the first bytes identify them. A row of whole keys would cost a commit four
# times as many pages.
_PART = 8

# Claims expire by the monotonic clock, which all processes of a machine share and nobody sets.
# Those that expire too late were written before it was restarted.
_IS_LIVE = "expires_at > :now AND expires_at <= :now + 2 * :expiry"
_WRITE = "INSERT OR REPLACE INTO claims VALUES (:run, :now + :expiry, :keys)"
_OTHERS = f"SELECT keys FROM claims WHERE run <> :run AND {_IS_LIVE}"  # noqa: S608  (our own names)
_DROP = f"DELETE FROM claims WHERE run = :run OR NOT ({_IS_LIVE})"  # noqa: S608


class Claims:
    """The claims of one run, and its view of the claims of other runs.

    All claims of a run are one row, which the journal writes with its own commits.

    `is_shared` tells whether another run has written to the journal since it was opened.
    """

    def __init__(self, file: JournalFile, next_commit: Callable[[], Awaitable[None]]) -> None:
        self._file = file
        self._next_commit = next_commit
        self._run = uuid.uuid4().bytes
        self._has_claimed = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._others: set[bytes] = set()
        self._looked_at_s = -POLL_S
        self._version = self._data_version()
        self.is_shared = False
        self.held: set[bytes] = set()
        self.wanted: set[bytes] = set()

    async def take(self, key: bytes) -> bool:
        """Claim a request with the journal's next commit; return False if another run has claimed
        it.

        Raises:
            StorageError: the journal cannot be written.
        """
        self._has_claimed = True
        part = key[:_PART]
        self.wanted.add(part)
        await self._next_commit()
        if part not in self.held:
            return False
        self._keep_renewing(asyncio.get_running_loop())
        return True

    def give_back(self, key: bytes) -> None:
        """Drop a claim; other runs see it after the next commit."""
        self.held.discard(key[:_PART])
        self.wanted.discard(key[:_PART])

    def is_taken(self, key: bytes) -> bool:
        """Return whether another run was asking at the last check, at most `POLL_S` ago.

        Raises:
            StorageError: the journal cannot be read.
        """
        now_s = time.monotonic()
        if now_s - self._looked_at_s >= POLL_S:
            self._looked_at_s = now_s
            self._look()
        return key[:_PART] in self._others

    def close(self) -> None:
        """Drop all claims. Claims that cannot be dropped expire."""
        if self._timer is not None:
            self._timer.cancel()
        if self._has_claimed:
            with contextlib.suppress(StorageError):
                self._file.rows(_DROP, self._names())
        self._has_claimed = False

    def write(self) -> None:
        """Claim, inside a transaction, what is wanted and not claimed by another run."""
        if not self._has_claimed:
            return
        wanted = self.wanted
        self.wanted = set()
        if wanted:
            is_first = not self.is_shared and not self.held
            self.is_shared = self.is_shared or self._data_version() != self._version
            if self.is_shared or self._others or is_first:
                self._look()
            self.held |= wanted - self._others
        self._write_row()

    def _write_row(self) -> None:
        self._file.rows(_WRITE, self._names() | {"keys": b"".join(self.held)})

    def _data_version(self) -> int:
        """Return a number that changes with every commit of another connection."""
        return int(self._file.row("PRAGMA data_version")[0])

    def _look(self) -> None:
        self._others = {
            keys[at : at + _PART]
            for (keys,) in self._file.rows(_OTHERS, self._names())
            for at in range(0, len(keys), _PART)
        }

    def _names(self) -> dict[str, float | bytes]:
        return {"now": time.monotonic(), "expiry": EXPIRY_S, "run": self._run}

    def _keep_renewing(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_later(_RENEWAL_S, self._renew)

    def _renew(self) -> None:
        """Renew the claims held. A failure does not end the run: other runs may then make the same
        requests.
        """
        self._timer = None
        with contextlib.suppress(StorageError):
            self._write_row()
        if self.held and self._loop is not None:
            self._keep_renewing(self._loop)
