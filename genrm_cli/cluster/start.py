"""Start or join a Ray cluster, as a careful user would."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

from genrm_cli.errors import StorageError

_OBJECT_STORE_BYTES = 100_000_000  # names and counts only; Ray would take 30 % of the memory


@contextlib.contextmanager
def cluster(address: str) -> Iterator[list[str]]:
    """Start or join a cluster; yield the ids of its nodes, and leave it at the end.

    Args:
        address: `local` to start one on this machine, `auto` to join one that runs here or start one, or HOST:PORT.

    Raises:
        StorageError: the cluster cannot be reached.
    """
    local = {"object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    # Ray prints notices about nodes and actors to stdout; the run tells what matters.
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
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
            raise StorageError(f"--ray {address}: cannot use this cluster: {first_line(error)}") from error
        try:
            yield [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        finally:
            ray.shutdown()


def _init(**options: Any) -> None:
    ray.init(log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True, **options)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
