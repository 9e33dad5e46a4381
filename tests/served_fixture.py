"""Servers that the tests of one worker share, so groups need names that no other test uses;
`serve`, for servers of one test, and `keep`, for those of wider fixtures.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import pytest
from genrm_process import Genrm
from judge_server_fixture import JudgeServer
from served import TOKEN, Served, judge_flags, serving

Serve = Callable[..., AbstractContextManager[Served]]


@pytest.fixture(scope="session")
def keep(judge_process: JudgeServer, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Give a fixture servers with the judge of the tests, by their flags, and texts by file."""

    @contextmanager
    def kept(
        flags: str = "", files: Mapping[str, str] | None = None, **environment: str
    ) -> Iterator[Served]:
        judge_process.restore()  # or the server's probe meets the behaviour of the last test
        genrm = Genrm(tmp_path_factory.mktemp("serve"))
        for name, text in (files or {}).items():
            (genrm.folder / name).write_text(text)
        words = f"--retries 0 --drain 0.1s {flags}".split()
        with serving(genrm, *judge_flags(judge_process.base_url), *words, **environment) as served:
            yield served

    return kept


@pytest.fixture
def serve(genrm: Genrm, judge_server: JudgeServer) -> Serve:
    """Give a test servers of its own with the judge of the tests, by their flags."""
    judge = judge_flags(judge_server.base_url)
    return lambda flags="", **environment: serving(genrm, *judge, *flags.split(), **environment)


@pytest.fixture(scope="session")
def shared_server(keep: Serve) -> Iterator[Served]:
    """Keep one with the usual settings."""
    with keep() as served:
        yield served


@pytest.fixture
def served(shared_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the shared server, its judge back to its usual behaviour."""
    return shared_server


@pytest.fixture(scope="session")
def hurried_server(keep: Serve) -> Iterator[Served]:
    """Keep one that has prices, and whose cohorts wait half a second for another member."""
    with keep("--cohort-idle 0.5s --cohort-deadline 1h --price-in 1 --price-out 7") as served:
        yield served


@pytest.fixture
def hurried(hurried_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the hurried server, its judge back to its usual behaviour."""
    return hurried_server


@pytest.fixture(scope="session")
def limited_server(keep: Serve) -> Iterator[Served]:
    """Keep one with a token, small limits, and a host of its own."""
    flags = "--cohort-size 2 --on-failure 0.5 --keep 0.3s --max-body 220000 --max-cohorts 3"
    more = "--max-open-bytes 2000 --allow-host genrm.example"
    with keep(f"{flags} {more}", GENRM_SERVE_TOKEN=TOKEN) as served:
        yield served


@pytest.fixture
def limited(limited_server: Served, judge_server: JudgeServer) -> Served:
    """Give a test the limited server, its judge back to its usual behaviour."""
    return limited_server
