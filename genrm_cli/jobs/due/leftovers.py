"""What killed runs left beside outputs."""

from threading import Lock

from genrm_cli.storage.leases import is_lease
from genrm_cli.storage.listing import iter_named
from genrm_cli.storage.location import S3Options, folder_of, stem_of
from genrm_cli.storage.outputs import MANIFEST_SUFFIX


class Leftovers:
    """Tells which outputs have leases or manifests beside them. Each folder is listed once, whichever thread asks.

    Args:
        s3: connection options.
        one_output: whether there is only one output, so that its folder need not be listed.
    """

    def __init__(self, s3: S3Options, *, one_output: bool) -> None:
        self._s3 = s3
        self._one_output = one_output
        self._stems: dict[str, set[str]] = {}
        self._locks: dict[str, Lock] = {}

    def are_beside(self, output_uri: str) -> bool:
        """Whether something was left beside an output."""
        stem = stem_of(output_uri)
        start = f"{stem}." if self._one_output else f"{folder_of(output_uri).rstrip('/')}/"
        with self._locks.setdefault(start, Lock()):
            if start not in self._stems:
                self._stems[start] = self._list(start)
        return stem.rpartition("/")[2] in self._stems[start]

    def _list(self, start: str) -> set[str]:
        names = (found.identity.uri.rpartition("/")[2] for found in iter_named(start, self._s3, flat=True))
        return {name.rpartition(".")[0] for name in names if name.endswith(MANIFEST_SUFFIX) or is_lease(name)}
