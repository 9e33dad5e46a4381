"""A server with OpenAI's batch API for tests: each look at a batch moves it on, and it misbehaves
when told.
"""

import io
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from answered_requests import Json, openai_line
from python_multipart import parse_form
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File
from small_server import Reply, Request, completion, listening

STATES = ("validating", "in_progress", "finalizing")


def judged(body: Json) -> tuple[int, Json]:
    """Answer a request with a verdict that depends on its text alone."""
    text = json.dumps(body["messages"])
    score = random.Random(text)
    verdict = {
        "score_1": score.randint(1, 5),
        "score_2": score.randint(1, 5),
        "ranking": score.randint(1, 6),
    }
    usage = {"prompt_tokens": len(text) // 4, "completion_tokens": 20}
    status, _, said = completion(json.dumps(verdict), **usage)
    return status, said


@dataclass
class BatchServer:
    """The state of the server, and what it does wrong; each list of faults is taken from the front.

    Attributes:
        faults: by route, as `POST /batches`: statuses to answer instead, or texts: `lost` (done,
            and no reply).
        finish: changes a batch's replies and errors, and returns its last status.
        looks: looks at a batch before it ends.
        kill_at: a route, `before` or `after` it is served, and what kills the client then; or after
            so many calls.
        asked: how often each request was in a batch.
        heads: the key of its requests, and the names of their headers.
    """

    answer: Callable[[Json], tuple[int, Json]] = judged
    line: Callable[[str, int, Json], Json] = openai_line
    finish: Callable[[list[Json], list[Json]], str] = lambda replies, errors: "completed"
    looks: int = 1
    states: tuple[str, ...] = STATES
    no_file: str | None = None
    empty_error_file: bool = False
    invalid: list[Json] = field(default_factory=list)
    faults: dict[str, list[Any]] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    batches: dict[str, Json] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    heads: set[tuple[str | None, ...]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""
    kill_at: tuple[str, str, Callable[[], None]] | None = None
    kill_after: tuple[int, Callable[[], None]] | None = None

    def handle(self, request: Request) -> Reply | None:
        """Answer a request, if it is answered."""
        words = urlsplit(request.path).path.removeprefix("/v1/").split("/")
        route = f"{request.method} /{words[0]}" + (
            "/" + words[-1] if len(words) > 2 else "/id" if len(words) > 1 else ""
        )
        self.heads.add((request.headers.get("authorization"), *request.headers))
        with self.lock:
            self.calls[route] += 1
            fault = self.faults.get(route, []).pop(0) if self.faults.get(route) else None
            if isinstance(fault, int):
                patience = {"Retry-After": "0"} if fault == 429 else {}
                return fault, patience, {"error": {"message": f"told to answer {fault}"}}
            if isinstance(fault, dict):
                return 400, {}, {"error": fault}
            if self._kills(route, "before"):
                return None
            status, content = self._reply(route, words, request)
            is_lost = self._kills(route, "after") or fault == "lost"
            return None if is_lost else (status, {}, content)

    def _kills(self, route: str, when: str) -> bool:
        if self.kill_after is not None:
            left, kill = self.kill_after
            self.kill_after = left - 1, kill
            if left <= 1:
                kill()
                return True
        if self.kill_at is None or self.kill_at[:2] != (route, when):
            return False
        self.kill_at[2]()
        self.kill_at = None
        return True

    def _reply(self, route: str, words: list[str], request: Request) -> tuple[int, Any]:
        if route == "POST /files":
            return self._upload(request)
        if route == "POST /batches":
            return 200, self._create(json.loads(request.body))
        if route == "GET /batches":
            return 200, {"data": list(self.batches.values())[::-1]}
        if words[1] not in (self.batches if words[0] == "batches" else self.files):
            return 404, {"error": {"message": f"No {words[0]} found with id '{words[1]}'"}}
        if route == "GET /files/content":
            return 200, self.files[words[1]][1]
        if route == "POST /batches/cancel":
            self.batches[words[1]]["status"] = "cancelled"
        elif route == "GET /batches/id":
            self._go_on(self.batches[words[1]])
        return 200, self.batches[words[1]]

    def _upload(self, request: Request) -> tuple[int, Json]:
        """Keep the file of a form; refuse what a server cannot read as the form of a batch."""
        fields: dict[bytes, bytes | None] = {}
        uploads: list[File] = []

        def add_field(field: Field) -> None:
            fields[field.field_name] = field.value

        headers = {
            "Content-Type": request.headers.get("content-type", "").encode(),
            "Content-Length": str(len(request.body)).encode(),
        }
        try:
            parse_form(headers, io.BytesIO(request.body), add_field, uploads.append)
        except FormParserError as error:
            return 400, {"error": {"message": f"not a form: {error}"}}
        if fields != {b"purpose": b"batch"} or [file.field_name for file in uploads] != [b"file"]:
            return 400, {"error": {"message": "expected the fields `purpose` and `file`"}}
        upload = uploads[0]
        upload.file_object.seek(0)
        return 200, self._file((upload.file_name or b"").decode(), upload.file_object.read())

    def _file(self, name: str, content: bytes) -> Json:
        id_ = f"file-{len(self.files)}"
        self.files[id_] = name, content
        return {"id": id_, "object": "file", "filename": name, "purpose": "batch"}

    def _create(self, given: Json) -> Json:
        assert given["endpoint"] == "/v1/chat/completions"
        assert given["completion_window"] == "24h"
        lines = [json.loads(line) for line in self.files[given["input_file_id"]][1].splitlines()]
        assert len({line["body"]["model"] for line in lines}) == 1
        assert len({line["custom_id"] for line in lines}) == len(lines)
        batch = {"id": f"batch_{len(self.batches)}", "status": "validating", "looks": 0, **given}
        batch |= {"output_file_id": None, "error_file_id": None, "errors": None}
        batch["request_counts"] = {"total": len(lines), "completed": 0, "failed": 0}
        self.batches[batch["id"]] = batch
        if not self.invalid:
            self.asked.update(line["custom_id"] for line in lines)
        return batch

    def _go_on(self, batch: Json) -> None:
        batch["looks"] += 1
        if (
            batch["output_file_id"]
            or batch["error_file_id"]
            or batch["status"] in ("failed", "expired", "completed")
        ):
            return
        if self.invalid and (error := self.invalid.pop(0)):
            batch |= {"status": "failed", "errors": {"object": "list", "data": [error]}}
            return
        if batch["looks"] <= self.looks and batch["status"] != "cancelled":
            batch["status"] = self.states[min(batch["looks"], len(self.states)) - 1]
            return
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]][1].splitlines()]
        answered = [(line["custom_id"], *self.answer(line["body"])) for line in lines]
        good = [self.line(id_, status, body) for id_, status, body in answered if status == 200]
        bad = [self.line(id_, status, body) for id_, status, body in answered if status != 200]
        random.Random(1).shuffle(good)
        status = self.finish(good, bad)
        batch["status"] = "cancelled" if batch["status"] == "cancelled" else status
        batch["request_counts"] |= {"completed": len(good), "failed": len(bad)}
        for name, replies in (("output_file_id", good), ("error_file_id", bad)):
            content = "".join(
                line if isinstance(line, str) else json.dumps(line) + "\n" for line in replies
            )
            is_made = replies or (name == "error_file_id" and self.empty_error_file)
            batch[name] = self._file(name, content.encode())["id"] if is_made else self.no_file


@contextmanager
def serving(**given: Any) -> Iterator[BatchServer]:
    """Keep a server; see `BatchServer`."""
    server = BatchServer(**given)
    with listening(server.handle) as url:
        server.url = f"{url}/v1"
        yield server
