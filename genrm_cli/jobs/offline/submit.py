"""Answer files of requests through a batch API: submit them, wait, and write the replies.

Each file is one batch. What is known of it is kept in a small file beside the requests,
`NAME.batch.json`, which is replaced before each next step: it names the upload, then has the id of
the uploaded file, then that of the batch. A killed run therefore leaves at most one step that is
not noted, and the next run looks for its upload or its batch by that name before it makes another.
The replies appear whole, in one step; with them, the work on a file is done.
"""

import asyncio
import hashlib
import math
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import orjson

from genrm_cli.errors import (
    BadInputLineError,
    InputError,
    JudgeError,
    PendingError,
    StorageError,
    UsageError,
    naming,
)
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.leasing import leased
from genrm_cli.jobs.offline.batch_api import Batch, BatchApi, MissingError
from genrm_cli.jobs.offline.request_files import replies_of
from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.pacing.policy import CallPolicy
from genrm_cli.scored.json_form import from_json
from genrm_cli.storage.encoding.records import Line, parse_record
from genrm_cli.storage.leases import Leases, OtherLease
from genrm_cli.storage.listing import iter_found, names_many
from genrm_cli.storage.location import sibling
from genrm_cli.storage.objects import read_object, replace_object
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.sink import Sink, check_writable, exists
from genrm_cli.storage.spool import Spool

STATE_SUFFIX = ".batch.json"
FORMAT = 1
_CONNECTIONS = 4  # to the API; files are uploaded one after another
_MODE = 0o600  # replies hold texts of rollouts, as a journal does
_FIRST_LOOK_S = 0.5  # a small batch of a local server ends at once
_LOOK_S = 30.0  # a batch takes hours, and each look is a request
_SLOWER = 1.3
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """How far the batch of a file has come: the content of its `.batch.json`.

    Attributes:
        sha256: of the file of requests.
        requests: number of requests in it.
        name: name of the upload, and mark of the batch.
        answered: whether the replies were written.
    """

    sha256: str
    requests: int
    name: str
    file_id: str | None = None
    batch_id: str | None = None
    answered: bool = False
    format: int = FORMAT


@dataclass(slots=True)
class _Work:
    """A file of requests in progress.

    Attributes:
        seen: its batch as it was last told.
        is_alone: whether no other batch was in progress when it was submitted.
    """

    uri: str
    replies_uri: str
    state: BatchState = field(init=False)
    seen: Batch | None = None
    is_alone: bool = False
    is_done: bool = False

    @property
    def state_uri(self) -> str:
        """Where its state is kept."""
        return sibling(self.uri, STATE_SUFFIX)

    @property
    def is_submitted(self) -> bool:
        """Whether it has a batch."""
        return self.state.batch_id is not None


async def answer_files(
    given: Sequence[str], run: RunContext, wait_s: float | None = None, *, cancel: bool = False
) -> list[str]:
    """Answer files of requests; return the URIs of the replies.

    Args:
        given: the files, or patterns.
        run: names the endpoint; `force` replaces replies, and batches that do not exist.
        wait_s: how long to wait for the batches; None until they end.
        cancel: whether to cancel those in progress; their finished replies are written.

    Raises:
        PendingError: batches are still in progress.
        GenrmError: its subclasses say what went wrong. Batches that were submitted go on.
    """
    uris = await run.in_thread(lambda: _find(given, run))
    files = [_Work(uri, replies_of(uri)) for uri in uris]
    settings = run.settings
    leases = Leases(run.s3, settings.storage.lease_expiry)
    places = [file.replies_uri for file in files]
    for file in files:
        if places.count(file.replies_uri) > 1:
            raise UsageError(
                f"the replies to several files would be written to {file.replies_uri}; rename "
                f"{file.uri}."
            )
    for place in places:
        await run.in_thread(partial(check_writable, place, run.s3))
    async with cancelled_by_signals(), _open_api(run) as api, leased(places, leases, run) as held:
        for place, lease in held.items():
            if isinstance(lease, OtherLease):
                raise StorageError(f"{place}: {lease}; run again when it is done")
        submitting = _Submitting(files, api, run, math.inf if wait_s is None else wait_s)
        await submitting.resume()
        if cancel:
            await submitting.cancel()
        else:
            await submitting.submit()
        await submitting.wait()
    return places


def _find(given: Sequence[str], run: RunContext) -> list[str]:
    """Return the files of requests: those named, and those of patterns."""
    uris = []
    for uri in given:
        if not names_many(uri):
            uris.append(uri)
            continue
        found = [each.identity.uri for each in iter_found(uri, run.s3)]
        if not found:
            raise InputError(f"{uri}: no such files of requests; check the path")
        uris += found
    return list(dict.fromkeys(uris))


@asynccontextmanager
async def _open_api(run: RunContext) -> AsyncIterator[BatchApi]:
    """Connect to the batch API of the endpoint in the settings."""
    judge = run.settings.judge
    if not judge.base_url:
        raise UsageError(naming("name the endpoint of the batch API with $base_url."))
    url = judge.base_url[0]
    limits = run.settings.limits
    key = next(iter(run.api_keys.values()), None)
    client = JudgeClient(
        url, key, limits.connect_timeout, _CONNECTIONS, judge.ca_bundle, judge.http_client
    )
    policy = CallPolicy(
        limits.call_timeout, limits.comparison_timeout, limits.retries, limits.reask
    )
    async with client:
        yield BatchApi(client, url, policy, limits.give_up_after)


class _Submitting:
    """The batches of some files, until their replies are written."""

    def __init__(
        self, files: Sequence[_Work], api: BatchApi, run: RunContext, wait_s: float
    ) -> None:
        self._files = files
        self._api = api
        self._run = run
        self._ends_at_s = time.monotonic() + wait_s
        self._forces = run.settings.output.force
        self._submits = True
        self._failures: list[str] = []

    async def resume(self) -> None:
        """Read the states of all files, and complete the step that a killed run did not note.

        Raises:
            InputError: a file holds no requests, or others than those that were submitted.
        """
        for file in self._files:
            read = await self._run.in_thread(partial(_read_file, file, self._run))
            before = read.state
            is_redone = read.is_answered and self._forces and before is not None and before.answered
            if before is not None and before.sha256 != read.sha256 and not is_redone:
                raise InputError(
                    f"{file.uri}: its requests have changed since they were submitted; write them "
                    f"to a file of another name, or remove {file.state_uri}."
                )
            file.is_done = read.is_answered and not self._forces
            if file.is_done or before is None or is_redone:
                file.state = read.fresh_state()
                continue
            file_id = before.file_id or await self._api.find_file(before.name)
            batch_id = before.batch_id
            if file_id is not None and batch_id is None:
                found = await self._api.find_batch(before.name)
                batch_id = None if found is None else found.id
            file.state = replace(before, file_id=file_id, batch_id=batch_id)

    async def submit(self) -> None:
        """Submit each file that has no batch, one after another."""
        for file in self._pending():
            if not file.is_submitted:
                await self._submit(file)

    async def cancel(self) -> None:
        """Cancel the batches in progress; what was not submitted stays so."""
        self._submits = False
        for file in self._pending():
            if file.state.batch_id is None:
                file.is_done = True
            else:
                await self._api.cancel(file.state.batch_id)

    async def wait(self) -> None:
        """Look at the batches now and then, and write the replies of those that have ended.

        Raises:
            PendingError: the time was up before all had ended.
            JudgeError: a batch ended without a reply; those of the other files are written.
        """
        look_s = _FIRST_LOOK_S
        while True:
            submitted = [file for file in self._pending() if file.is_submitted]
            ended = [file for file in submitted if await self._has_ended(file)]
            if not self._pending():
                break
            has_room = ended or not any(file.is_submitted for file in self._pending())
            if has_room and self._submits:
                await self.submit()
            left_s = self._ends_at_s - time.monotonic()
            if left_s <= 0:
                names = ", ".join(file.uri for file in self._pending())
                raise PendingError(
                    f"{names}: not answered yet; run the same command again to collect the replies."
                )
            await asyncio.sleep(min(look_s, left_s))
            look_s = min(_LOOK_S, look_s * _SLOWER)
        if self._failures:
            raise JudgeError(
                f"{'; '.join(self._failures)}. Run the same command again to submit again."
            )

    def _pending(self) -> list[_Work]:
        return [file for file in self._files if not file.is_done]

    async def _submit(self, file: _Work) -> None:
        """Upload the requests of a file and create its batch; note each step before the next."""
        file.is_alone = not any(each.is_submitted for each in self._pending())
        if file.state.file_id is None:
            await self._note(file, file.state)
            with self._run.open_source(file.uri) as source:
                file_id = await self._api.upload(file.state.name, source.content)
            await self._note(file, replace(file.state, file_id=file_id))
        batch = await self._api.create(file.state.file_id or "", file.state.name)
        await self._note(file, replace(file.state, batch_id=batch.id))
        self._tell(file, batch)

    async def _has_ended(self, file: _Work) -> bool:
        """Look at the batch of a file, and write its replies if it has ended; return whether it
        has.
        """
        try:
            batch = await self._api.look_at(file.state.batch_id or "")
            self._tell(file, batch)
            if not batch.has_ended:
                return False
            if await self._write_replies(file, batch):
                return True
        except MissingError:
            if not self._forces:
                raise
            await self._forget(file)
            await self._submit(file)
            return False
        await self._forget(file)
        if batch.waits_for_quota and not file.is_alone:
            return False
        reasons = "; ".join(batch.errors[:3]).rstrip(".") or "the server gives no reason"
        self._failures.append(
            f"batch {batch.id} of {file.uri}: {batch.status} without a reply: {reasons}"
        )
        file.is_done = True
        return True

    async def _forget(self, file: _Work) -> None:
        """Forget a batch without replies: its requests need another upload."""
        await self._note(file, replace(file.state, name=_new_name(), file_id=None, batch_id=None))

    async def _write_replies(self, file: _Work, batch: Batch) -> bool:
        """Write the replies and the errors of a batch into one file, whole or not at all; False if
        there are none.
        """
        with Outputs(self._run.s3, overwrite=self._forces, mode=_MODE) as outputs:
            sink = outputs.open(file.replies_uri)
            size_bytes = 0
            for file_id in batch.files:
                with await self._api.download(file_id) as spool:
                    await self._run.in_thread(partial(_copy, spool, sink))
                    size_bytes += len(spool)
            if not size_bytes:
                return False
            await self._run.in_thread(outputs.commit)
        await self._note(file, replace(file.state, answered=True))
        file.is_done = True
        return True

    async def _note(self, file: _Work, state: BatchState) -> None:
        file.state = state
        content = orjson.dumps(state, option=orjson.OPT_INDENT_2) + b"\n"
        await self._run.in_thread(partial(replace_object, file.state_uri, self._run.s3, content))

    def _tell(self, file: _Work, batch: Batch) -> None:
        before = file.seen
        file.seen = batch
        if before is None or (before.status, before.done) != (batch.status, batch.done):
            told = {
                "batch": batch.id,
                "status": batch.status,
                "done": batch.done,
                "requests": file.state.requests,
            }
            self._run.on_event("batch", told)


@dataclass(frozen=True, slots=True)
class _Read:
    """A file of requests as it is: its digest, its size, its noted state."""

    sha256: str
    requests: int
    state: BatchState | None
    is_answered: bool

    def fresh_state(self) -> BatchState:
        """Return the state of a file that was not submitted."""
        return BatchState(sha256=self.sha256, requests=self.requests, name=_new_name())


def _read_file(file: _Work, run: RunContext) -> _Read:
    """Read a file of requests and its state.

    Raises:
        InputError: the file is missing, or a line is no request.
    """
    digest = hashlib.sha256()
    models = set()
    requests = 0
    with run.open_source(file.uri) as source:
        for line in source.iter_lines():
            digest.update(line.raw)
            digest.update(b"\n")
            models.add(_model_in(file.uri, line))
            requests += 1
    if len(models) != 1:
        named = ", ".join(sorted(models)) or "no model"
        raise InputError(f"{file.uri}: a batch is for one model, and the requests name {named}.")
    content = read_object(file.state_uri, run.s3)
    state = None if content is None else _parse_state(file.state_uri, content)
    return _Read(digest.hexdigest(), requests, state, exists(file.replies_uri, run.s3))


def _model_in(uri: str, line: Line) -> str:
    """Return the model that a request names."""
    try:
        record = parse_record(line.raw)
    except BadInputLineError as error:
        raise InputError(f"{uri}:{line.number}: {error}") from error
    body = record.get("body")
    if not isinstance(record.get("custom_id"), str) or not isinstance(body, dict):
        raise InputError(
            f"{uri}:{line.number}: not a request of a batch; ",
            naming("$requests_to writes files of requests."),
        )
    return str(body.get("model"))


def _parse_state(uri: str, content: bytes) -> BatchState:
    try:
        return from_json(BatchState, orjson.loads(content))
    except ValueError as error:
        raise InputError(
            f"{uri}: not the state of a batch ({error}). Find the batch at the provider; without "
            "the file, the requests are submitted again."
        ) from error


def _new_name() -> str:
    return f"genrm-{uuid.uuid4().hex}.jsonl"


def _copy(spool: Spool, sink: Sink) -> None:
    content = spool.flush()
    content.seek(0)
    while piece := content.read(_PIECE_BYTES):
        sink.write(piece)
