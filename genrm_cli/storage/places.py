"""The files that URIs name, whatever their spelling. Local paths are looked up on disk."""

import os

from genrm_cli.storage.location import is_remote, is_stream, parse_local_path


def place_of(uri: str) -> str:
    """Return a canonical name, equal for two spellings of one file."""
    return uri if is_remote(uri) or is_stream(uri) else os.path.realpath(parse_local_path(uri))


def is_same_place(uri: str, other: str) -> bool:
    """Return whether two URIs name one file or object; False for streams."""
    return not is_stream(uri) and not is_stream(other) and place_of(uri) == place_of(other)
