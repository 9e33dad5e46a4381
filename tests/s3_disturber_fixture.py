"""The fixture `disturbed_s3`: the S3 server of the session behind a process that disturbs what a test says."""

import base64
import http.client
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SERVER_PATH = Path(__file__).with_name("s3_disturber.py")
START_LIMIT_S = 60.0


class DisturbedS3:
    """An S3 endpoint that works as the one behind it, until rules are given.

    Attributes:
        url: what a user would pass as --s3-endpoint-url.
    """

    def __init__(self, backend_url: str) -> None:
        command = [sys.executable, "-W", "error", str(SERVER_PATH), "--backend", backend_url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(START_LIMIT_S):
                self.stop()
                raise RuntimeError("the S3 disturber did not start")
        self._port = int(os.read(self._process.stdout.fileno(), 64))
        self.url = f"http://127.0.0.1:{self._port}"

    def rule(self, **fields: Any) -> None:
        """Add a rule (fields of `s3_disturber.Rule`; `replace_after` in plain bytes here).

        Raises:
            ValueError: the process does not know a field or a value.
        """
        if isinstance(content := fields.get("replace_after"), bytes):
            fields["replace_after"] = base64.b64encode(content).decode()
        self._control("POST", "rules", fields)

    def clear(self) -> None:
        """Forget all rules and all requests."""
        self._control("DELETE", "rules")

    def requests(self, method: str | None = None, key_contains: str = "") -> list[dict[str, Any]]:
        """Return what was asked so far and answered or dropped, in the order of the answers.

        Each has method, path (`/bucket/key`), query, headers (names in lower case), body_bytes, status (what
        the client got, None for a dropped one), backend_status (None: it never heard of it) and rule (the place
        of the rule that acted, None for none).
        """
        made: list[dict[str, Any]] = self._control("GET", "requests")
        return [one for one in made if method in (None, one["method"]) and key_contains in one["path"]]

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        self._process.stdout.close()

    def _control(self, method: str, name: str, fields: dict[str, Any] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            body = None if fields is None else json.dumps(fields)
            connection.request(method, f"/-/{name}", body, {"Connection": "close"})
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(answer["error"])
        return answer


@pytest.fixture(scope="session")
def s3_disturber(s3_endpoint: str) -> Iterator[DisturbedS3]:
    """Keep one process for all tests of this worker."""
    disturbed = DisturbedS3(s3_endpoint)
    yield disturbed
    disturbed.stop()


@pytest.fixture
def disturbed_s3(s3_disturber: DisturbedS3) -> DisturbedS3:
    """Give a test the endpoint with no rules and no requests so far; its bucket comes from `s3_bucket`.

    Nothing points at it by itself: pass `--s3-endpoint-url`, `S3Options(endpoint_url=...)` or AWS_ENDPOINT_URL.
    """
    s3_disturber.clear()
    return s3_disturber
