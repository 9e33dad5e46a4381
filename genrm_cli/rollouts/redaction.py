"""Mask personal data in what is sent to a judge.

What the built-in names catch, and what they leave:

- `email`: name@domain.tld, with `%40` for the sign too. Not: addresses without a top-level domain, quoted names,
  "name at domain dot com".
- `phone`: seven to fifteen digits written as a telephone number is: `+` and a country; (ddd) ddd-dddd and
  ddd-ddd-dddd with or without a 1 before; a leading 0 and further groups, nine digits or more; any such groups
  after a word that says so (phone, tel, call, mobile, fax, ...). Not: plain integers, dates, times, versions, IP
  addresses, and local numbers without such a word.
- `identity`: US SSN and ITIN, UK National Insurance number, IBAN, payment card, Brazilian CPF, Spanish DNI and NIE,
  Indian Aadhaar, Canadian SIN. Where the number has check digits they must be right, so of unrelated numbers in the
  same grouping one in ten or fewer is masked too. Not: numbers of other countries, passports, licences.

Digits are 0 to 9; separators are single spaces (no-break ones too), dots, slashes, hyphens and dashes.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from genrm_cli.errors import UsageError
from genrm_cli.rollouts.check_digits import (
    IBAN_BODY_CHARS,
    cpf_holds,
    dni_holds,
    iban_holds,
    luhn_holds,
    verhoeff_holds,
)

OWN_MARK = "[REDACTED]"
MARKS = {"email": "[EMAIL]", "identity": "[IDENTITY]", "phone": "[PHONE]"}  # masked in this order

# Repeats are possessive (`++`) or bounded and starts are looked behind: linear time on hostile text rests on it.
_SP = r" \u00a0\u202f"
_DASH = r"\-\u2010-\u2013\u2212"
_ANY = rf"{_SP}{_DASH}./"
# Without scripts that put no space between words: there a name or number may begin and end anywhere.
_LETTER = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
# A number that goes on before or behind is part of something longer: a decimal, a version, a UUID. A mark counts
# as a number there, so that masking a text again changes nothing.
_AT_MARK = "".join(rf"(?<!{re.escape(mark)})" for mark in MARKS.values())
_BEFORE = rf"(?<!{_LETTER})(?<!\+){_AT_MARK}(?<![0-9\]][.{_DASH}])"
_AFTER = rf"(?!{_LETTER}|[.{_DASH}](?:[0-9]|\[[A-Z]))"
# Spaces bind weakly; forms that consist of spaced groups only must not be cut out of a longer row of numbers.
_APART = "".join(rf"(?<!{end}[{_SP}])" for end in ("[0-9]", *map(re.escape, MARKS.values())))
_ALONE = rf"(?![{_SP}](?:[0-9]|\[(?:EMAIL|IDENTITY|PHONE)\]))"
_LONG_NUMBER = re.compile(r"[0-9](?:[^0-9A-Za-z\n]{0,3}[0-9]){5}")  # no form has less


def _always(text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Form:
    """One way to write something private: the pattern's group `it` is masked where the check agrees."""

    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = _always


def _number(pattern: str, holds: Callable[[str], bool] = _always) -> _Form:
    return _Form(re.compile(rf"{_BEFORE}(?P<it>{pattern}){_AFTER}"), holds)


def _digits(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)


def _signs(text: str) -> str:
    return re.sub(r"[^0-9A-Z]", "", text)


def _grouped(*sizes: int, separators: str = _SP + _DASH) -> str:
    """Return a pattern for groups of digits with one and the same separator between them."""
    first, *others = (f"[0-9]{{{size}}}" for size in sizes)
    return rf"{first}(?P<separator>[{separators}])" + "(?P=separator)".join(others)


_NAME_SIGN = r"[.+&\-]"
_ADDRESS = (
    rf"(?:{_LETTER}|{_NAME_SIGN})++(?:@|%40)"
    rf"(?:(?:{_LETTER}|-)++\.){{1,126}}(?:(?:(?![0-9_]){_LETTER}){{2,63}}|xn--[A-Za-z0-9\-]{{2,59}})(?!{_LETTER})"
)
# Addresses with no more than a sign between them, which could belong to the second one, are one match.
_EMAIL = _Form(re.compile(rf"(?<!{_LETTER})(?<!{_NAME_SIGN})(?P<it>{_ADDRESS}(?:(?={_NAME_SIGN}){_ADDRESS})*+)"))


def _is_social_security(text: str) -> bool:
    """Whether the parts are ones that are given out; an area from 900 is an ITIN's."""
    digits = _digits(text)
    area, group, serial = int(digits[:3]), int(digits[3:5]), int(digits[5:])
    return group >= 50 if area >= 900 else area not in (0, 666) and group > 0 and serial > 0


def _is_card(text: str) -> bool:
    digits = _digits(text)
    prefix = int(digits[:4])
    return (digits[0] in "3456" or 2200 <= prefix <= 2204 or 2221 <= prefix <= 2720) and luhn_holds(digits)


def _iban_pattern() -> str:
    by_length: dict[int, list[str]] = {}
    for country, length in IBAN_BODY_CHARS.items():
        by_length.setdefault(length, []).append(country)
    forms = (rf"(?:{'|'.join(of)})[0-9]{{2}}(?:[{_SP}]?[A-Z0-9]){{{n}}}" for n, of in by_length.items())
    return rf"(?=[A-Z]{{2}}[0-9]{{2}})(?:{'|'.join(forms)})"


_SSN_CUE = r"(?i:(?<![A-Za-z])(?:ssn|social security(?: number| no\.?)?)(?: is)?)[ :#=.*]{0,4}"
_IDENTITIES = (
    _number(_iban_pattern(), lambda text: iban_holds(_signs(text))),
    _number(r"[0-9]{13,19}", _is_card),
    _number(_grouped(4, 4, 4, 4, 3), _is_card),
    _number(_grouped(4, 4, 4, 4), _is_card),
    _number(_grouped(4, 6, 5), _is_card),
    _number(_grouped(4, 6, 4), _is_card),
    _number(_grouped(3, 2, 4, separators=_DASH), _is_social_security),
    _Form(re.compile(rf"{_SSN_CUE}(?P<it>[0-9]{{3}}[ ]?[0-9]{{2}}[ ]?[0-9]{{4}}){_AFTER}")),
    _number(r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}" + rf"[{_DASH}][0-9]{{2}}", lambda text: cpf_holds(_digits(text))),
    _number(
        rf"(?!BG|GB|KN|NK|NT|TN|ZZ)(?:QQ|[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z])(?:[{_SP}]?[0-9]{{2}}){{3}}[{_SP}]?[A-D]"
    ),
    _number(
        rf"(?:[XYZ][{_DASH}]?[0-9]{{7}}|[0-9]{{2}}\.?[0-9]{{3}}\.?[0-9]{{3}})[{_DASH}]?[A-Z]",
        lambda text: dni_holds(_signs(text)),
    ),
    _number(rf"{_APART}(?=[2-9]){_grouped(4, 4, 4)}{_ALONE}", lambda text: verhoeff_holds(_digits(text))),
    _number(rf"{_APART}{_grouped(3, 3, 3)}{_ALONE}", lambda text: luhn_holds(_digits(text))),
)

_DATE = re.compile(
    rf"(?:19|20)[0-9]{{2}}([{_ANY}])[0-9]{{1,2}}\1[0-9]{{1,2}}(?![0-9])"
    rf"|[0-9]{{1,2}}([{_ANY}])[0-9]{{1,2}}\2(?:19|20)?[0-9]{{2}}(?![0-9]|[{_ANY}][0-9]{{2}}(?![0-9]))"
)


def _is_telephone(text: str) -> bool:
    """Whether groups of digits are no date, address, decimal, round number or row of bits."""
    groups = re.findall(r"[0-9]+", text)
    separators = re.sub(r"[0-9+]", "", text)
    if len(groups) == 1:
        return len(text) >= 9 and not text.endswith("000000")
    if "." in separators and (len(groups) < 3 or separators.strip(".")):
        return False  # a decimal, or times and ranges
    if (len(groups) == 4 and separators == "...") or set("".join(groups)) <= {"0", "1"}:
        return False
    ends_round = groups[-2:] == ["000", "000"]
    return not ends_round and max(map(len, groups[1:])) > 1 and _DATE.match(text.lstrip("(")) is None


def _is_national(text: str) -> bool:
    return 9 <= len(_digits(text)) <= (15 if text.startswith("00") else 13) and _is_telephone(text)


_PHONE_WORD = (
    r"(?<![^\W_])(?i:(?:tele)?phone|tel|mobile|cell(?:phone)?|fax|whatsapp|sms|call(?:ing)?|dial|hotline"
    r"|t[eé]l[eé]phone|t[eé]l|tel[eé]fono|telefone?|telefon(?:nummer)?|handy(?:nummer)?|celular|m[oó]vil)"
    r"(?:[ ](?i:number|no|nr|me|us|him|her|them|at|on|is)){0,3}+[ .:=#*_]{0,4}+"
)
# Dots are not mixed with other separators, or a number would take in the times and decimals behind it.
_GROUPED = rf"(?:(?:[{_SP}]?\(|\)[{_SP}{_DASH}]?|[{_SP}{_DASH}/])?[0-9])"
_DOTTED = r"(?:\.?[0-9])"
_PHONES = (
    _Form(
        re.compile(
            rf"{_PHONE_WORD}(?P<it>(?:\((?=[0-9]{{1,5}}\)))?[0-9](?:[0-9]{{8,14}}|{_GROUPED}{{6,14}}|{_DOTTED}{{6,14}}))"
            rf"{_AFTER}"
        ),
        _is_telephone,
    ),
    _number(rf"\+1(?:{_GROUPED}{{10}}|{_DOTTED}{{10}})", _is_telephone),
    _number(rf"\+[1-9](?:[0-9]{{8,14}}|{_GROUPED}{{6,14}}|{_DOTTED}{{6,14}})", _is_telephone),
    _number(
        rf"(?:1[{_ANY}])?(?:\([0-9]{{3}}\)[{_SP}]?[0-9]{{3}}[{_SP}{_DASH}.]"
        rf"|[0-9]{{3}}(?:[{_DASH}][0-9]{{3}}[{_DASH}]|\.[0-9]{{3}}\.|[{_SP}/][0-9]{{3}}[{_DASH}]))[0-9]{{4}}"
    ),
    _number(rf"1[3-9][0-9](?P<separator>[{_DASH}])[0-9]{{4}}(?P=separator)[0-9]{{4}}"),
    _number(rf"{_APART}\([1-9][0-9]\)[{_SP}]?[0-9]{{4,5}}[{_DASH}][0-9]{{4}}"),
    _number(rf"{_APART}\(0[0-9]{{1,4}}\)[{_SP}]?[0-9]{{3,5}}(?:[{_SP}{_DASH}]?[0-9]{{3,5}}){{1,2}}", _is_national),
    _number(
        rf"{_APART}0[0-9]{{1,4}}(?:[{_SP}]?[{_DASH}/][{_SP}]?|[{_SP}.])[0-9]{{2,8}}"
        rf"(?:(?P<separator>[{_SP}{_DASH}.])[0-9]{{2,8}}(?:(?P=separator)[0-9]{{2,8}}){{0,3}})?",
        lambda text: text[1:3] != "00" and text[:3] != "000" and _is_national(text),
    ),
)


class Redactor:
    """Masks what the given patterns match: built-in names, or regular expressions.

    The built-in ones go first, whatever the order given; the others follow in their order and see the marks.
    A regular expression's own speed is its writer's affair.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile the patterns.

        Raises:
            UsageError: one is no regular expression, or matches the empty text and so would mask everything.
        """
        self._email = "email" in patterns
        forms = (("identity", _IDENTITIES), ("phone", _PHONES))
        self._numbers = [(name, form) for name, of in forms if name in patterns for form in of]
        self._own = {text: _compile(text) for text in patterns if text not in MARKS}

    def redact(self, text: str, counts: Counter[str]) -> str:
        """Return the text with `[EMAIL]`, `[PHONE]`, `[IDENTITY]` or `[REDACTED]` in place of each match.

        Args:
            text: what is to be sent.
            counts: gets the number of matches by name; an own pattern's name is the pattern. No name is added for
                nothing. Marks that the text already holds are not counted.
        """
        if self._email and ("@" in text or "%40" in text):
            text = _mask(text, _EMAIL, "email", counts)
        if self._numbers:
            text = self._mask_numbers(text, counts)
        for name, pattern in self._own.items():
            text = _mask_own(text, pattern, name, counts)
        return text

    def _mask_numbers(self, text: str, counts: Counter[str]) -> str:
        """Mask in the lines that hold a long enough number; no form goes beyond a line."""
        pieces: list[str] = []
        done = 0
        while (found := _LONG_NUMBER.search(text, done)) is not None:
            start = max(done, text.rfind("\n", done, found.start()) + 1)
            end = text.find("\n", found.end())
            end = len(text) if end < 0 else end
            line = text[start:end]
            for name, form in self._numbers:
                line = _mask(line, form, name, counts)
            pieces += text[done:start], line
            done = end
        return "".join((*pieces, text[done:])) if pieces else text


@lru_cache(maxsize=8)
def redactor_of(patterns: tuple[str, ...]) -> Redactor:
    """Return the redactor of these patterns, made once.

    Raises:
        UsageError: as `Redactor`.
    """
    return Redactor(patterns)


def _compile(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--redact-pattern: {text!r} is not a regular expression: {error}.") from error
    if pattern.search("") is not None:
        raise UsageError(f"--redact-pattern: {text!r} matches the empty text, and so would mask everything.")
    return pattern


def _mask(text: str, form: _Form, name: str, counts: Counter[str]) -> str:
    pieces: list[str] = []
    kept_to = at = 0
    while (found := form.pattern.search(text, at)) is not None:
        if not form.holds(found["it"]):
            at = found.start() + 1  # a shorter one may begin within what was refused
            continue
        pieces += text[kept_to : found.start("it")], MARKS[name]
        kept_to = at = found.end("it")
        counts[name] += 1
    return "".join((*pieces, text[kept_to:])) if pieces else text


def _mask_own(text: str, pattern: re.Pattern[str], name: str, counts: Counter[str]) -> str:
    def mark(found: re.Match[str]) -> str:
        if found.start() == found.end() or _within_mark(text, *found.span()):
            return found[0]
        counts[name] += 1
        return OWN_MARK

    return pattern.sub(mark, text)


def _within_mark(text: str, start: int, end: int) -> bool:
    """Whether a span is part of a mark: `[A-Z]+` must not mask the marks themselves."""
    at = text.rfind("[", max(0, start - len(OWN_MARK)), start + 1)
    marks = (OWN_MARK, *MARKS.values())
    return at >= 0 and any(text.startswith(mark, at) and end <= at + len(mark) for mark in marks)
