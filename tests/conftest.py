"""Shared fixtures: a real S3 server process on loopback."""

import asyncio
import contextlib
import gc
import inspect
import os
import random
import secrets
import shutil
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from processes import ended_processes

pytest_plugins = [
    "cpu_of_tests",
    "genrm_fixture",
    "installed_package",
    "judge_server_fixture",
    "s3_disturber_fixture",
    "s3_stores_fixture",
    "scored_here",
    "served_fixture",
    "trainers_fixture",
    "trainers_table",
]

_IN_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2_000_000_000


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of each property where slow tests are left out; a busy machine fails none
    of them.

    Files of tests lie in memory where there is room: outputs and journals are synced, which a disk
    does slowly."""
    if _IN_MEMORY.is_dir() and shutil.disk_usage(_IN_MEMORY).free > _ROOM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))
    # A client reads all authorities that it trusts: those of the system take longer than a call.
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))
    os.environ.pop("SSL_CERT_DIR", None)
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("slow", patient)
    settings.register_profile("fast", patient, max_examples=10)
    settings.load_profile("fast" if "not slow" in config.option.markexpr else "slow")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage: they live to the end, and each pass would visit all
    of them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000)  # as the command does


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files together that share servers, those of `genrm serve` first and those of S3 in the
    middle: each worker begins with a part of the list, so few start the same servers.
    """
    of_serve = _files_with(items, "shared_server", "hurried_server", "limited_server")
    of_s3 = _files_with(items, "s3_endpoint") - of_serve
    others = [item for item in items if item.path not in of_serve | of_s3]
    half = len(others) // 2
    items[:] = [
        *(item for item in items if item.path in of_serve),
        *others[:half],
        *(item for item in items if item.path in of_s3),
        *others[half:],
    ]


def _files_with(items: list[pytest.Item], *fixtures: str) -> set[Path]:
    """Return the files of tests that use one of these fixtures."""
    return {item.path for item in items if {*fixtures} & {*getattr(item, "fixturenames", ())}}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, by the function `run` of its file where there is one."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    getattr(pyfuncitem.module, "run", asyncio.run)(pyfuncitem.obj(**arguments))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """End the processes that a test has started; those of fixtures live as long as they do."""
    with ended_processes():
        return (yield)


class Bucket(NamedTuple):
    """A fresh bucket, and a plain boto3 client to look into it."""

    name: str
    client: Any  # boto3 makes its classes at run time


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a moto server process of this test worker; it checks no credentials."""
    from s3_stores_fixture import running_store

    with contextlib.ExitStack() as opened:
        for _ in range(
            3
        ):  # another process may take the port between our look and the server's start
            with contextlib.suppress(RuntimeError):
                yield opened.enter_context(
                    running_store("moto", tmp_path_factory.mktemp("moto"))
                ).url
                return
    pytest.fail("the S3 server did not start")


@pytest.fixture(autouse=True)
def no_real_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep this machine's AWS settings out of every test: credentials of no worth, no endpoint that
    answers.
    """
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SKTEST-never-shown")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(autouse=True)
def no_real_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep journals and trusted folders out of this machine's home, and its settings out of every
    test: one that wants them names its own.
    """
    for name in list(os.environ):
        if name.startswith(("GENRM_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    monkeypatch.setenv("XDG_CONFIG_HOME", os.devnull)


@pytest.fixture
def soak_rng() -> random.Random:
    """Give a soak other random numbers each time; with the seed that a failure shows in SOAK_SEED,
    the same again.
    """
    seed = int(os.environ.get("SOAK_SEED") or secrets.randbits(32))
    print(f"SOAK_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def fresh_clients() -> Iterator[None]:
    """For tests that change AWS settings: the package keeps its S3 clients for the life of a
    process.
    """
    from genrm_cli.storage.s3.connection import s3_client

    s3_client.cache_clear()
    yield
    s3_client.cache_clear()


@pytest.fixture
def s3(s3_endpoint: str, no_real_aws: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point all S3 clients of a test, and of its child processes, at the server; its URL."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    return s3_endpoint


@pytest.fixture
def aws(s3: str) -> dict[str, str]:
    """Give the environment of a process that reaches the S3 server."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    return {name: os.environ[name] for name in names} | {"AWS_ENDPOINT_URL": s3}


@pytest.fixture(scope="session")
def s3_inspector(s3_endpoint: str) -> object:
    """Give a plain boto3 client of the server, to prepare and to look."""
    import boto3

    session = boto3.Session(
        aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1"
    )
    return session.client("s3", endpoint_url=s3_endpoint)


@pytest.fixture
def s3_bucket(s3: str, s3_inspector: Any) -> Bucket:
    """Make a fresh, empty bucket."""
    name = f"test-{uuid.uuid4().hex}"
    s3_inspector.create_bucket(Bucket=name)
    return Bucket(name, s3_inspector)
