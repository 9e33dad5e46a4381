"""Decode the entities of HTML, the escapes of JSON and the bytes of URLs in a text, all at once.

The text is an array of code points. Each step finds the spellings of one kind with array
operations, so that a text that consists of them takes no longer than others: about 40 ms for each
megabyte, where a regular expression and a call for each took a second."""

from functools import cache
from html.entities import html5
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Indices = NDArray[np.int64]
Changes = tuple[Indices, Indices]
"""Where each part of another length ends in a decoded text, and in the text before."""

_AMPERSAND, _PERCENT, _BACKSLASH, _HASH = map(ord, "&%\\#")
_PAD = 16  # zeros behind the text, so that a spelling cut off at its end ends there
_NOTHING = -1  # the value of a spelling that stands for no character
_END = 0x110000  # of Unicode
_NAME_BASE = 64  # of the 62 letters and digits: ten of them fit into 60 bits
_LONGEST_NAME = 10  # of an entity that stands for an ASCII sign: `VerticalLine` has look-alikes


class _Spellings(NamedTuple):
    """Spellings of one kind: from `begins` to before `ends`, each for the character `values`."""

    begins: Indices
    ends: Indices
    values: Indices


def decode_spelled(codes: Codes, changes: list[Changes]) -> Codes:
    """Return a text with its spellings decoded, once; the same array if there are none.

    Args:
        codes: the text.
        changes: gets where lengths change.
    """
    padded = np.concatenate([codes, np.zeros(_PAD, dtype=np.uint32)])
    finders = (_BACKSLASH, _find_escapes), (_PERCENT, _find_bytes), (_AMPERSAND, _find_entities)
    found = []
    for mark, find in finders:
        places = np.flatnonzero(codes == mark)
        if len(places):
            found.append(find(padded, places))
    if not any(len(each.begins) for each in found):
        return codes
    begins, ends, values = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(begins, kind="stable")
    begins = begins[order]
    ends = ends[order]
    values = values[order]
    has_value = values != _NOTHING
    changes.append((ends - np.cumsum(ends - begins - has_value), ends))
    # The last sign of each spelling makes room for the character; the others go.
    depth = np.zeros(len(codes), dtype=np.int8)
    depth[begins] += 1
    depth[ends - 1] -= 1
    is_kept = np.cumsum(depth, dtype=np.int8) == 0
    is_kept[ends - 1] = has_value
    decoded = codes.copy()
    decoded[ends - 1] = np.where(has_value, values, 0)
    kept: Codes = decoded[is_kept]
    return kept


def _find_escapes(padded: Codes, places: Indices) -> _Spellings:
    r"""Find `\\u005b`, `\\U0000005b`, `\\x5b` and `\\u{5b}`, behind any number of backslashes."""
    letters = padded[places + 1]
    parts = []
    for letter, count in (("x", 2), ("u", 4), ("U", 8)):
        of = places[letters == ord(letter)]
        digits = _digits(padded, of + 2, count)
        of_hex = (digits >= 0).all(axis=0)
        parts.append((of[of_hex], of[of_hex] + 2 + count, _number(digits[:, of_hex])))
    of = places[(letters == ord("u")) & (padded[places + 2] == ord("{"))]
    braced = _words(padded, of + 3, _hexadecimal(), 16, "}")
    parts.append((of[braced.begins], braced.ends, braced.values))
    last, ends, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    # The run of backslashes begins behind the last place that has none.
    is_mark = padded == _BACKSLASH
    others = np.maximum.accumulate(np.where(is_mark, -1, np.arange(len(padded))))
    return _Spellings(others[last] + 1, ends, np.where(values < _END, values, _NOTHING))


def _find_bytes(padded: Codes, places: Indices) -> _Spellings:
    """Find bytes such as `%5b`, and join those of one character in UTF-8; others stand for
    nothing.
    """
    digits = _digits(padded, places + 1, 2)
    is_byte = (digits >= 0).all(axis=0)
    begins = places[is_byte]
    given = np.concatenate([_number(digits[:, is_byte]), np.zeros(3, dtype=np.int64)])
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
    values[values >= _END] = _NOTHING
    return _Spellings(begins, begins + 3, values)


def _find_entities(padded: Codes, places: Indices) -> _Spellings:
    """Find `&lsqb;`, `&#91;` and `&#x5b;`."""
    is_number = padded[places + 1] == _HASH
    is_hex = is_number & (padded[places + 2] | 0x20 == ord("x"))
    parts = []
    for of, base in ((places[is_number & ~is_hex], 10), (places[is_hex], 16)):
        begins = of + (2 if base == 10 else 3)
        table = np.where(_hexadecimal() < base, _hexadecimal(), -1)
        words = _words(padded, begins, table, base, ";")
        values = np.where(words.values < _END, words.values, _NOTHING)
        parts.append((of[words.begins], words.ends, values))
    names, known = _names()
    of = places[~is_number]
    words = _words(padded, of + 1, _alphanumeric(), _NAME_BASE, ";")
    index = np.minimum(np.searchsorted(names, words.values), len(names) - 1)
    is_known = names[index] == words.values
    parts.append((of[words.begins[is_known]], words.ends[is_known], known[index[is_known]]))
    return _Spellings(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _words(
    padded: Codes, begins: Indices, table: NDArray[np.int8], base: int, end: str
) -> _Spellings:
    """Read words of up to ten signs with a certain sign behind them, as numbers to a base.

    Args:
        padded: the text.
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
        digits = table[np.minimum(padded[begins[of] + length - 1], 0x7F)]
        is_word = digits >= 0
        of = of[is_word]
        values = values[is_word] * base + digits[is_word]
        is_end = padded[begins[of] + length] == ord(end)
        parts.append((of[is_end], begins[of[is_end]] + length + 1, values[is_end]))
        of = of[~is_end]
        values = values[~is_end]
    return _Spellings(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _digits(padded: Codes, begins: Indices, count: int) -> NDArray[np.int8]:
    """Return [count, len(begins)] the values of hexadecimal digits, -1 for other signs."""
    table = _hexadecimal()
    places = (np.minimum(begins + place, len(padded) - 1) for place in range(count))
    return np.stack([table[np.minimum(padded[column], 0x7F)] for column in places])


def _number(digits: NDArray[np.int8]) -> Indices:
    """Return the numbers that columns of hexadecimal digits stand for."""
    numbers = np.zeros(digits.shape[1], dtype=np.int64)
    for row in digits:
        numbers = numbers * 16 + row
    return numbers


@cache
def _hexadecimal() -> NDArray[np.int8]:
    table = np.full(0x80, -1, dtype=np.int8)
    for sign in "0123456789abcdefABCDEF":
        table[ord(sign)] = int(sign, 16)
    return table


@cache
def _alphanumeric() -> NDArray[np.int8]:
    """Return a number from 1 for each letter and digit, -1 for other ASCII signs."""
    signs = [chr(code) for code in range(0x80) if chr(code).isalnum()]
    table = np.full(0x80, -1, dtype=np.int8)
    table[[ord(sign) for sign in signs]] = np.arange(1, len(signs) + 1)
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
