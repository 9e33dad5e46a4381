"""Start or join a Ray cluster with safe defaults, and watch it."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ray

from genrm_cli.errors import SettingRef, StorageError
from genrm_cli.judging.pacing.endpoint import loop_time_s

# The store holds names and counts only; Ray would take 30 % of the memory for it.
_LOCAL = {"object_store_memory": 100_000_000, "include_dashboard": False}
_CONNECT_LIMIT_S = 10.0  # a head that is up answers within seconds, also over a slow link


def check_address(address: str) -> None:
    """Check that something listens where a cluster is to be joined; Ray would try for many minutes.
    Blocks.

    Raises:
        StorageError: it is not an address, or nothing listens there.
    """
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_LIMIT_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise StorageError(
            SettingRef("ray", address),
            f": cannot reach this cluster: {error}. Pass local, auto, or HOST:PORT of a head node "
            "that runs and that this machine may connect to.",
        ) from error


@contextlib.contextmanager
def cluster(address: str) -> Iterator[list[str]]:
    """Start or join a cluster; yield the ids of its nodes, and leave it at the end.

    Args:
        address: `local` to start one on this machine, `auto` to join one that runs here or start
            one, or HOST:PORT.

    Raises:
        StorageError: the cluster cannot be used.
    """
    # Ray prints notices about nodes and actors to stdout; the run reports what matters.
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            _init(address, **(_LOCAL if address == "local" else {}))
        except ConnectionError:  # `auto`, and no cluster runs here
            _init("local", **_LOCAL)
        try:
            yield living_nodes()
        finally:
            ray.shutdown()


def _init(address: str, **options: Any) -> None:
    try:
        ray.init(
            address,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            configure_logging=True,
            **options,
        )
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        if address == "auto" and isinstance(error, ConnectionError):
            raise
        raise StorageError(
            SettingRef("ray", address),
            f": cannot use this cluster: {in_one_line(error)}. If it has a token, set "
            "RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN as on its nodes.",
        ) from error


def in_one_line(error: Exception) -> str:
    """Return an error's message without line breaks, or its kind if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def living_nodes() -> list[str]:
    """Return the ids of the nodes that are alive. Blocks."""
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


async def watch_cluster(
    address: str,
    nodes: Callable[[], Sequence[str]],
    absence_limit_s: float = 30.0,
    every_s: float = 5.0,
) -> None:
    """Check repeatedly that the head accepts connections and knows a living node.

    Without its head, Ray ends every process after a minute; without a node, workers would wait
    indefinitely.

    Raises:
        StorageError: for `absence_limit_s`, there was no head or no node.
    """
    host, _, port = address.rpartition(":")
    heard_at_s = loop_time_s()
    while loop_time_s() - heard_at_s <= absence_limit_s:
        with contextlib.suppress(OSError, TimeoutError, ray.exceptions.RayError):
            async with asyncio.timeout(every_s):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
                writer.close()
                if await asyncio.to_thread(nodes):
                    heard_at_s = loop_time_s()
        await asyncio.sleep(every_s)
    raise StorageError(
        f"the head of the Ray cluster ({address}) cannot be reached any more, or has lost all "
        "nodes. Start a cluster, "
        "and run the same command again: what was answered is not asked again."
    )
