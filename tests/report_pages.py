"""What a page of `genrm report` holds."""

import gzip
import json
import re
from typing import Any

_ESCAPED = {
    "e": 0x7F,
    "0": 0,
    "r": 0x0D,
    "l": 0x3C,
}


def unpacked(page: str, name: str) -> Any:
    """Return the data of an inert block of a page."""
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert found is not None
    return json.loads(gzip.decompress(bytes_of(found[1])))


def bytes_of(text: str) -> bytes:
    """Return the bytes that the characters of a block hold, seven bits each."""
    codes = re.sub("\x7f(.)", lambda match: chr(_ESCAPED[match[1]]), text, flags=re.DOTALL)
    bits = "".join(f"{ord(character):07b}" for character in codes)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - len(bits) % 8, 8))
