"""Servers that the tests of one worker share; names of groups must be unique in all tests."""

import contextlib

import pytest
from genrm_process import Genrm
from served import TOKEN, judge_flags, serving

QUICK = ("--retries", "0", "--drain", "0.1s")


@contextlib.contextmanager
def kept(judge, factory, *flags, **environment):
    """Keep a server with the judge of the tests."""
    judge.restore()  # or the server's probe meets the behaviour of the last test
    genrm = Genrm(factory.mktemp("serve"))
    with serving(genrm, *judge_flags(judge.base_url), *QUICK, *flags, **environment) as served:
        yield served


@pytest.fixture
def serve(genrm, judge_server):
    """Give a test servers of its own with the judge of the tests, by their flags."""
    judge = judge_flags(judge_server.base_url)
    return lambda *flags, **environment: serving(genrm, *judge, *flags, **environment)


@pytest.fixture(scope="session")
def shared_server(judge_process, tmp_path_factory):
    """Keep one with the usual settings."""
    with kept(judge_process, tmp_path_factory) as served:
        yield served


@pytest.fixture
def served(shared_server, judge_server):
    """Give a test the shared server, its judge back to its usual behaviour."""
    return shared_server


@pytest.fixture(scope="session")
def hurried_server(judge_process, tmp_path_factory):
    """Keep one whose cohorts wait half a second for another member, which has prices."""
    waits = ("--cohort-idle", "0.5s", "--cohort-deadline", "1h")
    prices = ("--price-in", "1", "--price-out", "7")
    with kept(judge_process, tmp_path_factory, *waits, *prices) as served:
        yield served


@pytest.fixture
def hurried(hurried_server, judge_server):
    """Give a test the hurried server, its judge back to its usual behaviour."""
    return hurried_server


@pytest.fixture(scope="session")
def limited_server(judge_process, tmp_path_factory):
    """Keep one with a token, small limits, and a host of its own."""
    flags = "--cohort-size 2 --on-failure 0.5 --keep 0.3s --max-body 220000 --max-cohorts 3"
    flags += " --max-open-bytes 2000 --allow-host genrm.example"
    with kept(judge_process, tmp_path_factory, *flags.split(), GENRM_SERVE_TOKEN=TOKEN) as served:
        yield served


@pytest.fixture
def limited(limited_server, judge_server):
    """Give a test the limited server, its judge back to its usual behaviour."""
    return limited_server
