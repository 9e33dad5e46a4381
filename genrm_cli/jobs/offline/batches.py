"""Judge through a batch API: submit what is wanted, wait, and take the replies; the journal knows
every batch.
"""

import time
import uuid
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import orjson

from genrm_cli.errors import JudgeError
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.offline.batch_api import Batch, BatchApi, MissingError
from genrm_cli.jobs.offline.interrupts import Interrupts
from genrm_cli.jobs.offline.replies import Replies
from genrm_cli.jobs.offline.request_files import ID_PART, RequestFile, RequestFiles
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.offline import Wanted
from genrm_cli.storage.location import InputIdentity
from genrm_cli.storage.source import Source
from genrm_cli.storage.spool import Spool
from genrm_cli.verdicts import Failure, FailureKind, Outcome, StoppedBy

# of the notes in the journal, which stand where failures do and so reach all its copies
_LABEL = "batches"
_MOST_REQUESTS = 50_000  # OpenAI's
_FIRST_LOOK_S = 0.5
_LOOK_S = 30.0
_SLOWER = 1.3


@dataclass(slots=True)
class _Part:
    """Requests of one batch, and how far it has come.

    Attributes:
        name: name of its file, and the mark of its batch.
        ids: the first bytes of the ids of its requests.
        batch: its latest description.
        is_alone: whether no other batch was in progress when it was submitted.
    """

    name: str
    model: str
    ids: set[bytes]
    file_id: str | None = None
    batch_id: str | None = None
    batch: Batch | None = None
    is_alone: bool = False


class BatchStore(AbstractContextManager["BatchStore"]):
    """The batches of an input. Each step is noted before the next is made, so that a killed run
    repeats none.
    """

    stopped_by = StoppedBy.BATCH

    def __init__(
        self,
        run: RunContext,
        journal: Journal,
        apis: Mapping[str, BatchApi],
        interrupts: Interrupts,
        ends_at_s: float,
    ) -> None:
        """Read the batches in progress from the journal of the input; wait for them until
        `ends_at_s`.

        Args:
            apis: by model.
            interrupts: those of the run.
        """
        self._run = run
        self._journal = journal
        self._apis = apis
        self._interrupts = interrupts
        self._ends_at_s = ends_at_s
        self._replies = Replies()
        self.replies_to = self._replies.of
        self._parts = _read_parts(journal)
        self._submitted = {id_ for part in self._parts for id_ in part.ids}
        self._collected: list[_Part] = []
        self._waiting_files: list[RequestFile[Spool]] = []
        self._times: Counter[bytes] = Counter()
        self._is_resumed = self._is_closed = self._is_full = False
        self._files = self._new_files()

    def __exit__(self, *_: object) -> None:
        self._replies.__exit__()
        for file in (*self._waiting_files, *self._files.files):
            file.content.close()

    @property
    def is_waiting(self) -> bool:
        """Whether batches are in progress."""
        return bool(self._parts or self._waiting_files)

    def note_later(self, stages: int) -> None:
        """Do nothing: this run makes later requests itself."""

    def want(self, wanted: Wanted) -> bool:
        """Take a request for the next batch, unless it is in one; a refused one is not repeated,
        others a few times.
        """
        part = wanted.id[:ID_PART]
        if part in self._submitted:
            return True
        if (
            self._is_closed
            or wanted.is_refused
            or self._times[part] > self._run.settings.limits.reask
        ):
            return False
        self._files.add(wanted)
        return True

    async def more(self, waiting: int) -> bool:
        """Submit what is wanted, and wait until a batch has ended or the time is up.

        Raises:
            JudgeError: the API cannot be used, or a batch failed.
        """
        for part in self._collected:  # its replies are in the journal by now
            await self._note(part, ended=True)
        self._collected = []
        if not waiting:
            return False
        if not self._is_resumed:
            self._is_resumed = True
            if await self._resume():
                return True
        await self._submit()
        with self._interrupts.awaited():
            return await self._wait()

    async def _wait(self) -> bool:
        """Look at the batches now and then; return whether one ended before the time was up."""
        look_s = _FIRST_LOOK_S
        while self._parts:
            if await self._collect():
                return True
            left_s = self._ends_at_s - time.monotonic()
            if left_s <= 0:
                return False
            open_ids = [part.batch_id for part in self._parts if part.batch_id is not None]
            await self._interrupts.pause(min(look_s, left_s), open_ids, self._cancel)
            look_s = min(_LOOK_S, look_s * _SLOWER)
        self._is_closed = True
        return False

    async def _cancel(self) -> None:
        """Cancel all batches in progress; a later run takes the replies that they have."""
        for part in self._parts:
            if part.batch_id is not None:
                await self._apis[part.model].cancel(part.batch_id)

    async def _resume(self) -> bool:
        """Find what a killed run left between two notes; return whether requests turned out not to
        be submitted.
        """
        is_freed = False
        for part in list(self._parts):
            api = self._apis.get(part.model)
            if api is None:
                raise JudgeError(
                    f"the journal has a batch of the model {part.model!r}: collect it with its "
                    "settings."
                )
            if part.batch_id is not None:
                continue
            part.file_id = part.file_id or await api.find_file(part.name)
            if part.file_id is not None:
                await self._create(part, await api.find_batch(part.name))
                continue
            await self._end(part)
            is_freed = True
        return is_freed

    async def _submit(self) -> None:
        """Submit the files of requests, one at a time after the account's limit was reached."""
        self._waiting_files += self._files.files
        self._submitted.update(id_ for file in self._files.files for id_ in _iter_ids(file.ids))
        self._files = self._new_files()
        while self._waiting_files and not (self._is_full and self._parts):
            file = self._waiting_files.pop(0)
            name = f"genrm-{uuid.uuid4().hex}.jsonl"
            part = _Part(name, file.model, set(_iter_ids(file.ids)), is_alone=not self._parts)
            self._parts.append(part)
            self._times.update(part.ids)
            await self._note(part, model=part.model, ids=b64encode(bytes(file.ids)).decode())
            with file.content:
                part.file_id = await self._apis[part.model].upload(part.name, file.content.flush())
            await self._note(part, file=part.file_id)
            await self._create(part)

    async def _create(self, part: _Part, found: Batch | None = None) -> None:
        batch = found or await self._apis[part.model].create(part.file_id or "", part.name)
        part.batch_id = batch.id
        await self._note(part, batch=batch.id)
        self._tell(part, batch)

    async def _collect(self) -> bool:
        """Take the replies of the batches that have ended; return whether any has."""
        return any([await self._has_ended(part) for part in list(self._parts)])

    async def _has_ended(self, part: _Part) -> bool:
        """Look at a batch, and take its replies if it has ended.

        Raises:
            JudgeError: it failed, or is not found.
        """
        api = self._apis[part.model]
        try:
            batch = await api.look_at(part.batch_id or "")
            self._tell(part, batch)
            for file_id in batch.files if batch.has_ended else ():
                limit = self._run.settings.input.max_line_bytes
                stop = self._run.stop.is_set
                with await api.download(file_id) as spool:
                    source = Source(
                        InputIdentity(file_id), spool.flush(), limit, stop, is_copy=True
                    )
                    await self._run.in_thread(partial(self._replies.add, source))
        except MissingError:
            if not self._run.settings.output.force:
                raise
            await self._end(part)
            return True
        if not batch.has_ended:
            return False
        self._is_closed = self._is_closed or batch.status.startswith("cancel")
        if batch.status != "failed" or batch.files:
            self._drop(part)
            self._collected.append(part)
            return True
        await self._end(part)
        if not batch.waits_for_quota or part.is_alone:
            raise JudgeError(
                f"batch {batch.id} failed: "
                f"{'; '.join(batch.errors[:3]) or 'the server gives no reason'}."
            )
        self._is_full = True  # other batches will make room
        return True

    async def _end(self, part: _Part) -> None:
        """Forget a batch without replies."""
        await self._note(part, ended=True)
        self._drop(part)

    def _drop(self, part: _Part) -> None:
        self._parts.remove(part)
        self._submitted -= part.ids

    def _new_files(self) -> RequestFiles[Spool]:
        most = min(_MOST_REQUESTS, self._run.settings.offline.requests_per_file)
        return RequestFiles(most, lambda *_: Spool())

    async def _note(self, part: _Part, **note: object) -> None:
        """Note what is known of a part, under a key of its own: copies of the journal replace no
        note.
        """
        key = sha256(" ".join((part.name, *note)).encode()).digest()
        detail = orjson.dumps({"part": part.name, **note}).decode()
        await self._journal.record(key, _LABEL, Outcome(Failure(FailureKind.NOT_ASKED, detail)))

    def _tell(self, part: _Part, batch: Batch) -> None:
        before = part.batch
        part.batch = batch
        if before is None or (before.status, before.done) != (batch.status, batch.done):
            told = {
                "batch": batch.id,
                "status": batch.status,
                "done": batch.done,
                "requests": len(part.ids),
            }
            self._run.on_event("batch", told)


def _read_parts(journal: Journal) -> list[_Part]:
    """Return the parts whose end is not noted."""
    notes: dict[str, dict[str, Any]] = {}
    for note in map(orjson.loads, journal.details_of(_LABEL)):
        notes.setdefault(note["part"], {}).update(note)
    return [
        _Part(
            name,
            note["model"],
            set(_iter_ids(b64decode(note["ids"]))),
            note.get("file"),
            note.get("batch"),
        )
        for name, note in notes.items()
        if "ids" in note and "ended" not in note
    ]


def _iter_ids(joined: bytes | bytearray) -> Iterator[bytes]:
    return (bytes(joined[at : at + ID_PART]) for at in range(0, len(joined), ID_PART))
