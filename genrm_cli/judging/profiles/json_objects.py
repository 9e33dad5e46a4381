r"""Find the JSON objects within prose: a judge's reply is text that contains an object, not a
document.

An object starts with `{`, a quoted key and a colon; nothing inside it counts as a separate object.
So a fragment of a broken object (an entry of a list of rubrics, JSON quoted from a candidate)
cannot pass for the judge's own top-level object. Markup that chat models write is read through:
`score\_1`, bold keys, comments, `4/5`, a comma too many. Braces in prose, code and LaTeX do not
start an object. The time is linear in the length of any text."""

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from genrm_cli.judging.profiles.answer import (
    Answer,
    Carrier,
    Parsed,
    ambiguous,
    attempt,
    parse_answer,
    pick_own,
    refuse_open_thought,
)
from genrm_cli.judging.requests import Prompt, Reply
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import Failure

Pairs = tuple[tuple[str, object], ...]
"""A decoded object: its members in order, repeated keys included. Objects within it are `Pairs`
too.
"""

_CLAIM = late_pattern(
    r'\{(?:[ \t\r\n]|//[^\r\n]{0,200}+|\*\*)*+"(?:[^"\\\r\n]|\\.){0,200}"(?:\*\*)?[ \t\r\n]*+:'
)
# A string may run to the end of the text: otherwise an unclosed quote would be retried from each
# later quote, and a megabyte of quotes would take minutes. Possessive (`*+`) for the same reason.
_BRACE_OR_STRING = late_pattern(r'[{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_MARKUP = late_pattern(
    r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")|(?P<share>[0-9.]{1,20}+\s?/\s?[0-9]{1,9})|'
    r"//[^\r\n]*+|/\*.{0,1000}?\*/|\*\*|,(?=\s*+[}\]])",
    re.DOTALL,
)
_BACKSLASH = late_pattern(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')

# Integers are read as floats: `int` refuses more than 4,300 digits with an error that is not
# JSONDecodeError.
_DECODER = json.JSONDecoder(
    strict=False,
    object_pairs_hook=lambda pairs: tuple((_plain_key(key), value) for key, value in pairs),
    parse_int=float,
)


class FoundObject(NamedTuple):
    """A top-level `{...}` of a text, from `start` to before `end`; an unclosed one extends to the
    end of the text.

    `pairs` has its members; None if it cannot be decoded or has none of the wanted keys.
    """

    start: int
    end: int
    pairs: Pairs | None


def find_closing_brace(text: str, start: int) -> int | None:
    """Return the index of the `}` that closes the `{` at `start`, strings apart; None without
    one.
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


def find_objects(text: str, keys: tuple[str, ...]) -> list[FoundObject]:
    """Return the top-level objects of a text in order, those whose source has none of the keys
    without their members.

    If none has a key at its top level, an object in which one member alone has some is read as this
    member."""
    found = list(_iter_objects(text, keys))
    if any(_has_a_key(each.pairs, keys) for each in found):
        return found
    return [each._replace(pairs=_unwrap(each.pairs, keys)) for each in found]


def _iter_objects(text: str, keys: tuple[str, ...]) -> Iterator[FoundObject]:
    pattern = key_pattern(keys)
    position = 0
    while claim := _CLAIM.search(text, position):
        start = claim.start()
        pairs = None
        try:
            pairs, position = _DECODER.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            brace = find_closing_brace(text, start)
            position = len(text) if brace is None else brace + 1
            pairs = None if brace is None else decode_object(text[start:position])
        is_wanted = pattern.search(text, start, position) is not None
        yield FoundObject(start, position, pairs if is_wanted else None)


def _has_a_key(pairs: object, keys: tuple[str, ...]) -> bool:
    return isinstance(pairs, tuple) and any(name in keys for name, _ in pairs)


def _unwrap(pairs: Pairs | None, keys: tuple[str, ...]) -> Pairs | None:
    stated = [value for _, value in pairs or () if _has_a_key(value, keys)]
    return stated[0] if len(stated) == 1 else pairs  # type: ignore[return-value]


def _plain_key(key: str) -> str:
    plain = key.replace("\\_", "_")
    return plain[2:-2] if plain.startswith("**") and plain.endswith("**") else plain


def text_without(text: str, objects: Iterable[FoundObject], start: int = 0) -> str:
    """Return the text from `start` on, without these objects."""
    pieces = []
    position = start
    for found in objects:
        pieces.append(text[position : found.start])
        position = found.end
    return "\n".join([*pieces, text[position:]])


def parse_object(
    reply: Reply,
    prompt: Prompt,
    read: Callable[[Pairs], Parsed],
    keys: Sequence[str],
    every_key: Sequence[str],
) -> Parsed | Failure:
    """Parse the object with one of the keys at its top level; it may be repeated, but not with
    another verdict.

    Objects that the judge quotes from a response do not count. A judge that quotes a response
    without escaping its quotation marks can break its own object in two, and a response can be
    written to cause that: a reply is `ambiguous` if another object with a key cannot be decoded, or
    if any key, also of those below the top level, follows the object."""

    def read_answer(answer: Answer) -> Parsed:
        text = answer.text
        objects = find_objects(text, tuple(keys))
        stated = [found for found in objects if any(key in keys for key, _ in found.pairs or ())]
        refuse_open_thought(text_without(text, stated))
        carriers = [Carrier(found.start, found.end, attempt(read, found.pairs)) for found in stated]
        lacks = f"no complete object with {' or '.join(keys)}"
        own = pick_own(answer, carriers, lacks, ignore_unreadable=False)
        parsed = own.parsed
        torn = [text[found.start : found.end] for found in objects if found.pairs is None]
        if any(key_pattern(tuple(keys)).search(each) for each in torn):
            raise ambiguous(f"more than one object with {keys[0]}, and one cannot be read")
        repeats = [found for found in stated if found.start > own.start]
        if key_pattern(tuple(every_key)).search(text_without(text, repeats, own.end)):
            raise ambiguous(f"more of the same follows the object with {keys[0]}")
        return parsed

    return parse_answer(reply, prompt, read_answer)


@cache
def key_pattern(keys: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds keys with their colon, as JSON has them or in bold letters."""
    names = _spelled(map(re.escape, keys))
    # Searched for several times as fast as a pattern that begins with a look behind.
    begin = r'(?:"(?<!\\")(?:\*\*)?|\*\*"?)'
    end = r'(?:(?:\*\*)?"(?:\*\*)?\s*+:|"?\*\*\s*+:|:\*\*)'
    return re.compile(rf"{begin}(?P<key>{names}){end}")


def key_form(keys: Iterable[str]) -> str:
    """Return the pattern of RE2 for a key, also given as a pattern, with its value, in an object or
    in a string, or in bold letters.
    """
    begin = r'(?:"(?:\*\*)?|\*\*"?)'
    end = r'(?:(?:\*\*)?\\*"(?:\*\*)?\s*:|"?\*\*\s*:|:\*\*)'
    return rf'{begin}(?:{_spelled(keys)}){end}\s*(?:\\*")?[^,{{}}"\n]{{0,40}}'


def _spelled(keys: Iterable[str]) -> str:
    return "|".join(key.replace(r"\_", "_").replace("_", r"\\*_") for key in keys)


def decode_object(source: str) -> Pairs | None:
    r"""Decode one JSON object, tolerating common errors of language models in strings; None if it
    is invalid.

    Raw newlines and control characters are allowed in strings. If the object cannot be decoded
    otherwise, a backslash that starts no JSON escape (`\Delta`, `\underline`) is a plain backslash,
    and comments, bold signs and last commas are left out.
    """
    repaired = _BACKSLASH.sub(lambda found: found[0] if len(found[0]) > 1 else r"\\", source)
    for attempted in (source, repaired, _MARKUP.sub(_without_markup, repaired)):
        # RecursionError: thousands of levels deep
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            value: object = _DECODER.decode(attempted)
            return value if isinstance(value, tuple) else None
    return None


def _without_markup(found: re.Match[str]) -> str:
    if found["string"]:
        return found["string"]
    return f'"{found["share"]}"' if found["share"] else ""
