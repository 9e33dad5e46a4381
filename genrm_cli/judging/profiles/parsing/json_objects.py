"""Find the JSON objects that stand in prose: a judge's reply is text with an object in it, not a document.

An object is claimed by `{`, a quoted key and a colon; what stands inside a claim is never an object of its
own. So a fragment of a broken or torn object (an entry of a list of rubrics, a candidate's JSON that the judge
quotes) cannot be taken for what the judge says at the top level. Braces of prose, code and LaTeX claim nothing.
All of it takes time linear in the text, whatever the text.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Pairs = tuple[tuple[str, object], ...]
"""A decoded object: its members in order, repeated keys included. Objects within it are `Pairs` too."""

_CLAIM = re.compile(r'\{[ \t\r\n]*+"(?:[^"\\\r\n]|\\.){0,200}"[ \t\r\n]*+:')
# The string alternative may end at the end of the text: without it an unclosed quote would be tried again from
# each later quote, and a megabyte of quotes would take minutes. Possessive (`*+`) for the same reason.
_BRACE_OR_STRING = re.compile(r'[{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BACKSLASH = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_FENCE = "```"

# Integers are read as floats: `int` refuses more than 4,300 digits with an error that is not JSONDecodeError.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=tuple, parse_int=float)


@dataclass(frozen=True, slots=True)
class FoundObject:
    """A top-level `{...}` of a text.

    Attributes:
        start: where its `{` stands.
        end: one past its `}`; the length of the text if it is never closed.
        fenced: the nearest code fence before it is marked as JSON.
        pairs: what it holds; None if it cannot be decoded, or holds none of the keys asked for.
    """

    start: int
    end: int
    fenced: bool
    pairs: Pairs | None


def find_closing_brace(text: str, start: int) -> int | None:
    """Return the index of the `}` that closes the `{` at `start`, or None.

    Braces within double-quoted strings do not count; a string that is never closed runs to the end.
    """
    depth = 0
    for token in _BRACE_OR_STRING.finditer(text, start):
        brace = token[0]
        if brace == "{":
            depth += 1
        elif brace == "}":
            depth -= 1
            if depth == 0:
                return token.start()
    return None


def iter_objects(text: str, keys: tuple[str, ...]) -> Iterator[FoundObject]:
    """Yield the top-level objects of a text, first to last.

    Args:
        text: any text.
        keys: objects whose source names none of these are not decoded.
    """
    position, fenced = 0, False
    while claim := _CLAIM.search(text, position):
        start = claim.start()
        fence = text.rfind(_FENCE, position, start)
        if fence >= 0:
            fenced = text[fence + len(_FENCE) : fence + len(_FENCE) + 4].lower() == "json"
        brace = find_closing_brace(text, start)
        end = len(text) if brace is None else brace + 1
        body = text[start:end]
        wanted = brace is not None and any(key in body for key in keys)
        yield FoundObject(start, end, fenced, decode_object(body) if wanted else None)
        position = end


def stands_outside(text: str, word: str, objects: Iterable[FoundObject]) -> bool:
    """Tell whether a word stands anywhere but within these objects, where it is a quotation."""
    position = 0
    for found in objects:
        if text.find(word, position, found.start) >= 0:
            return True
        position = found.end
    return text.find(word, position) >= 0


def decode_object(source: str) -> Pairs | None:
    r"""Decode one JSON object, forgiving what language models do to strings; None if that is not enough.

    Raw newlines and control characters are allowed in strings. A backslash that begins no JSON escape
    (`\Delta`, `\underline`) is read as a plain backslash, but only if the object cannot be decoded as it is.
    """
    pairs = _decode(source)
    if pairs is None and "\\" in source:
        pairs = _decode(_BACKSLASH.sub(lambda found: found[0] if len(found[0]) > 1 else r"\\", source))
    return pairs


def _decode(source: str) -> Pairs | None:
    try:
        value: object = _DECODER.decode(source)
    except (json.JSONDecodeError, RecursionError):  # RecursionError: nested thousands of levels deep
        return None
    return value if isinstance(value, tuple) else None
