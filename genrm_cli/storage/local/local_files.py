"""Local files, streams, pipes and devices."""

import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from genrm_cli.errors import StorageError
from genrm_cli.storage.contract import (
    ANY_MODE,
    Found,
    InputIdentity,
    Location,
    Mark,
    OpenInput,
    Sink,
    Stop,
    never,
)
from genrm_cli.storage.local.sinks import (
    LocalSink,
    StreamSink,
    is_streamed,
    publish_new,
    sync_folder,
    unwritable,
)
from genrm_cli.storage.local.unfinished import UnfinishedFile
from genrm_cli.storage.local.walk import (
    identity_of,
    iter_if_file,
    iter_matching_files,
    sorted_names,
)
from genrm_cli.storage.location import is_stream, is_unfinished_name, parse_local_path, unreadable

# The owner of outputs has to read them again in the next run, whatever the mode of the input.
_OWN_MODE = 0o600
_STDIN = 0  # its file descriptor


class LocalFile(Location):
    """A local path, or `-` for the standard output."""

    def __init__(self, uri: str) -> None:
        self.uri = parse_local_path(uri)

    def identify(self) -> InputIdentity:
        """Return the version of a file; a stream has none."""
        if is_stream(self.uri):
            return InputIdentity(self.uri)
        return identity_of(self.uri, self._status())

    def open_input(self, stop: Stop = never) -> OpenInput:
        """Open a file in place."""
        try:
            file = open(self.uri, "rb", buffering=0)  # noqa: SIM115, PTH123  (closed by the caller)
        except (OSError, ValueError) as error:
            raise unreadable(self.uri, error) from error
        return OpenInput(identity_of(self.uri, os.fstat(file.fileno())), file, is_copy=False)

    def mode(self) -> int:
        """Return the mode of a file, or of the one that is the standard input, with read and write
        access for its owner.
        """
        status = self._status()
        if not stat.S_ISREG(status.st_mode):
            return ANY_MODE
        return stat.S_IMODE(status.st_mode) & ANY_MODE | _OWN_MODE

    def find(self) -> Found | None:
        """Look at the file."""
        return next(iter_if_file(self.uri), None)

    def iter_found(self) -> Iterator[Found]:
        """Yield files; memory holds their names."""
        return iter_matching_files(self.uri)

    def iter_named(self) -> Iterator[Found]:
        """Yield files of one folder."""
        folder, slash, start = self.uri.rpartition("/")
        for name in sorted_names(folder + slash):
            if name.startswith(start) and not is_unfinished_name(name):
                yield from iter_if_file(folder + slash + name)

    def read(self) -> bytes | None:
        """Return the content of a file."""
        try:
            return Path(self.uri).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("read", error) from error

    def create(self, data: bytes) -> bool:
        """Link a complete file to its name."""
        with self._written_beside(data) as temp:
            try:
                publish_new(temp, Path(self.uri))
            except FileExistsError:
                return False
        return True

    def replace(self, data: bytes) -> None:
        """Rename a complete file."""
        with self._written_beside(data) as temp:
            temp.replace(self.uri)

    def remove(self) -> None:
        """Unlink a file."""
        try:
            Path(self.uri).unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise self._failed("removed", error) from error

    def exists(self) -> bool:
        """Return whether a file, a folder or a dangling link has this name."""
        return not is_streamed(self.uri) and os.path.lexists(self.uri)

    def mark(self) -> Mark | None:
        """Return the mark of a file."""
        if is_stream(self.uri):
            return None
        try:
            found = os.stat(self.uri)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("inspected", error) from error
        if stat.S_ISDIR(found.st_mode):
            raise StorageError(f"{self.uri}: is a folder; name a file in it")
        if not stat.S_ISREG(found.st_mode):
            return None
        return Mark(found.st_size, None, found.st_mtime_ns)

    def make_folder(self) -> None:
        """Create the folder and those above it."""
        if is_streamed(self.uri):
            return
        try:
            Path(self.uri).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.uri, error) from error

    def check_writable(self) -> None:
        """Create and remove a hidden file in the same folder."""
        if not is_streamed(self.uri):
            LocalSink(self.uri, overwrite=True).abort()

    def open_sink(self, *, overwrite: bool, mode: int) -> Sink:
        """Open a hidden file in the same folder, or a stream."""
        if is_streamed(self.uri):
            return StreamSink(self.uri)
        return LocalSink(self.uri, overwrite=overwrite, mode=mode)

    def _failed(self, what: str, error: OSError) -> StorageError:
        return StorageError(
            f"{self.uri}: cannot be {what}: {error.strerror or error}; check the path"
        )

    def _status(self) -> os.stat_result:
        try:
            return os.fstat(_STDIN) if is_stream(self.uri) else os.stat(self.uri)  # noqa: PTH116
        except (OSError, ValueError) as error:
            raise unreadable(self.uri, error) from error

    @contextmanager
    def _written_beside(self, data: bytes) -> Iterator[Path]:
        """Write a hidden file in the same folder, to be renamed or linked in the context; remove it
        if it remains.
        """
        target = Path(self.uri)
        # Of `x`, for its leases `x.lease-N` and the mark `x.commit`: the clean-up of
        # unfinished files of `x` finds it.
        of = target.with_suffix("")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with closing(UnfinishedFile(of, ANY_MODE)) as temp:
                with open(temp.descriptor, "wb", closefd=False) as file:
                    file.write(data)
                os.fsync(temp.descriptor)
                yield temp.path
            sync_folder(target.parent)
        except OSError as error:
            raise unwritable(self.uri, error) from error
