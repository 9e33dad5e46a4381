"""Mask an API key in whatever a server echoes: plain, in pieces, or encoded."""

import base64
import html
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote

MASK = "[key]"
LEAST_SECRET_CHARS = 8  # "x" and "EMPTY" are for servers that need no key, and may well be part of an answer
_BLOCK_CHARS = 4
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}|&#?\w+;")


class KeyMask:
    """Masks one key: plain, in pieces of a third or more, as base64, hex, URL-encoded or with HTML entities."""

    def __init__(self, key: str | None) -> None:
        """Prepare the forms of a key; None and short keys are not masked."""
        is_secret = key is not None and len(key) >= LEAST_SECRET_CHARS
        self._forms = list(_iter_forms(key)) if key is not None and is_secret else []
        # A run of two blocks less one character holds a whole block, so looking for the blocks is enough.
        self._blocks = {block: form for form in self._forms for block in _iter_blocks(form)}

    def mask(self, text: str) -> str:
        """Return the text without the key; text that contains it with escapes is returned decoded."""
        text = self._mask_plain(text)
        if self._forms and _ESCAPE.search(text):
            decoded = unquote(html.unescape(text))
            masked = self._mask_plain(decoded)
            if masked != decoded:
                return masked
        return text

    def _mask_plain(self, text: str) -> str:
        for block, form in self._blocks.items():
            start = text.find(block)
            while start >= 0:
                first, last = _widen(text, form, start, form.index(block), len(block))
                # "token-" of "token-abc123" is no secret, and may well be part of an answer.
                if last - first >= max(LEAST_SECRET_CHARS, len(form) // 3):
                    text = text[:first] + MASK + text[last:]
                    last = first + len(MASK)
                start = text.find(block, last)
        return text


def _iter_forms(key: str) -> Iterator[str]:
    yield key
    raw = key.encode()
    yield raw.hex()
    if quote(key, safe="") != key:
        yield quote(key, safe="")
    # Base64 depends on the offset modulo 3, and on the text next to the key.
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        whole = encoded[(0, 2, 3)[before] : len(encoded) - ((before + len(raw)) % 3 != 0)]
        yield whole
        if set(whole) & {"+", "/"}:
            yield whole.translate({ord("+"): "-", ord("/"): "_"})


def _iter_blocks(form: str) -> Iterator[str]:
    chars = min(len(form), max(_BLOCK_CHARS, len(form) // 6))
    for start in range(0, len(form) - chars + 1, chars):
        yield form[start : start + chars]


def _widen(text: str, form: str, start: int, at: int, chars: int) -> tuple[int, int]:
    """Return the bounds of the longest piece of the form around a block found in the text."""
    first, last, before, after = start, start + chars, at, at + chars
    while first > 0 and before > 0 and text[first - 1] == form[before - 1]:
        first, before = first - 1, before - 1
    while last < len(text) and after < len(form) and text[last] == form[after]:
        last, after = last + 1, after + 1
    return first, last
