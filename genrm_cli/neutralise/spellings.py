"""Decode the entities of HTML, the escapes of JSON and the bytes of URLs in a text, all at once.

The text is an array of code points. Each step finds the spellings of one kind with array
operations, so that a text that consists of them takes no longer than others: about 40 ms for each
megabyte, where a regular expression and a call for each took a second."""

import string
from collections.abc import Callable, Iterable
from functools import cache
from html.entities import html5
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Signs = NDArray[np.uint8]
"""A text for what looks for ASCII signs: all others are DEL, and zeros follow its end."""
Indices = NDArray[np.int64]
Changes = tuple[Indices, Indices]
"""Where each part of another length ends in a decoded text, and in the text before."""

_AMPERSAND, _PERCENT, _BACKSLASH, _HASH = map(ord, "&%\\#")
_PAD = 16  # zeros behind the text, so that a spelling cut off at its end ends there
_DEL = 0x7F
_NOTHING = -1  # the value of a spelling that stands for no character
_END = 0x110000  # of Unicode
_NAME_BASE = 64  # of the 62 letters and digits: ten of them fit into 60 bits
_LONGEST_NAME = 10  # of an entity that stands for an ASCII sign: `VerticalLine` has look-alikes


class _Spellings(NamedTuple):
    """Spellings of one kind: from `begins` to before `ends`, each for the character `values`."""

    begins: Indices
    ends: Indices
    values: Indices


def _join(parts: Iterable[_Spellings]) -> _Spellings:
    """Return spellings as one; a value beyond Unicode is nothing."""
    begins, ends, values = map(np.concatenate, zip(*parts, strict=True))
    return _Spellings(begins, ends, np.where(values < _END, values, _NOTHING))


def decode_spelled(codes: Codes, changes: list[Changes]) -> Codes:
    """Return a text with its spellings decoded, once; the same array if there are none.

    Args:
        codes: the text.
        changes: gets where lengths change.
    """
    signs = np.zeros(len(codes) + _PAD, dtype=np.uint8)
    signs[: len(codes)] = np.minimum(codes, _DEL)
    finders = (_BACKSLASH, _find_escapes), (_PERCENT, _find_bytes), (_AMPERSAND, _find_entities)
    marked = [(find, np.flatnonzero(signs == mark)) for mark, find in finders]
    found = [find(signs, places) for find, places in marked if len(places)]
    if not any(len(each.begins) for each in found):
        return codes
    spelled = _join(found)
    order = np.argsort(spelled.begins, kind="stable")
    begins, ends, values = (column[order] for column in spelled)
    has_value = values != _NOTHING
    changes.append((ends - np.cumsum(ends - begins - has_value), ends))
    # The last sign of each spelling makes room for the character; the others go. Each has three
    # signs or more, and none overlaps another, so all of these places differ.
    last = ends - 1
    depth = np.zeros(len(codes), dtype=np.int8)
    depth[begins] = 1
    depth[last] = -1
    is_kept = np.cumsum(depth, dtype=np.int8) == 0
    is_kept[last] = has_value
    decoded = codes.copy()
    decoded[last] = values
    kept: Codes = decoded[is_kept]
    return kept


def _find_escapes(signs: Signs, places: Indices) -> _Spellings:
    r"""Find `\\u005b`, `\\U0000005b`, `\\x5b` and `\\u{5b}`, behind any number of backslashes."""
    letters = signs[places + 1]
    parts = []
    for letter, count in (("x", 2), ("u", 4), ("U", 8)):
        of = places[letters == ord(letter)]
        values = _number(signs, of + 2, count)
        is_hex = values >= 0
        parts.append(_Spellings(of[is_hex], of[is_hex] + 2 + count, values[is_hex]))
    of = places[(letters == ord("u")) & (signs[places + 2] == ord("{"))]
    braced = _words(signs, of + 3, _hexadecimal(), 16, "}")
    parts.append(braced._replace(begins=of[braced.begins]))
    found = _join(parts)
    runs = places[np.diff(places, prepend=-2) > 1]  # where each run of backslashes begins
    return found._replace(begins=runs[np.searchsorted(runs, found.begins, side="right") - 1])


def _find_bytes(signs: Signs, places: Indices) -> _Spellings:
    """Find bytes such as `%5b`, and join those of one character in UTF-8; others stand for
    nothing.
    """
    given = _number(signs, places + 1, 2)
    begins = places[given >= 0]
    given = np.concatenate([given[given >= 0], np.zeros(3, dtype=np.int64)])
    follows = np.concatenate([np.diff(begins) == 3, np.zeros(3, dtype=np.bool_)])
    values = np.where(given < 0x80, given, _NOTHING)[:-3]
    for size, low, high in ((2, 0xC2, 0xE0), (3, 0xE0, 0xF0), (4, 0xF0, 0xF5)):
        of = np.flatnonzero((given >= low) & (given < high))
        code = given[of] & (0x7F >> size)
        for step in range(1, size):
            later = given[of + step]
            is_whole = follows[of + step - 1] & (later & 0xC0 == 0x80)
            of = of[is_whole]
            code = code[is_whole] << 6 | later[is_whole] & 0x3F
        values[of] = code
    return _Spellings(begins, begins + 3, values)


def _find_entities(signs: Signs, places: Indices) -> _Spellings:
    """Find `&lsqb;`, `&#91;` and `&#x5b;`."""
    is_number = signs[places + 1] == _HASH
    is_hex = is_number & (signs[places + 2] | 0x20 == ord("x"))
    hexadecimal = _hexadecimal()
    names, known = _names()
    parts = []
    for of, skipped, table, base in (
        (places[is_number & ~is_hex], 2, np.where(hexadecimal < 10, hexadecimal, -1), 10),
        (places[is_hex], 3, hexadecimal, 16),
        (places[~is_number], 1, _alphanumeric(), _NAME_BASE),
    ):
        words = _words(signs, of + skipped, table, base, ";")
        parts.append(words._replace(begins=of[words.begins]))
    named = parts.pop()
    index = np.minimum(np.searchsorted(names, named.values), len(names) - 1)
    is_known = names[index] == named.values
    parts.append(_Spellings(named.begins[is_known], named.ends[is_known], known[index[is_known]]))
    return _join(parts)


def _words(
    signs: Signs, begins: Indices, table: NDArray[np.int8], base: int, end: str
) -> _Spellings:
    """Read words of up to ten signs with a certain sign behind them, as numbers to a base.

    Args:
        signs: the text.
        begins: where words may begin.
        table: the digit that each ASCII sign is, -1 for none.
        base: of the numbers.
        end: the sign behind a word.

    Returns:
        For each word the number of its beginning, the place behind its end, and its value.
    """
    parts = []
    of = np.arange(len(begins))
    values = np.zeros(len(begins), dtype=np.int64)
    for length in range(1, _LONGEST_NAME + 1):
        digits = table[signs[begins[of] + length - 1]]
        is_word = digits >= 0
        of = of[is_word]
        values = values[is_word] * base + digits[is_word]
        is_end = signs[begins[of] + length] == ord(end)
        parts.append(_Spellings(of[is_end], begins[of[is_end]] + length + 1, values[is_end]))
        of = of[~is_end]
        values = values[~is_end]
    return _Spellings(*map(np.concatenate, zip(*parts, strict=True)))


def _number(signs: Signs, begins: Indices, count: int) -> Indices:
    """Decode `count` hexadecimal digits; negative where one is invalid."""
    digits = [_hexadecimal()[signs[begins + place]] for place in range(count)]
    numbers = np.zeros(len(begins), dtype=np.int64)
    for column in digits:
        numbers = numbers * 16 + column
    return np.where(np.min(digits, axis=0) < 0, -1, numbers)


@cache
def _hexadecimal() -> NDArray[np.int8]:
    return _table("0123456789abcdefABCDEF", lambda sign: int(sign, 16))


@cache
def _alphanumeric() -> NDArray[np.int8]:
    """Return a number from 1 for each letter and digit, -1 for other ASCII signs."""
    signs = string.digits + string.ascii_letters
    return _table(signs, lambda sign: signs.index(sign) + 1)


def _table(signs: str, value: Callable[[str], int]) -> NDArray[np.int8]:
    table = np.full(0x80, -1, dtype=np.int8)
    for sign in signs:
        table[ord(sign)] = value(sign)
    return table


@cache
def _names() -> tuple[Indices, Indices]:
    """Return numbers for the names of entities, in order, and the characters that they stand
    for.
    """
    table = {}
    for name, text in html5.items():
        name = name.removesuffix(";")
        if len(name) <= _LONGEST_NAME and len(text) == 1:
            key = 0
            for sign in name:
                key = key * _NAME_BASE + int(_alphanumeric()[ord(sign)])
            table[key] = ord(text)
    keys = sorted(table)
    return np.array(keys), np.array([table[key] for key in keys])
