"""A real `genrm serve` on loopback, and what tests send to it."""

import contextlib
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from genrm_process import Genrm
from polling import poll_until

Json = dict[str, Any]
TOKEN = "token-of-the-tests"
# What every server takes: a group, and a member of a cohort.
GROUP = {"messages": "Why?", "responses": ["a", "b c"]}
MEMBER = {"size": 2, "messages": "Why?", "text": "one"}
READY_LIMIT_S = 300.0
REPLY_LIMIT_S = 300.0


class Served:
    """A server process, and a client of it."""

    def __init__(self, genrm: Genrm, *arguments: object, **environment: str) -> None:
        log = genrm.folder / "events.jsonl"
        self._process = genrm.start(
            "serve", "--listen", "127.0.0.1:0", "--log-json", log, *arguments, **environment
        )
        self.messages: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready.wait(READY_LIMIT_S)
        heard = [line for line in self.messages if "listening on" in line]
        if not heard:
            self._process.kill()
            raise RuntimeError("".join(self.messages))
        self.url = heard[0].split()[-1]
        token = environment.get("GENRM_SERVE_TOKEN")
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(
            base_url=self.url,
            timeout=REPLY_LIMIT_S,
            trust_env=False,
            verify=False,
            headers=self.headers,
        )
        self._log = log

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.messages.append(line.decode())
            if b"listening on" in line:
                self._ready.set()
        self._ready.set()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port."""
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        """Send JSON."""
        return self.client.post(path, content=json.dumps(body), headers=headers)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Get a page."""
        return self.client.get(path, headers=headers)

    def wait_for(self, **counts: int) -> None:
        """Wait until /healthz shows these counts."""
        poll_until(lambda: counts.items() <= self.get("/healthz").json().items())

    def group(self, **fields: Any) -> Json:
        """Judge a group; its reply."""
        reply = self.post("/v1/groups", fields)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def begin(self, path: str, body: object) -> "Waiting":
        """Send a request in a thread of its own."""
        return Waiting(self.url, path, body, self.headers)

    def post_and_leave(self, path: str, body: object, **counts: int) -> None:
        """Send a request, and close the connection once /healthz shows these counts."""
        content = json.dumps(body).encode()
        place = urlsplit(self.url)
        length = f"Content-Length: {len(content)}"
        lines = [f"POST {path} HTTP/1.1", f"Host: {place.netloc}", length]
        head = "".join(f"{line}\r\n" for line in lines) + "\r\n"
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(head.encode() + content)
            self.wait_for(**counts)

    def begin_member(self, group: str, member: object, **fields: Any) -> "Waiting":
        """Send a member in a thread of its own."""
        return self.begin(f"/v1/cohorts/{group}/members/{member}", fields)

    def begin_all(
        self, shape: str, group: object, given: Mapping[int, str], size: int
    ) -> list["Waiting"]:
        """Send members of a group by their places, each in a thread of its own."""
        asked = [SHAPES[shape](group, place, text, size) for place, text in given.items()]
        return [self.begin(*each) for each in asked]

    def metric(self, name: str) -> float:
        """Return the value of a metric."""
        page = self.get("/metrics").text
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        assert found, name
        return float(found[1])

    def memory_bytes(self) -> int:
        """Return the memory that the process has now."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def events(self) -> list[Json]:
        """Return what the server logged so far."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def signal(self) -> None:
        """Ask the server to end, as a supervisor would."""
        self._process.send_signal(signal.SIGTERM)

    def terminate(self) -> int:
        """End the server as a supervisor would, and return its exit code."""
        self.signal()
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        code = self._process.wait(READY_LIMIT_S)
        self._close()
        return code

    def kill(self) -> None:
        """End the server as the kernel would."""
        self._process.kill()
        self._process.wait(READY_LIMIT_S)
        self._close()

    def _close(self) -> None:
        self._reader.join(READY_LIMIT_S)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        self.client.close()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None


class Waiting:
    """A request in a thread of its own."""

    def __init__(self, url: str, path: str, body: object, headers: dict[str, str]) -> None:
        self._reply: httpx.Response | None = None
        self._error: httpx.HTTPError | None = None
        self._client = httpx.Client(
            base_url=url, timeout=REPLY_LIMIT_S, trust_env=False, verify=False, headers=headers
        )
        self._thread = threading.Thread(
            target=self._ask, args=(path, json.dumps(body)), daemon=True
        )
        self._thread.start()

    def _ask(self, path: str, body: str) -> None:
        with self._client:
            try:
                self._reply = self._client.post(path, content=body)
            except httpx.HTTPError as error:
                self._error = error

    @property
    def is_over(self) -> bool:
        """Whether the reply, or an error, is there."""
        return not self._thread.is_alive()

    def reply(self) -> httpx.Response:
        """Wait for the reply."""
        self._thread.join(REPLY_LIMIT_S)
        assert self._reply is not None, self._error
        return self._reply

    def json(self) -> Json:
        """Wait for a reply without an error; its content."""
        reply = self.reply()
        assert reply.status_code == 200, reply.text
        return reply.json()


@contextlib.contextmanager
def serving(genrm: Genrm, *arguments: object, **environment: str) -> Iterator[Served]:
    """Keep a server for a while; a traceback in its messages fails the test."""
    served = Served(genrm, *arguments, **environment)
    try:
        yield served
    finally:
        if not served.has_ended:
            served.terminate()
        assert not any("Traceback" in line for line in served.messages), "".join(served.messages)


def judge_flags(base_url: str) -> list[str]:
    """Return the flags that name the judge of the tests."""
    return [
        "--base-url",
        base_url,
        "--model",
        "judge",
        "--profile",
        "nemotron",
    ]


def texts(count: int, group: str = "g") -> list[str]:
    """Return responses; each is longer than the one before, so the judge of the tests prefers
    it.
    """
    return [f"{group} says:" + " word" * 3 * 2**place for place in range(count)]


def gym_response(text: str) -> Json:
    """Return a response as NeMo Gym's agent sends it."""
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    return {
        "id": "r",
        "created_at": 0,
        "model": "policy",
        "object": "response",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def verify_row(place: int, text: str, asked: str = "Why?", **fields: object) -> Json:
    """Return a row as NeMo Gym's agent sends it."""
    content = [{"type": "input_text", "text": asked}]
    return {
        "_ng_rollout_index": place,
        "responses_create_params": {"input": [{"role": "user", "content": content}]},
        "response": gym_response(text),
        **fields,
    }


# The request of one member of a group in each shape, given the group, the member's place, its text,
# and the size of the group.
SHAPES: dict[str, Callable[[object, int, str, int], tuple[str, Json]]] = {
    "cohort": lambda group, place, text, size: (
        f"/v1/cohorts/{group}/members/{place}",
        {"size": size, "messages": f"Why {group}?", "text": text},
    ),
    "gym": lambda group, place, text, size: (
        "/verify",
        verify_row(place, text, f"Why {group}?", _ng_task_index=1, cohort_size=size),
    ),
    "gym attempt": lambda group, place, text, size: (
        "/verify",
        verify_row(
            place,
            text,
            f"Why {group}?",
            _ng_group_id=group,
            _ng_group_attempt=2,
            cohort_size=size,
        ),
    ),
    "openrlhf": lambda group, _, text, size: (
        f"/openrlhf?size={size}",
        {"query": [f"Why {group}?{text}"], "prompts": [f"Why {group}?"], "labels": ["o"]},
    ),
    "slime": lambda group, _, text, size: (
        f"/slime?size={size}",
        {"prompt": f"Why {group}?", "response": text, "label": "s"},
    ),
}


def reward_in(reply: httpx.Response) -> float | None:
    """Return the reward in a reply of any shape; None for a masked row."""
    found = reply.json()
    if not isinstance(found, dict):
        return found
    if found.get("mask_sample"):
        return None
    return found["rewards"][0] if "rewards" in found else found["reward"]
