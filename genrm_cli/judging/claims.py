"""Claims: the requests in progress of all runs on one journal, so that no two runs make the same request.

A claim expires unless its run renews it, so a killed run delays the others for a few seconds at most.
"""

import asyncio
import contextlib
import time
import uuid

from genrm_cli.errors import StorageError
from genrm_cli.judging.journal_file import Connection, JournalErrors, transaction

EXPIRY_S = 5.0
_RENEWAL_S = 1.5
LOOK_S = 0.2

# A claim that expires too late was written before the clock was set back.
_IS_LIVE = "expires_at > :now AND expires_at <= :now + 2 * :expiry"
_TAKE = f"""
INSERT INTO claims VALUES (:key, :run, :now + :expiry) ON CONFLICT (key) DO UPDATE
SET run = excluded.run, expires_at = excluded.expires_at WHERE run = excluded.run OR NOT ({_IS_LIVE})
"""  # noqa: S608  (our own names)
_OTHERS = f"SELECT key FROM claims WHERE run <> :run AND {_IS_LIVE} AND key NOT IN (SELECT key FROM verdicts)"  # noqa: S608


class Claims:
    """The claims of one run, and its view of the claims of other runs."""

    def __init__(self, connection: Connection, errors: JournalErrors) -> None:
        self._connection = connection
        self._errors = errors
        self._run = uuid.uuid4().bytes
        self._has_claimed = False
        self._held: set[bytes] = set()
        self._given_back: list[bytes] = []
        self._wanted: list[bytes] = []
        self._taken: asyncio.Future[set[bytes]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._others: set[bytes] = set()
        self._looked_at_s = -LOOK_S

    async def take(self, key: bytes) -> bool:
        """Claim a request; return False if another run has claimed it. Claims made in one turn of the loop share a
        commit.

        Raises:
            StorageError: the journal cannot be written.
        """
        loop = asyncio.get_running_loop()
        self._has_claimed = True
        if self._taken is None:
            self._taken = loop.create_future()
            loop.call_soon(self._commit, self._taken)
        self._wanted.append(key)
        if key not in await asyncio.shield(self._taken):
            return False
        self._held.add(key)
        self._keep_renewing(loop)
        return True

    def give_back(self, key: bytes) -> None:
        """Drop a claim with the next commit. Other runs see a stored verdict sooner."""
        if key in self._held:
            self._held.discard(key)
            self._given_back.append(key)

    def is_taken(self, key: bytes) -> bool:
        """Return whether another run was asking at the last check, at most `LOOK_S` ago.

        Raises:
            StorageError: the journal cannot be read.
        """
        now_s = time.monotonic()
        if now_s - self._looked_at_s >= LOOK_S:
            self._looked_at_s = now_s
            with self._errors:
                rows = self._connection.execute(_OTHERS, self._names()).fetchall()
            self._others = {key for (key,) in rows}
        return key in self._others

    def close(self) -> None:
        """Drop all claims. Claims that cannot be dropped expire."""
        if self._timer is not None:
            self._timer.cancel()
        if self._has_claimed:
            with contextlib.suppress(StorageError), self._errors:
                self._connection.execute("DELETE FROM claims WHERE run = ?", (self._run,))
        self._has_claimed = False

    def _commit(self, taken: asyncio.Future[set[bytes]]) -> None:
        """Write the claims of this turn, and tell each waiter whether it got its claim."""
        self._taken = None
        wanted, self._wanted = self._wanted, []
        try:
            with self._errors:
                taken.set_result(self._write(wanted))
        except StorageError as error:
            taken.set_exception(error)

    def _write(self, wanted: list[bytes]) -> set[bytes]:
        given_back, self._given_back = self._given_back, []
        names = self._names()
        with transaction(self._connection) as execute:
            for key in given_back:
                execute("DELETE FROM claims WHERE key = ? AND run = ?", (key, self._run))
            return {key for key in wanted if execute(_TAKE, {**names, "key": key}).rowcount}

    def _names(self) -> dict[str, float | bytes]:
        return {"now": time.time(), "expiry": EXPIRY_S, "run": self._run}

    def _keep_renewing(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_later(_RENEWAL_S, self._renew)

    def _renew(self) -> None:
        """Renew the claims held. A failure does not end the run: other runs may then make the same requests."""
        self._timer = None
        if self._loop is None:
            return
        with contextlib.suppress(StorageError), self._errors:
            self._write([])
            self._connection.execute(
                "UPDATE claims SET expires_at = ? WHERE run = ?", (time.time() + EXPIRY_S, self._run)
            )
        if self._held:
            self._keep_renewing(self._loop)
