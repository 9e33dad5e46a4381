"""Where bytes are: a `Store` reads and writes every URI.

    store = Store(settings.storage)
    store.at("s3://bucket/rl/x.lease-1").create(b"mine")  # False if it exists
    with Outputs(store, overwrite=False) as outputs: ...

`contract.py` says what a location does, whatever kind it is."""

from functools import cache
from pkgutil import resolve_name

from msgspec import Struct, field

from genrm_cli.errors import UsageError, naming
from genrm_cli.settings.file_settings import StorageSettings
from genrm_cli.storage.contract import ANY_MODE, Location, Sink
from genrm_cli.storage.local.local_files import LocalFile
from genrm_cli.storage.location import REMOTE

_resolved = cache(resolve_name)


class Store(Struct, frozen=True):
    """All files and objects that the settings reach.

    Attributes:
        max_attempts: attempts of each request; the waits of 8 attempts add up to half a minute.
    """

    settings: StorageSettings = field(default_factory=StorageSettings)
    max_attempts: int = 8

    def at(self, uri: str) -> Location:
        """Return the location that a URI names; `UsageError` if nothing can be there."""
        for scheme, name in REMOTE.items():
            if uri.startswith(scheme):
                # Imported now, as boto3 takes a fifth of a second to import.
                location: Location = _resolved(name)(uri, self.settings, self.max_attempts)
                return location
        return LocalFile(uri)

    def open_sink(self, uri: str, *, overwrite: bool, mode: int = ANY_MODE) -> Sink:
        """Open an output; without `overwrite` an existing one is refused at once."""
        location = self.at(uri)
        if not overwrite and location.exists():
            raise UsageError(
                f"{uri} exists; ", naming("use $force to replace it, or choose another output")
            )
        return location.open_sink(overwrite=overwrite, mode=mode)
