"""The files of an input, read in order as often as needed."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import reduce
from operator import and_

from genrm_cli.errors import ChangedInputError, InputError, StorageError, UsageError
from genrm_cli.jobs.context import RunContext
from genrm_cli.storage.contract import InputIdentity
from genrm_cli.storage.location import changed, common_folder, name_below
from genrm_cli.storage.patterns import names_many
from genrm_cli.storage.source import Source


class Sources(AbstractContextManager["Sources"]):
    """The files of an input; those of a set are open one at a time, but streams."""

    def __init__(self, uris: Sequence[str], run: RunContext, name: str | None = None) -> None:
        self.uris = uris
        self.uri = uris[0] if name is None else name
        self.identities: dict[int, InputIdentity] = {}
        self._run = run
        self._kept = ExitStack()
        # A stream can be read only once. A single file stays the version that was read even if
        # it is replaced meanwhile; a set may have more files than a process may open.
        self._opened: dict[int, Source] = {}

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    @property
    def are_many(self) -> bool:
        """Whether the input is a set of several files."""
        return len(self.uris) > 1

    @property
    def identity(self) -> InputIdentity:
        """Identity of the only file; a set has a name only."""
        return InputIdentity(self.uri) if self.are_many else self.identities[0]

    @property
    def mode(self) -> int:
        """The maximum mode of outputs that contain data from every file."""
        return reduce(and_, (self._run.store.at(uri).mode() for uri in self.uris))

    def names(self) -> list[str]:
        """Return the files relative to their common folder; unchanged if there is none."""
        try:
            folder = common_folder(self.uris)
        except UsageError:
            return list(self.uris)
        return [name_below(folder, uri) for uri in self.uris]

    @contextmanager
    def open(self, number: int) -> Iterator[Source]:
        """Open a file, or open it again; `ChangedInputError` if it has changed since it was first
        opened.
        """
        with ExitStack() as opened:
            source = self._opened.get(number)
            if source is None:
                source = self._open(number)
                if source.identity.size_bytes is None or not self.are_many:
                    self._opened[number] = self._kept.enter_context(source)
                else:
                    opened.enter_context(source)
            if self.identities.setdefault(number, source.identity) != source.identity:
                raise changed(source.uri)
            yield source

    def _open(self, number: int) -> Source:
        uri = self.uris[number]
        try:
            return self._run.open_source(uri)
        except StorageError as error:
            if number in self.identities and not self._run.store.at(uri).exists():
                raise ChangedInputError(f"{uri}: gone since it was listed; run again") from error
            raise


def find_files(given: Sequence[str], run: RunContext) -> list[str]:
    """Return the files that are named, and those in folders and of patterns, each once; blocks.

    Raises:
        InputError: a folder or a pattern names no file.
    """
    uris: dict[str, None] = {}
    for uri in given:
        found = [uri]
        if names_many(uri):
            found = [each.identity.uri for each in run.store.at(uri).iter_found()]
        if not found:
            raise InputError(f"{uri}: no such files; check the path")
        uris |= dict.fromkeys(found)
    return list(uris)
