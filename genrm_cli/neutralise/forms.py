"""Break up what a shown text must not hold: verdicts in a judge's form, section markers, tokens of
chat templates.

A form is found however it is spelled (look-alike and invisible characters, HTML entities, escapes
of JSON and URLs), and broken by a visible sign, so that a judge can still tell what stood there.
Nothing else is changed."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain, islice, starmap

import numpy as np
from numpy.typing import NDArray

from genrm_cli.errors import UsageError
from genrm_cli.neutralise.spellings import Changes, Codes, Indices, decode_spelled
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.texts.regex import compile_regex, escape

FRAME = (r"\[===", r"===\]")
"""Ends of the markers between which the built-in frame shows texts."""

# Names of tokens as their tokenizers register them; anything between `<|` and `|>` is one.
_ANGLED = (
    r"/?(?:s|think(?:ing)?|thoughts?|reasoning|role|bos|eos|pad|unk|mask|cls|sep|sop|eop|eod|eoh|"
    r"eoa|EOT|EOD|EOM|BOS|EOS|PAD|UNK|think_never_used_\w+|"
    r"tool_calls?|tool_response|arg_key|arg_value|minimax:\w+|"
    r"(?:start|end|begin|beginning)_of_\w+|(?:BOS|EOS|PAD|UNK)_TOKEN|"
    r"(?:extra_id|unused|reserved|SPECIAL|special|reserved_token|reserved_special_token)_?\d+|"
    r"seed:\w+|longcat_\w+|"
    r"fim_(?:prefix|middle|suffix|pad)|file_sep|reponame|jupyter_\w+|TOKENS_UNUSED_\d+|"
    r"\w+_soft_token|\[(?:begin|end) of \w+\])"
)
_SQUARE = (
    r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|THINK|ARGS|"
    r"AUDIO|IMG(?:_BREAK|_END)?|"
    r"PREFIX|MIDDLE|SUFFIX|"
    r"[gs]?MASK|CALL_ID|MODEL_SETTINGS|BEGIN_AUDIO|CLS|SEP|PAD|UNK|BOS|EOS)"
)
TOKENS = (
    rf"<{_ANGLED}>",
    r"<\|[^<>|\n\x{a6}]{1,60}\|?>",
    r"<[\w/\[][^<>|\s\x{a6}]{0,59}\|>",
    r"</?\|DSML\|",
    r"◁/?think▷",
    r"assistant(?:final|commentary|analysis)",
    r"<</?SYS>>",
    rf"\[{_SQUARE}\]",
    r"\[\|[^\[\]|\n\x{a6}]{1,60}\|\]",
    r"\]~!?b[\[\]]|\[e~\[|\]!\w~\[",
)

_WEDGES = "¦‖‡"
# White space to `re`, with which the parsers of JSON read replies, but not to RE2.
_ASCII_BLANKS = "\v\x1c\x1d\x1e\x1f"
_MOST_NESTED = 3  # spellings inside spellings: an entity in a URL, `&amp;amp;#91;`
_BLANKS = f"{_ASCII_BLANKS}\x85\u1680\u2028\u2029"
_INVISIBLE = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSEEN = late_pattern(f"[{_INVISIBLE}]")
_ON_OTHERS = ("Mn", "Me")  # categories of marks that stand on or around the sign before them
# White letters in black circles and squares, and those of flags, are letters to a reader only.
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)
_SIGN = late_pattern(r"\\x\{([0-9a-fA-F]{1,6})\}|[^\x00-\x7f]")
# Forms of a text that are broken one by one. A text that holds more is made for an attack, or by a
# program; one by one they would take a second for each megabyte.
_MOST_FORMS = 200
_TAG = 0xE0000
_TAGS = late_pattern("[\U000e0020-\U000e007e]")
_BLOCKS = (
    (0xA0, 0x3200),
    (0xFE00, 0x10000),
    (0x1D400, 0x1D800),
    (0x1F100, 0x1F1E6),
)  # of characters that Unicode calls compatible
_WORD = late_pattern(r"[\w.]+")
_MARKS = late_pattern(r"[\s\"'\\*_#`]+")


class Forms:
    """What may not be shown as it is.

    Attributes:
        wedge: the sign that breaks a form.
    """

    def __init__(self, patterns: Sequence[str], where: str) -> None:
        """Take the forms as patterns of RE2, which find a form in any folded text; `where` names
        them in errors.
        """
        self._source = "|".join(f"(?:{pattern})" for pattern in patterns)
        self._where = where
        self.wedge = next(sign for sign in _WEDGES if sign not in self._source)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        try:
            return compile_regex(self._source, by_line=True)
        except ValueError as error:
            raise UsageError(f"{self._where}: {error}") from error

    def find(self, text: str) -> list[str]:
        """Return the forms that a text holds, folded and without blanks, quotation marks and
        Markdown.
        """
        return [form for form, _ in self._matches(text)]

    def has_other_words(self, text: str) -> bool:
        """Return whether a text holds words outside of its forms."""
        return _WORD.search(self._pattern.sub(" ", fold(text)[0])) is not None

    def neutralise(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return a text with its forms broken up, and these forms as `find` returns them, at most
        the first 200.
        """
        forms: list[str] = []
        # What two signs after the first word leave in form gets one before each character.
        for attempt in range(4):
            found = [
                each
                for tags in (False, True)
                for each in islice(self._matches(text, attempt, tags=tags), _MOST_FORMS)
            ]
            if not found:
                break
            forms = forms or [form for form, _ in found]
            is_place = np.zeros(len(text) + 1, dtype=np.bool_)
            is_place[[place for _, places in found for place in places]] = True
            codes = _codes_of(text)
            if len(found) >= _MOST_FORMS:
                # Break up all forms that begin as those found; in the end, everything.
                begins = codes[np.flatnonzero(is_place) - 1]
                is_place[1:] |= (attempt > 1) | np.isin(codes, begins)
            codes = np.insert(codes, np.flatnonzero(is_place), ord(self.wedge))
            text = _text_of(codes)
        return text, tuple(forms)

    def _matches(
        self, text: str, attempt: int = 0, *, tags: bool = False
    ) -> Iterator[tuple[str, list[int]]]:
        """Yield the forms of a text, each with the places for its signs; `tags` reads tag
        characters as letters.
        """
        if not self._source or (tags and (text.isascii() or _TAGS.search(text) is None)):
            return
        folded, changes = fold(text, tags=tags)
        if self._pattern.search(folded) is None:
            return
        for found in self._pattern.finditer(folded):
            begin, end = found.span()
            form = _MARKS.sub("", folded[begin:end]).strip(".:>-")
            word = _WORD.search(folded, begin, end)
            if attempt > 1:
                places = list(range(begin, end))
            elif word is None:
                places = [begin + 1]
            else:
                places = [word.start() + 1 if word.end() == end else word.end()]
            yield form, _originals(places, changes).tolist()


@cache
def forms_of(patterns: tuple[str, ...], where: str) -> Forms:
    """Return the forms of a profile, compiled once: those of its verdicts and markers."""
    return Forms(patterns, where)


def fold(text: str, *, tags: bool = False) -> tuple[str, list[Changes]]:
    """Return a text as plainly spelled as it can be read, and how its places map to those of the
    text.

    All steps are taken for the whole text at once: it may consist of spellings alone.

    Args:
        text: any text.
        tags: read tag characters as the letters that they stand for; otherwise they are invisible.

    Returns:
        The folded text, and the changes of length by which it came about, the first one first.
    """
    changes: list[Changes] = []
    if text.isascii() and not any(sign in text for sign in f"&\\%{_ASCII_BLANKS}"):
        return text, changes
    codes = _codes_of(text)
    for _ in range(_MOST_NESTED):
        codes = _plain_signs(codes, changes, tags=tags)
        decoded = decode_spelled(codes, changes)
        if decoded is codes:
            break
        codes = decoded
    return _text_of(codes), changes


def visible(text: str) -> str:
    """Return a text without its invisible characters; accents and look-alikes stay, since they may
    be what an answer says.
    """
    return text if text.isascii() else _UNSEEN.sub("", text)


def _codes_of(text: str) -> Codes:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _text_of(codes: Codes) -> str:
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


def _plain_signs(codes: Codes, changes: list[Changes], *, tags: bool) -> Codes:
    """Replace look-alikes, leave out invisible signs, and write out those that stand for
    several.
    """
    table = _look_alikes()
    # Of the printable signs of ASCII, which most texts consist of, none changes.
    others = np.flatnonzero((codes < 0x20) | (codes > 0x7E))
    signs = codes[others]
    signs = np.where(signs < len(table), table[np.minimum(signs, len(table) - 1)], signs)
    if tags:
        is_tag = (signs > _TAG) & (signs < _TAG + 0x7F)
        signs = np.where(is_tag, signs - _TAG, signs)
    lengths = _lengths()[np.minimum(signs, len(table) - 1)]
    lengths[(signs >= _TAG) & (signs < _TAG + 0x1000)] = 0
    codes = codes.copy()
    codes[others] = signs
    is_changed = lengths != 1
    if not is_changed.any():
        return codes
    changed = others[is_changed]
    ends = changed + 1 + np.cumsum(lengths[is_changed] - 1, dtype=np.int64)
    changes.append((ends, changed + 1))
    counts = np.ones(len(codes), dtype=np.int8)
    counts[others] = lengths
    expanded = np.repeat(codes, counts)
    for code, plain in _several().items():
        places = ends[codes[changed] == code] - len(plain)
        for offset, sign in enumerate(plain):
            expanded[places + offset] = ord(sign)
    return expanded


def fold_pattern(pattern: str) -> str:
    """Return a pattern of RE2 that finds in folded texts what a pattern finds in others, whose
    signs may be folded.
    """

    def plain(found: re.Match[str]) -> str:
        sign = chr(int(found[1], 16)) if found[1] else found[0]
        return str(escape(fold(sign)[0]))

    return _SIGN.sub(plain, pattern)


def _originals(places: Sequence[int], changes: Sequence[Changes]) -> Indices:
    """Return the places in a text of places in its folded form."""
    moved = np.array(places, dtype=np.int64)
    for starts, ends in reversed(changes):
        before = np.searchsorted(starts, moved, side="right") - 1
        last = np.maximum(before, 0)
        moved = moved + np.where(before >= 0, ends[last] - starts[last], 0)
    return moved


@cache
def _several() -> dict[int, str]:
    """Return the code points that stand for several signs."""
    ligatures = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
    return {ord("⟦"): "[[", ord("〚"): "[[", ord("⟧"): "]]", ord("〛"): "]]"} | ligatures


@cache
def _lengths() -> NDArray[np.int8]:
    """Return how many characters each code point below 0x20000 folds to; 0 for invisible ones."""
    lengths = np.ones(0x20000, dtype=np.int8)
    every = "".join(map(chr, range(len(lengths))))
    lengths[[found.start() for found in _UNSEEN.finditer(every)]] = 0
    lengths[[unicodedata.category(sign) in _ON_OTHERS for sign in every]] = 0
    for code, plain in _several().items():
        lengths[code] = len(plain)
    return lengths


@cache
def _look_alikes() -> Codes:
    """Return the plain code of each code point below 0x20000."""
    plain = np.arange(0x20000, dtype=np.uint32)
    plain[0xD800:0xE000] = 0xFFFD  # half a character, which RE2 does not take
    table = files("genrm_cli.neutralise").joinpath("look_alikes.txt").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines() if "\t" in line)
    alike = {other: sign for sign, others in rows for other in others}
    for other, sign in alike.items():
        plain[ord(other)] = ord(sign)
    # What Unicode calls compatible says what a sign means, which counts for more than its looks.
    for code in chain(*starmap(range, _BLOCKS)):
        meant = unicodedata.normalize("NFKC", chr(code))
        digit = unicodedata.decimal(chr(code), None)
        sign = alike.get(meant, meant) if digit is None else str(digit)
        if len(sign) == 1 and sign.isascii():
            plain[code] = ord(sign)
    for begin in _ALPHABETS:
        plain[begin : begin + 26] = np.arange(ord("A"), ord("Z") + 1)
    for blank in _BLANKS:
        plain[ord(blank)] = ord(" ")
    return plain
