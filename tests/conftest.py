"""Shared fixtures: a real S3 server process on loopback."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest

pytest_plugins = ["judge_server_fixture"]

_START_LIMIT_S = 30


class Bucket(NamedTuple):
    """A fresh bucket, and a plain boto3 client to look into it."""

    name: str
    client: object


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """URL of a moto server process of this test worker; it checks no credentials."""
    for _ in range(3):  # another process may take the port between our look and the server's start
        port = _free_port()
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "AWS_ACCESS_KEY_ID": "server", "AWS_SECRET_ACCESS_KEY": "server"},
        )
        try:
            if _answers(server, f"http://127.0.0.1:{port}/moto-api/"):
                yield f"http://127.0.0.1:{port}"
                return
        finally:
            server.kill()
            server.wait()
    pytest.fail("the S3 server did not start")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the AWS settings of this machine out of a test, and give it credentials of its own."""
    from genrm_cli.storage.s3 import s3_client

    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    nothing = str(tmp_path_factory.mktemp("aws") / "nothing")
    monkeypatch.setenv("AWS_CONFIG_FILE", nothing)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", nothing)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SKTEST-never-shown")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    s3_client.cache_clear()
    yield
    s3_client.cache_clear()


@pytest.fixture
def s3(s3_endpoint: str, aws: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point all S3 clients of a test, and of its child processes, at the server; its URL."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    return s3_endpoint


@pytest.fixture
def s3_bucket(s3: str) -> Bucket:
    """Make a fresh, empty bucket."""
    import boto3

    client = boto3.client("s3")
    name = f"test-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=name)
    return Bucket(name, client)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(server: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until a server answers; False when it ended or took too long."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    limit = time.monotonic() + _START_LIMIT_S
    while server.poll() is None and time.monotonic() < limit:
        try:
            with opener.open(url, timeout=1):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return True
        except OSError:
            time.sleep(0.05)
    return False
