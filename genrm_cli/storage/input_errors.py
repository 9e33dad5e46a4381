"""Errors of inputs, each with a remedy."""

from genrm_cli.errors import ChangedInputError, InputError


def unreadable(uri: str, error: OSError | ValueError) -> InputError:
    """Return the error for a local file, folder or stream that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"{uri}: no such file; check the path")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{uri}: is a folder; name a file in it")
    if isinstance(error, PermissionError):
        return InputError(f"{uri}: permission denied; make it readable for this user")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"{uri}: cannot be read: {reason}")


def changed(uri: str) -> ChangedInputError:
    """Return the error for an input that changed while it was read."""
    return ChangedInputError(f"{uri}: changed while being read; run again once nothing writes to it")
