"""File descriptors: the number of connections that this process may open."""

import contextlib
import resource

_KEPT = 64  # for the journal, inputs, outputs and storage


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard limit. The usual 1,024 is less than a single
    server can handle.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(
        OSError, ValueError
    ):  # macOS refuses an infinite limit; the soft limit then stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def max_connections() -> int:
    """Return the number of connections that leave enough descriptors for everything else, at least
    1.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_000_000 if soft == resource.RLIM_INFINITY else max(1, min(1_000_000, soft - _KEPT))
