"""Watch the head node of a cluster, without which Ray ends every process of it after a minute."""

import asyncio
import contextlib
import time

import ray

from genrm_cli.errors import StorageError

_LOOK_EVERY_S = 5.0
_CONNECT_LIMIT_S = 5.0
_ABSENCE_LIMIT_S = 30.0


async def watch_head() -> None:
    """Look again and again whether the head node accepts connections.

    Raises:
        StorageError: it has not for some time.
    """
    address = ray.get_runtime_context().gcs_address
    host, _, port = address.rpartition(":")
    heard_at_s = time.monotonic()
    while True:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECT_LIMIT_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            heard_at_s = time.monotonic()
            writer.close()
        if time.monotonic() - heard_at_s > _ABSENCE_LIMIT_S:
            raise StorageError(
                f"the head node of the Ray cluster ({address}) cannot be reached any more, and the cluster ends with "
                "it. Start a cluster, and run the same command again: what was answered is not asked again."
            )
        await asyncio.sleep(_LOOK_EVERY_S)
