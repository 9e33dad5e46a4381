"""The fixture `genrm`, and a server that the tests of one worker share."""

from collections.abc import Iterator

import pytest
from genrm_process import Genrm
from judge_server_fixture import JudgeServer
from served import TOKEN, Served, judge_flags, serving


@pytest.fixture(scope="session")
def shared_server(
    judge_process: JudgeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Keep one server with the judge of the tests; names of groups must be unique in all tests."""
    judge_process.restore()  # or the server's probe meets the behaviour of the last test
    folder = tmp_path_factory.mktemp("serve")
    with serving(
        Genrm(folder), *judge_flags(judge_process.base_url), "--retries", "0", "--drain", "0.1s"
    ) as served:
        yield served


@pytest.fixture
def served(shared_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the shared server, its judge back to its usual behaviour."""
    return shared_server


@pytest.fixture(scope="session")
def hurried_server(
    judge_process: JudgeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Keep a server whose cohorts wait for their members for half a second."""
    judge_process.restore()
    folder = tmp_path_factory.mktemp("hurried")
    flags = [
        "--cohort-deadline",
        "0.5s",
        "--retries",
        "0",
        "--drain",
        "0.1s",
        "--price-in",
        "1",
        "--price-out",
        "7",
    ]
    with serving(Genrm(folder), *judge_flags(judge_process.base_url), *flags) as served:
        yield served


@pytest.fixture
def hurried(hurried_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the hurried server, its judge back to its usual behaviour."""
    return hurried_server


@pytest.fixture(scope="session")
def limited_server(
    judge_process: JudgeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Keep a server with a token and with small limits."""
    judge_process.restore()
    folder = tmp_path_factory.mktemp("limited")
    flags = [
        "--cohort-size",
        "2",
        "--on-failure",
        "0.5",
        "--keep",
        "0.3s",
        "--max-body",
        "20000",
    ]
    flags += [
        "--max-cohorts",
        "3",
        "--retries",
        "0",
        "--drain",
        "0.1s",
    ]
    with serving(
        Genrm(folder), *judge_flags(judge_process.base_url), *flags, GENRM_SERVE_TOKEN=TOKEN
    ) as served:
        yield served


@pytest.fixture
def limited(limited_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the limited server, its judge back to its usual behaviour."""
    return limited_server
