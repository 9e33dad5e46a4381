"""The watch over a cluster's head node."""

import asyncio

import pytest

from genrm_cli.cluster.head import watch_head
from genrm_cli.errors import StorageError


def test_a_head_that_stays_away_ends_the_run() -> None:
    """While it accepts connections, the watch goes on; when it is gone, the error says what to do."""

    async def lose_head() -> None:
        came = asyncio.Semaphore(0)
        server = await asyncio.start_server(lambda reader, writer: (writer.close(), came.release()), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        watching = asyncio.create_task(watch_head(f"{host}:{port}", absence_limit_s=0.05, every_s=0.01))
        for _ in range(10):
            await came.acquire()
        assert not watching.done()
        server.close()
        await server.wait_closed()
        await watching

    with pytest.raises(StorageError, match="run the same command again"):
        asyncio.run(lose_head())
