"""Watch the head node of a cluster, without which Ray ends every process of it after a minute."""

import asyncio
import contextlib

from genrm_cli.errors import StorageError
from genrm_cli.judging.pacing.endpoint import loop_time_s


async def watch_head(address: str, absence_limit_s: float = 30.0, every_s: float = 5.0) -> None:
    """Look again and again whether the head node accepts connections.

    Raises:
        StorageError: it has accepted none for `absence_limit_s`.
    """
    host, _, port = address.rpartition(":")
    heard_at_s = loop_time_s()
    while loop_time_s() - heard_at_s <= absence_limit_s:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(every_s):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            heard_at_s = loop_time_s()
            writer.close()
        await asyncio.sleep(every_s)
    raise StorageError(
        f"the head node of the Ray cluster ({address}) cannot be reached any more, and the cluster ends with it. "
        "Start a cluster, and run the same command again: what was answered is not asked again."
    )
