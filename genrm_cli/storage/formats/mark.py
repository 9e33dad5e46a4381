"""Identity of a written output. No I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """Identity of a written output; outputs of equal name and content differ in it.

    Attributes:
        size_bytes: stored size, after compression.
        upload: unique id stored with the output; None for copied files and file systems without extended attributes.
        mtime_ns: modification time of a local file; None for an S3 object, which never changes in place.
    """

    size_bytes: int
    upload: str | None
    mtime_ns: int | None = None
