"""File descriptors: as many connections as this process may open."""

import asyncio
import resource
from contextlib import contextmanager

from genrm_cli.groups.check import judge_specs, open_options
from genrm_cli.judging.opening.open_judges import open_judges
from genrm_cli.judging.pacing.descriptors import max_connections, raise_descriptor_limit
from genrm_cli.settings import settings_from


@contextmanager
def soft_limit(files):
    """Lower the soft limit of open files for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_endpoints_of_a_run_share_the_descriptors():
    """The calls in flight at all endpoints together leave some descriptors free, whatever the
    concurrency.
    """
    urls = tuple(f"http://127.0.0.1:{port}/v1" for port in (1, 2, 3))
    settings = settings_from(base_url=urls, model="m", concurrency="1000")

    async def limit():
        async with open_judges(
            judge_specs(settings), open_options(settings, api_keys={})
        ) as judges:
            return judges.limit

    with soft_limit(256):
        assert asyncio.run(limit()) == 192


def test_the_soft_limit_is_raised_to_the_hard_one():
    """At the start of a command the soft limit becomes the hard one; connections leave some
    descriptors free.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with soft_limit(256):
        assert max_connections() == 192
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert max_connections() > 192
