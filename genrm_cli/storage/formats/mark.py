"""What tells one written output from another. No I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells one written output from another, also from one with the same name and content.

    Attributes:
        size_bytes: as stored, so after compression.
        upload: an id that the output carries with it, new for each one written; None if it carries none, as a file
            that was copied, or one on a file system without extended attributes.
        mtime_ns: when a local file was last written to; None of an object, which is never changed in place.
    """

    size_bytes: int
    upload: str | None
    mtime_ns: int | None = None
