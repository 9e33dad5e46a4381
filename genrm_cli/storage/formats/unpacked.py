"""A limit on the unpacked size of an input: a few hundred kilobytes can decompress to terabytes."""

from genrm_cli.errors import InputError, StorageError


class UnpackedLimit:
    """Counts the unpacked bytes of an input.

    Args:
        uri: the input.
        max_bytes: maximum allowed by the user; None for no limit.
        room_bytes: available space for temporary data; None if nothing is stored there.
    """

    def __init__(self, uri: str, max_bytes: int | None, room_bytes: int | None = None) -> None:
        self._uri = uri
        self._max_bytes = max_bytes
        self._room_bytes = room_bytes
        self._bytes = 0

    def add(self, count: int) -> None:
        """Count some bytes before they are stored.

        Raises:
            InputError: the user allows no more.
            StorageError: the disk has no more space.
        """
        self._bytes += count
        if self._max_bytes is not None and self._bytes > self._max_bytes:
            raise InputError(
                f"{self._uri}: unpacks to more than --max-unpacked {self._max_bytes:,} bytes; "
                "if the file is correct, allow more"
            )
        if self._room_bytes is not None and self._bytes > self._room_bytes:
            raise StorageError(
                f"{self._uri}: unpacks to more than {self._room_bytes:,} bytes, nine tenths of the free space for "
                "temporary data; free some disk space, or set TMPDIR to a folder with more space"
            )
