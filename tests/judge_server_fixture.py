"""The fixtures `judge_server`, a real judge process on loopback that is reset before each test, and
`call_judged`, the command with it.
"""

import http.client
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from genrm_process import Call, Finished
from polling import LIMIT_S

SERVER_PATH = Path(__file__).with_name("judge_server.py")
START_LIMIT_S = 60.0


class JudgeServer:
    """A judge process that a test starts, steers, kills and starts again on the same port."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._behaviour: dict[str, Any] = {}

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that name it as a judge."""
        return ("--base-url", self.base_url, "--model", "m")

    @property
    def base_url(self) -> str:
        """What a user would pass as --base-url."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; waits for a port that another process holds for a moment."""
        give_up_at = time.monotonic() + START_LIMIT_S
        while (port := self._launch()) is None:
            self.stop()
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"the judge process did not start on port {self.port}")
            time.sleep(0.2)
        self.port = port

    def _launch(self) -> int | None:
        command = [
            sys.executable,
            "-W",
            "error",
            str(SERVER_PATH),
            "--port",
            str(self.port),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(START_LIMIT_S):
                return None
        line = os.read(self._process.stdout.fileno(), 64)
        return int(line) if line else None

    def behave(self, **fields: Any) -> None:
        """Replace the behaviour (fields of `judge_behaviour.Behaviour`); no field at all: the usual
        one.

        Raises:
            ValueError: the server does not know a field or a value.
        """
        self._control("POST", "behaviour", fields)
        self._behaviour = fields

    def stats(self) -> dict[str, Any]:
        """Return the counters since the last reset and the last 50 requests."""
        return self._control("GET", "stats")

    def wait_until(
        self, condition: Callable[[dict[str, Any]], bool], limit_s: float = LIMIT_S
    ) -> dict[str, Any]:
        """Return the first stats that meet the condition."""
        give_up_at = time.monotonic() + limit_s
        while not condition(stats := self.stats()):
            if time.monotonic() > give_up_at:
                raise TimeoutError(
                    f"not within {limit_s} s; the judge's counters without requests: "
                    f"{_brief(stats)}"
                )
            time.sleep(0.01)
        return stats

    def reset(self) -> None:
        """Forget counters and behaviour, and cut the connections that wait for an answer."""
        self._control("POST", "reset")
        self._behaviour = {}

    def restore(self) -> None:
        """Give it its usual behaviour and counters at zero, and a new process if the last test
        killed it.
        """
        if not self.running:
            self.stop()
            self.start()
        self.reset()

    def kill(self) -> None:
        """Kill the process as the kernel would: no goodbye to anyone."""
        assert self._process is not None
        self._process.kill()
        self.stop()

    def restart(self) -> None:
        """Start again on the same port with the behaviour it had; its counters and script start
        over.
        """
        self.stop()
        self.start()
        self.behave(**self._behaviour)

    def stop(self) -> None:
        """End the process, in whatever state it is."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        self._process.stdout.close()
        self._process = None

    def _control(
        self, method: str, name: str, fields: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            body = None if fields is None else json.dumps(fields)
            connection.request(method, f"/control/{name}", body, {"Connection": "close"})
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(answer["error"]["message"])
        return answer


def _brief(stats: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stats.items() if name != "recent"}


@pytest.fixture(scope="session")
def judge_process() -> Iterator[JudgeServer]:
    """Keep one process for all tests of this worker."""
    server = JudgeServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def judge_server(judge_process: JudgeServer) -> JudgeServer:
    """Give a test a judge with its usual behaviour and all counters at zero."""
    judge_process.restore()
    return judge_process


@pytest.fixture
def call_judged(call: Call, judge_server: JudgeServer) -> Call:
    """Give a test the command with the flags that name the judge."""

    def run(*arguments: object, **more: Any) -> Finished:
        return call(*arguments, *judge_server.flags, **more)

    return run


@pytest.fixture
def start_judge() -> Iterator[Callable[[], JudgeServer]]:
    """Give a test further judges of its own, for several endpoints."""
    started: list[JudgeServer] = []

    def start() -> JudgeServer:
        server = JudgeServer()
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()
