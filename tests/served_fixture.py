"""Servers that the tests of one worker share, so groups need names that no other test uses; and
`serve`, for servers of one test.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from genrm_process import Genrm
from judge_server_fixture import JudgeServer
from served import TOKEN, Served, judge_flags, serving

_QUICK = ("--retries", "0", "--drain", "0.1s")
Serve = Callable[..., contextlib.AbstractContextManager[Served]]


@contextlib.contextmanager
def _kept(
    judge: JudgeServer, factory: pytest.TempPathFactory, *flags: str, **environment: str
) -> Iterator[Served]:
    """Keep a server with the judge of the tests."""
    judge.restore()  # or the server's probe meets the behaviour of the last test
    given = (*judge_flags(judge.base_url), *_QUICK, *flags)
    with serving(Genrm(factory.mktemp("serve")), *given, **environment) as served:
        yield served


@pytest.fixture
def serve(genrm: Genrm, judge_server: JudgeServer) -> Serve:
    """Give a test servers of its own with the judge of the tests, by their flags."""
    judge = judge_flags(judge_server.base_url)
    return lambda *flags, **environment: serving(genrm, *judge, *flags, **environment)


@pytest.fixture(scope="session")
def shared_server(
    judge_process: JudgeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Keep one with the usual settings."""
    with _kept(judge_process, tmp_path_factory) as served:
        yield served


@pytest.fixture
def served(shared_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the shared server, its judge back to its usual behaviour."""
    return shared_server


@pytest.fixture(scope="session")
def hurried_server(
    judge_process: JudgeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Keep one that has prices, and whose cohorts wait half a second for another member."""
    waits = ("--cohort-idle", "0.5s", "--cohort-deadline", "1h")
    prices = ("--price-in", "1", "--price-out", "7")
    with _kept(judge_process, tmp_path_factory, *waits, *prices) as served:
        yield served


@pytest.fixture
def hurried(hurried_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the hurried server, its judge back to its usual behaviour."""
    return hurried_server


@pytest.fixture(scope="session")
def limited_server(
    judge_process: JudgeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Keep one with a token, small limits, and a host of its own."""
    flags = "--cohort-size 2 --on-failure 0.5 --keep 0.3s --max-body 220000 --max-cohorts 3"
    flags += " --max-open-bytes 2000 --allow-host genrm.example"
    token = {"GENRM_SERVE_TOKEN": TOKEN}
    with _kept(judge_process, tmp_path_factory, *flags.split(), **token) as served:
        yield served


@pytest.fixture
def limited(limited_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the limited server, its judge back to its usual behaviour."""
    return limited_server
