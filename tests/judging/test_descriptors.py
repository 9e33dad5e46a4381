"""File descriptors that run out are this process's lack, never the judge's failure."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from judge_server_fixture import JudgeServer
from opened_judge import Opened, with_judge

from genrm_cli.judging.pacing.descriptors import max_connections, raise_descriptor_limit


@contextmanager
def soft_limit(files: int) -> Iterator[None]:
    """Lower the soft limit of open files for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def limit_with_free(free: int) -> int:
    """Return the soft limit that leaves so many descriptors free."""
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    limit = 0
    while free > 0:
        free -= limit not in used
        limit += 1
    return limit


def test_no_comparison_is_lost_and_no_call_made_up_without_descriptors(judge_server: JudgeServer) -> None:
    """With room for about 20 connections of 64, every comparison gets its verdict, and calls are those that arrived."""
    judge_server.behave(latency_s=0.02)

    async def use(opened: Opened) -> None:
        with soft_limit(limit_with_free(20)):
            await opened.ask_all(range(300))

    opened = with_judge(use, judge_server.base_url, concurrency=64, retries=0)
    assert opened.kinds() == {None: 300}
    assert opened.budget.calls == judge_server.stats()["requests"] == 300
    assert sum(outcome.attempts for outcome in opened.outcomes.values()) == 300
    assert opened.pool.limit < 64


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    """At the start of a command the soft limit becomes the hard one; connections leave some descriptors free."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with soft_limit(256):
        assert max_connections() == 192
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert max_connections() > 192
