"""The contract of `Location`, which every kind of storage fulfils.

`tests/storage/test_contract.py` checks each promise below for every kind. A new kind is one module
with a `Location`, and one row in `REMOTE` of `storage/location.py`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, NamedTuple, Protocol

from msgspec import Struct

from genrm_cli.errors import StorageError

# Mode of new files unless their input is more private, subject to the umask.
ANY_MODE = 0o666
# Between two requests another run may create or remove an object.
_LOOKS = 3

Stop = Callable[[], bool]


def never() -> bool:
    """Let work go on to its end."""
    return False


class ListingDeniedError(StorageError):
    """These credentials may not list; they may still read and write what has a name."""


class InputIdentity(Struct, frozen=True):
    """Identity of one version of an input; None for values that the storage does not provide.

    Attributes:
        size_bytes: stored size, before decompression.
        mtime_ns: modification time of a local file, which programs can set to any value.
        ctime_ns: change time of a local file, which the kernel sets whenever the file or its
            attributes change.
        inode: inode of a local file; a copy has another one.
    """

    uri: str
    size_bytes: int | None = None
    etag: str | None = None
    mtime_ns: int | None = None
    ctime_ns: int | None = None
    inode: int | None = None


class Mark(Struct, frozen=True):
    """Identity of a written output; outputs of equal name and content differ in it.

    Attributes:
        upload: unique id stored with an object; None for a local file.
        mtime_ns: modification time of a local file; None for an object, which never changes in
            place.
        sha256: digest of the stored bytes, if they were just written.
    """

    size_bytes: int
    upload: str | None
    mtime_ns: int | None = None
    sha256: str | None = None


class Found(Struct, frozen=True):
    """A listed file or object, with its age in seconds, by the clock of the storage, at least 0."""

    identity: InputIdentity
    age_s: float


class OpenInput(NamedTuple):
    """The stored bytes of one version of an input.

    Attributes:
        is_copy: whether nothing can change the content any more.
    """

    identity: InputIdentity
    content: BinaryIO
    is_copy: bool


class Sink(Protocol):
    """One output. Except for streams, nothing is visible before `commit`."""

    uri: str
    mark: Mark | None
    """Identity of this output, known after `finish`; always None for a stream."""

    def write(self, data: bytes) -> None:
        """Add uncompressed bytes."""

    def finish(self) -> None:
        """Store all content, so that only publishing can still fail; `commit` calls this if
        needed.
        """

    def commit(self) -> None:
        """Publish the output; not after `abort`."""

    def abort(self) -> None:
        """Discard uncommitted content; harmless after `commit`, and twice."""


class Location(ABC):
    """A file or object, or the folder or prefix of many. All methods block on storage.

    Errors are one-line `StorageError`s; a local input that cannot be read is an `InputError`."""

    uri: str

    # Pinned reads

    @abstractmethod
    def identify(self) -> InputIdentity:
        """Return the current version of an input, or raise an error if it is missing."""

    @abstractmethod
    def open_input(self, stop: Stop = never) -> OpenInput:
        """Open one version of an input, never a mixture of two; the caller closes the file.

        `stop` is polled while the content is copied; if it returns True, `StoppedError` is
        raised."""

    def beginning(self, count: int) -> bytes:
        """Return the first stored bytes of an input, fewer if it is shorter, without a copy."""
        with self.open_input().content as file:
            return file.read(count)

    @abstractmethod
    def mode(self) -> int:
        """Return the maximum mode of the outputs of an input: at least its owner can read and write
        them.
        """

    @abstractmethod
    def find(self) -> Found | None:
        """Return the file or object as a listing would; None if it is missing."""

    # Listings, in the order of keys, page by page; `ListingDeniedError` without the right to list

    @abstractmethod
    def iter_found(self) -> Iterator[Found]:
        """Yield every file below a folder or prefix, at any depth, or matching a pattern.

        Skips hidden files and folders, folder markers and files that are not regular; does not
        follow symbolic links to folders."""

    @abstractmethod
    def iter_named(self) -> Iterator[Found]:
        """Yield every file of one folder whose URI starts with this one, hidden ones too."""

    # Small objects, such as leases and journal segments, read and written in one piece

    @abstractmethod
    def read(self) -> bytes | None:
        """Return the content, or None if it does not exist."""

    def look(self) -> bytes | None:
        """Return the content; None also where a store denies what is missing."""
        for _ in range(_LOOKS):
            with suppress(StorageError):
                return self.read()
            if not self.exists():
                return None
        return self.read()

    @abstractmethod
    def create(self, data: bytes) -> bool:
        """Create an object and missing local folders; return False if it exists already.

        Of several concurrent callers at most one succeeds, unless a store ignores the condition.
        After a `StorageError` the object may exist anyway, if the last reply was lost."""

    @abstractmethod
    def replace(self, data: bytes) -> None:
        """Create or replace an object atomically, with missing local folders."""

    @abstractmethod
    def remove(self) -> None:
        """Remove an object if it exists."""

    # Outputs, which are published when they are complete

    @abstractmethod
    def exists(self) -> bool:
        """Return whether writing here would replace something; False for streams, pipes and
        devices.
        """

    @abstractmethod
    def mark(self) -> Mark | None:
        """Return the mark of a stored output; None for missing ones, streams, pipes and devices."""

    @abstractmethod
    def make_folder(self) -> None:
        """Create the folder of an output if it is missing, where folders exist."""

    @abstractmethod
    def check_writable(self) -> None:
        """Check that an output can be written, leaving nothing behind, before any paid call is
        made.
        """

    @abstractmethod
    def open_sink(self, *, overwrite: bool, mode: int) -> Sink:
        """Open an output in an existing folder or bucket, compressed by its suffix, a new local
        file with `mode`.

        Without `overwrite`, `commit` refuses an output that appeared meanwhile."""
