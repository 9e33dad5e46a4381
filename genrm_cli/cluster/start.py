"""Start or join a Ray cluster, as a careful user would."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

import ray

from genrm_cli.errors import StorageError

_OBJECT_STORE_BYTES = 100_000_000  # names and counts only; Ray would take 30 % of the memory
_JOIN_LIMIT_S = 60


@contextlib.contextmanager
def cluster(address: str) -> Iterator[list[str]]:
    """Start or join a cluster; yield the ids of its nodes, and leave it at the end.

    Args:
        address: `local` to start one on this machine, `auto` to join one that runs here or start one, or HOST:PORT.

    Raises:
        StorageError: the cluster cannot be reached.
    """
    local = {"object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    with contextlib.redirect_stdout(sys.stderr):
        try:
            if address == "local":
                _init(address="local", **local)
            elif address == "auto":
                try:
                    _init(address="auto")
                except ConnectionError:
                    _init(address="local", **local)
            else:
                _init(address=address)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise StorageError(f"--ray {address}: cannot use this cluster: {_first_line(error)}") from error
    try:
        yield [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    finally:
        with contextlib.redirect_stdout(sys.stderr):
            ray.shutdown()


def _init(**options: Any) -> None:
    ray.init(log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True, **options)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
