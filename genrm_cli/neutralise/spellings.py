"""Decode the entities of HTML, the escapes of JSON and the bytes of URLs in a text, all at once.

The text is an array of code points. Each step finds the spellings of one kind with array
operations, so that a text that consists of them takes no longer than others: about 40 ms for each
megabyte, where a regular expression and a call for each took a second."""

import html
from functools import cache
from html.entities import html5
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Indices = NDArray[np.int64]
Changes = tuple[Indices, Indices]
"""Where each part of another length ends in a decoded text, and in the text before."""

_AMPERSAND, _PERCENT, _BACKSLASH, _SEMICOLON, _HASH = map(ord, "&%\\;#")
_PAD = 16  # zeros behind the text, so that a spelling cut off at its end ends there
_NOTHING = -1  # the value of a spelling that stands for no character
_END = 0x110000  # of Unicode
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
        of_hex = (digits >= 0).all(axis=1)
        parts.append((of[of_hex], of[of_hex] + 2 + count, _number(digits[of_hex], 16)))
    of = places[(letters == ord("u")) & (padded[places + 2] == ord("{"))]
    digits = _digits(padded, of + 3, 6)
    counts = _leading(digits >= 0)
    ends = of + 3 + counts
    closed = (counts > 0) & (padded[ends] == ord("}"))
    values = _number(digits[closed], 16, counts[closed])
    parts.append((of[closed], ends[closed] + 1, values))
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
    is_byte = (digits >= 0).all(axis=1)
    begins = places[is_byte]
    given = np.concatenate([_number(digits[is_byte], 16), np.zeros(3, dtype=np.int64)])
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
    """Find `&lsqb;`, `&#91;` and `&#x5b;`, also with `amp;` behind the first sign, repeatedly."""
    bodies = _behind_amps(padded, places)
    is_number = padded[bodies] == _HASH
    is_hex = is_number & (padded[bodies + 1] | 0x20 == ord("x"))
    # `&amp;` by itself is an ampersand.
    is_amp = bodies > places + 1
    parts = [_Spellings(places[is_amp], bodies[is_amp], np.full(is_amp.sum(), _AMPERSAND))]
    for of, mark, base in ((is_number & ~is_hex, 1, 10), (is_hex, 2, 16)):
        table = np.where(_hexadecimal() < base, _hexadecimal(), -1)
        words = _words(padded, bodies[of] + mark, table, base)
        small = np.minimum(words.values, 0xFF)
        values = np.where(words.values < 0x100, _latin()[small], words.values)
        values = np.where(values < _END, values, 0xFFFD)
        parts.append(_Spellings(places[of][words.begins], words.ends, values))
    names, known = _names()
    of = ~is_number
    words = _words(padded, bodies[of], _alphanumeric(), 64)
    index = np.minimum(np.searchsorted(names, words.values), len(names) - 1)
    is_known = names[index] == words.values
    begins = places[of][words.begins[is_known]]
    parts.append(_Spellings(begins, words.ends[is_known], known[index[is_known]]))
    begins, ends, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not is_amp.any():
        return _Spellings(begins, ends, values)
    # Of an ampersand by itself and an entity behind it, the entity counts: it comes later.
    _, last = np.unique(begins[::-1], return_index=True)
    chosen = len(begins) - 1 - last
    return _Spellings(begins[chosen], ends[chosen], values[chosen])


def _words(padded: Codes, begins: Indices, table: NDArray[np.int8], base: int) -> _Spellings:
    """Read words of up to ten signs with a semicolon behind them, as numbers to a base.

    Args:
        begins: where words may begin.
        table: the digit that each ASCII sign is, -1 for none.

    Returns:
        For each word the number of its beginning, the place behind it, and its value.
    """
    parts = []
    of = np.arange(len(begins))
    values = np.zeros(len(begins), dtype=np.int64)
    for length in range(1, _LONGEST_NAME + 1):
        digits = table[np.minimum(padded[begins[of] + length - 1], 0x7F)]
        is_word = digits >= 0
        of = of[is_word]
        values = values[is_word] * base + digits[is_word]
        is_end = padded[begins[of] + length] == _SEMICOLON
        parts.append((of[is_end], begins[of[is_end]] + length + 1, values[is_end]))
        of = of[~is_end]
        values = values[~is_end]
    return _Spellings(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _behind_amps(padded: Codes, places: Indices) -> Indices:
    """Return the places behind ampersands and all `amp;` that follow them."""
    amps = np.flatnonzero(
        (padded[:-3] == ord("a"))
        & (padded[1:-2] == ord("m"))
        & (padded[2:-1] == ord("p"))
        & (padded[3:] == _SEMICOLON)
    )
    if not len(amps):
        return places + 1
    is_first = np.concatenate([[True], np.diff(amps) != 4])
    is_last = np.concatenate([is_first[1:], [True]])
    firsts = amps[is_first]
    index = np.minimum(np.searchsorted(firsts, places + 1), len(firsts) - 1)
    return np.where(firsts[index] == places + 1, amps[is_last][index] + 4, places + 1)


def _digits(padded: Codes, begins: Indices, count: int) -> NDArray[np.int8]:
    """Return [len(begins), count] the values of hexadecimal digits, -1 for other signs."""
    table = _hexadecimal()
    columns = [
        table[np.minimum(padded[np.minimum(begins + place, len(padded) - 1)], 0x7F)]
        for place in range(count)
    ]
    return np.stack(columns, axis=1)


def _leading(flags: NDArray[np.bool_]) -> Indices:
    """Return how many flags are set before the first that is not, by row."""
    counts: Indices = np.logical_and.accumulate(flags, axis=1).sum(axis=1)
    return counts


def _number(digits: NDArray[np.int8], base: int, counts: Indices | None = None) -> Indices:
    """Return the numbers that rows of digits, or the first of them, stand for."""
    numbers = np.zeros(len(digits), dtype=np.int64)
    for place in range(digits.shape[1]):
        more = numbers * base + digits[:, place]
        numbers = more if counts is None else np.where(place < counts, more, numbers)
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
def _latin() -> Indices:
    """Return what the references to the first 256 numbers stand for in HTML, which takes some for
    those of Windows.
    """
    return np.array([ord(html.unescape(f"&#{code};") or "\0") for code in range(0x100)])


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
                key = key * 64 + int(_alphanumeric()[ord(sign)])
            table[key] = ord(text)
    keys = sorted(table)
    return np.array(keys), np.array([table[key] for key in keys])
