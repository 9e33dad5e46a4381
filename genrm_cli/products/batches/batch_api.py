"""Client for OpenAI-compatible batch APIs."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

import orjson
from msgspec import Struct

from genrm_cli.errors import JudgeError, naming
from genrm_cli.judging.client import CallError, JudgeClient
from genrm_cli.judging.offline import CHAT_URL
from genrm_cli.judging.pacing.endpoint import loop_time_s
from genrm_cli.judging.pacing.policy import CallPolicy
from genrm_cli.judging.pacing.remedies import SPENT
from genrm_cli.storage.spool import Spool
from genrm_cli.verdicts import FailureKind

# Faults that pass, as a rule, within `give_up_after`.
_TRANSIENT = (
    FailureKind.RATE_LIMITED,
    FailureKind.TIMEOUT,
    FailureKind.CONNECTION,
    FailureKind.BAD_BODY,
)
_ENDED = ("completed", "failed", "expired", "cancelled", "canceled")  # providers spell it both ways
_MARK = "genrm"  # metadata by which a batch is found again
_CHECK = "Check that the endpoint is that of a batch API."
_PAGES = 20  # of 100 entries, newest first: what a killed run left is recent
_NOT_FOUND_YET = "cannot find file"  # OpenAI, right after an upload
_MISSING = (404, 405)  # unknown id; no such route
_QUOTA = ("token_limit_exceeded", "enqueued", "quota")  # in errors of OpenAI and its followers


class Batch(Struct, frozen=True):
    """A batch as its server describes it.

    Attributes:
        status: in lower case.
        files: ids of the files with replies and with errors, if the server has written any.
        errors: why it failed as a whole.
    """

    id: str
    status: str
    mark: str | None
    files: tuple[str, ...]
    done: int
    errors: tuple[str, ...]

    @property
    def has_ended(self) -> bool:
        """Whether it will change no more."""
        return self.status in _ENDED

    @property
    def waits_for_quota(self) -> bool:
        """Whether it failed only because too much was submitted at once."""
        return any(words in error.lower() for error in self.errors for words in _QUOTA)


class BatchApi:
    """The batch API of one endpoint. Transient faults are waited out; all methods raise
    `JudgeError` for others.
    """

    def __init__(
        self, client: JudgeClient, name: str, policy: CallPolicy, give_up_after_s: float
    ) -> None:
        """Use a client; `name` is the endpoint's name in errors."""
        self._client = client
        self._name = name
        self._policy = policy
        self._give_up_after_s = give_up_after_s

    async def upload(self, name: str, file: BinaryIO) -> str:
        """Upload a file of requests; return its id. A file that is uploaded twice costs nothing."""
        content = await self._call("POST", "/files", upload=(name, file))
        if "id" not in content:
            raise JudgeError(f"{self._name}: POST /files: the reply names no file. {_CHECK}")
        return str(content["id"])

    async def create(self, file_id: str, mark: str) -> Batch:
        """Create a batch from an uploaded file, or find the one with this mark, which a lost reply
        may have left.
        """
        body = {
            "input_file_id": file_id,
            "endpoint": CHAT_URL,
            "completion_window": "24h",
            "metadata": {_MARK: mark},
        }
        created = await self._call(
            "POST", "/batches", orjson.dumps(body), found=lambda: self.find_batch(mark)
        )
        return created if isinstance(created, Batch) else _parse_batch(created)

    async def find_batch(self, mark: str) -> Batch | None:
        """Return the batch with a mark; None if the server does not list it."""
        after = ""
        for _ in range(_PAGES):
            try:
                page = await self._call("GET", f"/batches?limit=100{after}")
            except JudgeError as error:
                if isinstance(error.__cause__, CallError) and _may_pass(error.__cause__):
                    raise  # what is not found is submitted again, and paid twice
                return None
            listed = page.get("data")
            batches = [_parse_batch(each) for each in listed] if isinstance(listed, list) else []
            for batch in batches:
                if batch.mark == mark:
                    return batch
            if not page.get("has_more") or not batches:
                return None
            after = f"&after={batches[-1].id}"
        return None

    async def get(self, batch_id: str) -> Batch:
        """Return a batch as it is now."""
        return _parse_batch(await self._call("GET", f"/batches/{batch_id}"))

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch that has not ended; its finished requests keep their replies."""
        # Without a body, the length would be missing.
        await self._call("POST", f"/batches/{batch_id}/cancel", b"{}")

    async def download(self, file_id: str) -> Spool:
        """Return the content of a file, which the caller closes."""

        async def call(timeout_s: float) -> Spool:
            with ExitStack() as on_error:
                spool = on_error.enter_context(Spool())
                await self._client.call(
                    "GET", f"/files/{file_id}/content", timeout_s, write=spool.write
                )
                on_error.pop_all()
            return spool

        spool: Spool = await self._retried(call, "GET", f"/files/{file_id}/content")
        return spool

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        upload: tuple[str, BinaryIO] | None = None,
        found: Callable[[], Any] | None = None,
    ) -> Any:
        """Make a call and parse its reply. Before it is made again, `found` looks for what it may
        have left.
        """

        async def call(timeout_s: float) -> Any:
            content = await self._client.call(method, path, timeout_s, body, upload=upload)
            reply = orjson.loads(content)
            if not isinstance(reply, dict):
                raise ValueError("expected an object")
            return reply

        return await self._retried(call, method, path, found)

    async def _retried(
        self,
        call: Callable[[float], Any],
        method: str,
        path: str,
        found: Callable[[], Any] | None = None,
    ) -> Any:
        gives_up_at_s = loop_time_s() + self._give_up_after_s
        tries = 0
        while True:
            try:
                return await call(self._policy.call_timeout_s)
            except ValueError as error:
                raise JudgeError(
                    f"{self._name}: {method} {path}: not a reply of a batch API ({error}). {_CHECK}"
                ) from error
            except CallError as error:
                tries += 1
                wait_s = self._policy.wait_s(tries, error.retry_after_s, random.random())
                if not _may_pass(error) or loop_time_s() + wait_s > gives_up_at_s:
                    raise JudgeError(
                        f"{self._name}: {method} {path}: {error}; ", _remedy(error)
                    ) from error
                await asyncio.sleep(wait_s)
                is_lost = error.failure.kind != FailureKind.RATE_LIMITED and error.status != 400
                if found is not None and is_lost and (left := await found()) is not None:
                    return left


def _may_pass(error: CallError) -> bool:
    is_early = error.status == 400 and _NOT_FOUND_YET in error.failure.detail.lower()
    return error.failure.kind in _TRANSIENT or (error.status or 0) >= 500 or is_early


def _remedy(error: CallError) -> Any:
    if error.failure.kind == FailureKind.SPENT:
        return SPENT
    if error.failure.kind == FailureKind.AUTH:
        return naming(
            "export the key of the account as GENRM_API_KEY, or name its variable with "
            "$api_key_env."
        )
    if error.status in _MISSING:
        return naming(
            "does $base_url have a batch API, and is it the one of the same project? Without one, "
            "`vllm run-batch -i REQUESTS -o REPLIES --model MODEL` answers the same file. Remove "
            "the .batch.json file beside the requests to submit them again."
        )
    return naming("run the same command again: batches that were submitted go on.")


def _parse_batch(batch: Any) -> Batch:
    """Parse a batch of OpenAI, or of a provider with other cases, missing fields and empty ids.

    Raises:
        JudgeError: it has no id or status.
    """
    try:
        counts = batch.get("request_counts") or {}
        metadata = batch.get("metadata") or {}
        return Batch(
            id=str(batch["id"]),
            status=str(batch["status"]).lower(),
            mark=metadata.get(_MARK),
            files=tuple(filter(None, (batch.get("output_file_id"), batch.get("error_file_id")))),
            done=int(counts.get("completed") or 0) + int(counts.get("failed") or 0),
            errors=tuple(_iter_errors(batch.get("errors"))),
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise JudgeError(f"{batch!r:.100} is not a batch of OpenAI's API. {_CHECK}") from error


def _iter_errors(errors: Any) -> Iterator[str]:
    for each in (errors.get("data") if isinstance(errors, dict) else errors) or []:
        line = "" if each.get("line") is None else f"line {each['line']}: "
        yield f"{line}{each.get('code')}: {each.get('message')}"
