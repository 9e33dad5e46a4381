"""Break up what a shown text must not hold: verdicts in a judge's form, section markers, tokens of
chat templates.

A form is found however it is spelled (look-alike and invisible characters, HTML entities, escapes
of JSON and URLs), and broken by a visible sign, so that a judge can still tell what stood there.
Nothing else is changed."""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from genrm_cli.errors import UsageError
from genrm_cli.regex import compile_regex, escape

FRAME = (r"\[===", r"===\]")
"""Ends of the markers between which the built-in frame shows texts."""

# Names of tokens as their tokenizers register them; anything between `<|` and `|>` is one.
_ANGLED = (
    r"/?(?:s|think|role|bos|eos|pad|unk|mask|cls|sep|sop|eop|eod|eoh|eoa|(?:start|end|begin|beginning)_of_\w+|"
    r"(?:BOS|EOS|PAD|UNK)_TOKEN|"
    r"(?:extra_id|unused|reserved|SPECIAL|special|reserved_token|reserved_special_token)_?\d+|seed:\w+|longcat_\w+|"
    r"fim_(?:prefix|middle|suffix|pad)|file_sep|reponame|jupyter_\w+|TOKENS_UNUSED_\d+|"
    r"\w+_soft_token|\[(?:begin|end) of \w+\])"
)
_SQUARE = (
    r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|THINK|IMG|PREFIX|MIDDLE|SUFFIX|"
    r"[gs]?MASK|CALL_ID|MODEL_SETTINGS|BEGIN_AUDIO|CLS|SEP|PAD|UNK|BOS|EOS)"
)
TOKENS = (
    rf"<{_ANGLED}>",
    r"<\|[^<>|\n\x{a6}]{1,60}\|?>",
    r"<[^<>|\s\x{a6}]{1,60}\|>",
    r"<</?SYS>>",
    rf"\[{_SQUARE}\]",
    r"\[\|[^\[\]|\n\x{a6}]{1,60}\|\]",
    r"\]~!?b[\[\]]|\[e~\[|\]!\w~\[",
)

_WEDGES = "¦‖‡"
_SAME = {
    "ABCEHIJKMOPSTXYaceijopsxyhdqw": "АВСЕНІЈКМОРЅТХҮасеіјорѕхуһԁԛԝ",
    "ABEHIKMNOPTXYZoiuvanx": "ΑΒΕΗΙΚΜΝΟΡΤΧΥΖοιυναηχ",
    "iagl": "ıɑɡӏ",
    "<><><><><>": "‹›〈〉⟨⟩❮❯˂˃",
    "[][]{}": "【】〔〕❴❵",
    "|||||": "ǀ│┃∣❘",
    '"""""""': "“”„‟″〝〞",
    "-----==::\\\\/": "‐–—−―═꞊∶꞉⧵∖∕",
}
# White space to `re`, with which the parsers of JSON read replies, but not to RE2.
_ASCII_BLANKS = "\v\x1c\x1d\x1e\x1f"
_BLANKS = f"{_ASCII_BLANKS}\x85\u1680\u2028\u2029"
_INVISIBLE = (
    r"\x{ad}\x{34f}\x{61c}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{200b}-\x{200f}\x{202a}-\x{202e}"
    r"\x{2060}-\x{206f}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{300}-\x{36f}\x{e0000}-\x{e0fff}"
)
# RE2: linear whatever the text, and several times as fast as `re` where there is nothing to find.
_SPELLED = compile_regex(
    r"&(?:amp;)*#?[0-9A-Za-z]{1,10};|(?:%[0-9a-fA-F]{2})+"
    r"|\\+(?:u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2})"
)
_SIGN = re.compile(r"\\x\{([0-9a-fA-F]{1,6})\}|[^\x00-\x7f]")
_HIDDEN = compile_regex(f"[{_INVISIBLE}]")
_SHORT = 16  # characters of a spelling that is remembered: most entities, escapes and signs
_TAG = 0xE0000
_TAGS = re.compile("[\U000e0020-\U000e007e]")
_BLOCKS = (
    (0xA0, 0x3200),
    (0xFE00, 0x10000),
    (0x1D400, 0x1D800),
)  # of characters that Unicode calls compatible
_WORD = re.compile(r"[\w.]+")
_MARKS = re.compile(r"[\s\"'\\*_#`]+")


Changes = tuple[list[int], list[int]]
"""Where each part of another length ends in a folded text, and in the text before."""


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
        """Return a text with its forms broken up, and these forms as `find` returns them."""
        forms: list[str] = []
        # What two signs after the first word leave in form gets one before each character.
        for attempt in range(3):
            found = [
                each for tags in (False, True) for each in self._matches(text, attempt, tags=tags)
            ]
            if not found:
                break
            forms = forms or [form for form, _ in found]
            pieces: list[str] = []
            last = 0
            for place in sorted({place for _, places in found for place in places}):
                pieces += text[last:place], self.wedge
                last = place
            text = "".join((*pieces, text[last:]))
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
            places = (
                [begin + 1]
                if word is None
                else [word.start() + 1 if word.end() == end else word.end()]
            )
            if attempt > 1:
                places = list(range(begin, end))
            yield form, [_original(place, changes) for place in places]


@cache
def forms_of(patterns: tuple[str, ...], where: str) -> Forms:
    """Return the forms of a profile, compiled once: those of its verdicts and markers."""
    return Forms(patterns, where)


def fold(text: str, *, tags: bool = False) -> tuple[str, list[Changes]]:
    """Return a text as plainly spelled as it can be read, and how its places map to those of the
    text.

    Args:
        text: any text.
        tags: read tag characters as the letters that they stand for; otherwise they are invisible.

    Returns:
        The folded text, and the changes of length by which it came about, the first one first.
    """
    changes: list[Changes] = []
    is_ascii = text.isascii()
    if is_ascii and not any(sign in text for sign in f"&\\%{_ASCII_BLANKS}"):
        return text, changes
    if not is_ascii or any(sign in text for sign in _ASCII_BLANKS):
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        table = _look_alikes()
        codes = np.where(codes < len(table), table[np.minimum(codes, len(table) - 1)], codes)
        if tags:
            codes -= np.where((codes > _TAG) & (codes < _TAG + 0x7F), _TAG, 0).astype(np.uint32)
        lengths = np.where(codes < len(table), _lengths()[np.minimum(codes, len(table) - 1)], 1)
        lengths[(codes >= _TAG) & (codes < _TAG + 0x1000)] = 0
        if (lengths != 1).any():
            codes = _expanded(codes, lengths, changes)
        text = codes.tobytes().decode("utf-32-le")
    if _SPELLED.search(text) is None:
        return text, changes
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    last = size = 0
    for found in _SPELLED.finditer(text):
        spelled = found[0]
        plain = _decode_short(spelled) if len(spelled) <= _SHORT else _decode(spelled)
        pieces += text[last : found.start()], plain
        size += found.start() - last + len(plain)
        last = found.end()
        starts.append(size)
        ends.append(last)
    changes.append((starts, ends))
    return "".join((*pieces, text[last:])), changes


def _expanded(
    codes: NDArray[np.uint32], lengths: NDArray[np.int8], changes: list[Changes]
) -> NDArray[np.uint32]:
    """Replace signs that stand for none or for several others, all at once: a text may consist of
    them.
    """
    after = np.cumsum(lengths)
    changed = np.flatnonzero(lengths != 1)
    changes.append((after[changed].tolist(), (changed + 1).tolist()))
    expanded = np.repeat(codes, lengths)
    for code, plain in _several().items():
        (places,) = np.nonzero((codes == code) & (lengths > 1))
        for offset, sign in enumerate(plain):
            expanded[after[places] - len(plain) + offset] = ord(sign)
    return expanded


def fold_pattern(pattern: str) -> str:
    """Return a pattern of RE2 that finds in folded texts what a pattern finds in others, whose
    signs may be folded.
    """

    def plain(found: re.Match[str]) -> str:
        sign = chr(int(found[1], 16)) if found[1] else found[0]
        return str(escape(fold(sign)[0]))

    return _SIGN.sub(plain, pattern)


def _decode(spelled: str) -> str:
    """Return what an entity, an escape or a sequence of invisible characters stands for."""
    for _ in range(3):
        match spelled[0]:
            case "&":
                plain = html.unescape(spelled.replace("amp;", ""))
            case "\\":
                code = int(spelled.lstrip("\\").strip("uUx{}"), 16)
                plain = chr(code) if code < 0x110000 else ""
            case _:
                plain = bytes.fromhex(spelled.replace("%", "")).decode("utf-8", "ignore")
        if not plain.isascii():
            plain = "".join(_plain_signs(plain))
        is_plain = plain.isascii() and not any(sign in plain for sign in "&\\%")
        if is_plain or plain == spelled or _SPELLED.fullmatch(plain) is None:
            break
        spelled = plain
    return _HIDDEN.sub("", plain)


# A text may hold a million of them: without this, 300 kB of ligatures take five seconds.
_decode_short = lru_cache(maxsize=16_384)(_decode)


def _plain_signs(text: str) -> Iterator[str]:
    for sign in text:
        several = _several().get(ord(sign))
        if several is not None:
            yield several
        else:
            yield chr(_look_alikes()[ord(sign)]) if ord(sign) < 0x20000 else sign


def _original(place: int, changes: Sequence[Changes]) -> int:
    """Return the place in a text of a place in its folded form."""
    for starts, ends in reversed(changes):
        before = bisect_right(starts, place) - 1
        if before >= 0:
            place += ends[before] - starts[before]
    return place


@cache
def _several() -> dict[int, str]:
    """Return the code points that stand for several signs."""
    ligatures = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
    return {ord("⟦"): "[[", ord("〚"): "[[", ord("⟧"): "]]", ord("〛"): "]]"} | ligatures


@cache
def _lengths() -> NDArray[np.int8]:
    """Return for how many signs each code point below 0x20000 stands: none for invisible ones."""
    lengths = np.ones(0x20000, dtype=np.int8)
    for code in range(0x10000):
        if not 0xD800 <= code < 0xE000 and _HIDDEN.search(chr(code)) is not None:
            lengths[code] = 0
    for code, plain in _several().items():
        lengths[code] = len(plain)
    return lengths


@cache
def _look_alikes() -> NDArray[np.uint32]:
    """Return the plain code of each code point below 0x20000."""
    plain = np.arange(0x20000, dtype=np.uint32)
    plain[0xD800:0xE000] = 0xFFFD  # half a character, which RE2 does not take
    alike = {
        other: same
        for signs, others in _SAME.items()
        for same, other in zip(signs, others, strict=True)
    }
    for code in (code for begin, end in _BLOCKS for code in range(begin, end)):
        sign = unicodedata.normalize("NFKC", chr(code))
        sign = alike.get(sign, sign)
        digit = unicodedata.decimal(chr(code), None)
        if digit is not None:
            sign = str(digit)
        if len(sign) == 1 and sign.isascii():
            plain[code] = ord(sign)
    for other, same in (*alike.items(), *((blank, " ") for blank in _BLANKS)):
        plain[ord(other)] = ord(same)
    return plain
