"""The batch of a file of requests, which a killed run leaves for the next one.

The state of a batch is kept in a small file beside the requests, `NAME.batch.json`. It has the mark
of the batch before that is created, and its id afterwards. A killed run leaves at most one batch
whose id is not noted, and the next run looks for it by its mark before it creates another. The
replies appear whole, in one step; with them, the work on a file is done.
"""

import hashlib
import uuid
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import InputError, counted
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.offline.request_files import check_request_line, replies_of
from genrm_cli.metrics.event import Event
from genrm_cli.products.batches.batch_api import Batch, BatchApi
from genrm_cli.scored.json_form import to_json
from genrm_cli.storage.encoding.records import BadLineError, render_document
from genrm_cli.storage.location import sibling
from genrm_cli.storage.outputs import Outputs
from genrm_cli.typed_json import parse_json

_STATE_SUFFIX = ".batch.json"
_FORMAT = 1
_MODE = 0o600  # replies hold texts of rollouts, as a journal does
_PIECE_BYTES = 1 << 20  # copied at once; any size that fits in memory will do
_NAMED_REASONS = 3  # a batch may fail with one reason a line


class BatchEvent(Event, frozen=True):
    """A batch at a provider has made progress."""

    batch: str
    status: str
    done: int

    def text(self) -> str:
        """Describe the progress."""
        return f"batch {self.batch}: {self.status}, {counted(self.done, 'request')} done"


class BatchState(Struct, frozen=True, kw_only=True):
    """How far the batch of a file has come: the content of its `.batch.json`.

    Attributes:
        sha256: of the file of requests.
        name: name of the upload, and mark of the batch.
        answered: whether the replies were written.
    """

    sha256: str
    name: str
    batch_id: str | None = None
    answered: bool = False
    format: int = _FORMAT


class FileBatch:
    """A file of requests and its batch; `resume` comes first.

    Attributes:
        is_done: whether nothing is left to do in this run.
        failure: why the batch ended without a reply; None unless it did.
    """

    def __init__(self, uri: str, api: BatchApi, run: RunContext) -> None:
        self.uri = uri
        self.is_done = False
        self.failure: str | None = None
        self._api = api
        self._run = run
        self._replaces = run.settings.output.force
        self._replies_uri = replies_of(uri)
        self._state_uri = sibling(uri, _STATE_SUFFIX)
        self._is_alone = False
        self._latest: BatchEvent | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a batch of it is in progress."""
        return not self.is_done and self._state.batch_id is not None

    async def resume(self) -> None:
        """Read the state, and complete the step that a killed run did not note.

        Raises:
            InputError: the file holds other requests than those that were submitted.
        """
        run = self._run
        sha256 = await run.in_thread(self._digest)
        before = await run.in_thread(self._read_state)
        is_answered = await run.in_thread(run.store.at(self._replies_uri).exists)
        self.is_done = is_answered and not self._replaces
        self._state = BatchState(sha256=sha256, name=_new_name())
        if before is None or (is_answered and before.answered and self._replaces):
            return
        if before.sha256 != sha256:
            raise InputError(
                f"{self.uri}: its requests have changed since they were submitted; write them "
                f"to a file of another name, or remove {self._state_uri}."
            )
        if self.is_done:
            return
        self._state = before
        if before.batch_id is None and (batch := await self._api.find_batch(before.name)):
            await self._save(replace(before, batch_id=batch.id))

    async def submit(self, *, is_alone: bool) -> None:
        """Upload the requests and create the batch; `is_alone` if no other one is in progress."""
        self._is_alone = is_alone
        # The mark first: a batch that a killed run has created is found by it.
        await self._save(self._state)
        with self._run.open_source(self.uri) as source:
            file_id = await self._api.upload(self._state.name, source.content)
        batch = await self._api.create(file_id, self._state.name)
        await self._save(replace(self._state, batch_id=batch.id))
        self._report(batch)

    async def cancel(self) -> None:
        """Cancel the batch if one is in progress; do not submit the file otherwise."""
        if self._state.batch_id is None:
            self.is_done = True
        elif not self.is_done and not (await self._api.get(self._state.batch_id)).has_ended:
            await self._api.cancel(self._state.batch_id)

    async def poll(self) -> bool:
        """Read the status of the batch, and write the replies if it has ended; return whether the
        file is done.

        A batch that failed only because too much was submitted at once is submitted again later.
        """
        if self._state.batch_id is None:
            return False
        batch = await self._api.get(self._state.batch_id)
        self._report(batch)
        if not batch.has_ended:
            return False
        has_replies = await self._write_replies(batch)
        if has_replies:
            await self._save(replace(self._state, answered=True))
        else:
            await self._forget()
            if batch.waits_for_quota and not self._is_alone:
                return False
            reasons = "; ".join(batch.errors[:_NAMED_REASONS]).rstrip(".")
            self.failure = (
                f"batch {batch.id} of {self.uri}: {batch.status} without a reply: "
                f"{reasons or 'the server gives no reason'}"
            )
        self.is_done = True
        return True

    async def _write_replies(self, batch: Batch) -> bool:
        """Write the replies and the errors of a batch into one file, whole or not at all; False if
        there are none.
        """
        in_thread = self._run.in_thread
        with Outputs(self._run.store, overwrite=self._replaces, mode=_MODE) as outputs:
            sink = outputs.open(self._replies_uri)
            size_bytes = 0
            for file_id in batch.files:
                # Not into the sink at once: a download that breaks off begins again.
                with await self._api.download(file_id) as spool:
                    size_bytes += len(spool)
                    content = spool.flush()
                    content.seek(0)
                    while piece := await in_thread(partial(content.read, _PIECE_BYTES)):
                        await in_thread(partial(sink.write, piece))
            if size_bytes:
                await in_thread(outputs.commit)
        return size_bytes > 0

    async def _forget(self) -> None:
        """Forget a batch without replies: its requests need another upload."""
        await self._save(replace(self._state, name=_new_name(), batch_id=None))

    async def _save(self, state: BatchState) -> None:
        self._state = state
        content = render_document(to_json(state))
        await self._run.in_thread(partial(self._run.store.at(self._state_uri).replace, content))

    def _report(self, batch: Batch) -> None:
        event = BatchEvent(batch.id, batch.status, batch.done)
        if event != self._latest:
            self._latest = event
            self._run.on_event(event)

    def _digest(self) -> str:
        """Return the sha256 of the requests; refuse a file with anything else, which must not be
        uploaded.
        """
        digest = hashlib.sha256()
        with self._run.open_source(self.uri) as source:
            for number, line in enumerate(source.content, 1):
                digest.update(line)
                try:
                    check_request_line(line)
                except (ValueError, BadLineError) as error:
                    raise InputError(
                        f"{self.uri}: line {number} is not a request of genrm score ({error}); "
                        "nothing of it was uploaded. Name the files of requests."
                    ) from error
        return digest.hexdigest()

    def _read_state(self) -> BatchState | None:
        content = self._run.store.at(self._state_uri).read()
        try:
            return None if content is None else parse_json(BatchState, content)
        except ValueError as error:
            raise InputError(
                f"{self._state_uri}: not the state of a batch ({error}). Find the batch at the "
                "provider; without the file, the requests are submitted again."
            ) from error


def _new_name() -> str:
    return f"genrm-{uuid.uuid4().hex}.jsonl"
