"""A scripted S3 endpoint, for answers that a well-behaved server never gives."""

from collections.abc import Callable, Iterator
from email.utils import formatdate

import pytest
from small_server import Reply, Request, listening

from genrm_cli.storage.store import Store


class ScriptedS3:
    """A server whose `answer` a test sets, and whose `requests` it reads."""

    def __init__(self) -> None:
        self.answer: Callable[[Request], Reply] = lambda request: (500, {}, b"")
        self.requests: list[Request] = []
        self.url = ""
        self.store = Store(max_attempts=2)

    def reply(self, request: Request) -> Reply:
        """Answer as the test says, with a date."""
        self.requests.append(request)
        status, headers, content = self.answer(request)
        return status, {"Last-Modified": formatdate(usegmt=True), **headers}, content

    def always(self, status: int, content: bytes, **headers: str) -> None:
        """Answer every request alike from now on."""
        self.answer = lambda request: (status, headers, content)


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[ScriptedS3]:
    """Serve for the whole session, as a client is made for each endpoint and that takes time."""
    script = ScriptedS3()
    with listening(script.reply) as script.url:
        yield script


@pytest.fixture
def scripted_s3(
    scripted_server: ScriptedS3, no_real_aws: None, monkeypatch: pytest.MonkeyPatch
) -> ScriptedS3:
    """Give the endpoint with no requests so far; the test sets its `answer`."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", scripted_server.url)
    scripted_server.requests = []
    return scripted_server
