"""The written forms of phone numbers and identity numbers, which the extra `redact` checks.

- `phone`: a `+` with a number that its country allows; (ddd) ddd-dddd and ddd-ddd-dddd; grouped
  numbers that start with a 0 or end in -dddd and are valid in one of a few countries; any groups
  after a word such as "call". Not: integers, dates, times, versions, IP addresses.
- `identity`: IBAN, payment card, US SSN and ITIN, UK National Insurance number, Brazilian CPF,
  Spanish DNI and NIE, Indian Aadhaar, Canadian SIN. Check digits must be right, so one in ten
  unrelated numbers of that shape is masked too.

Digits are 0 to 9; separators are single spaces (no-break ones too), dots, slashes, hyphens and
dashes."""

import re
from collections.abc import Callable
from functools import lru_cache, partial

import phonenumbers
from stdnum import iban, luhn
from stdnum.br import cpf
from stdnum.es import nif
from stdnum.in_ import aadhaar

from genrm_cli.rollouts.private_forms import LETTER, MARKS, SPACES, Form
from genrm_cli.texts.late_pattern import late_pattern

# Repeats are possessive (`++`) or bounded and lookbehinds anchor each start, so hostile text takes
# linear time.
_DASH = r"\-\u2010-\u2013\u2212"
_ANY = rf"{SPACES}{_DASH}./"
# A number that continues on either side is part of something longer: a decimal, a version, a UUID.
# A mark counts as a number here, so that masking twice changes nothing.
_AT_MARK = "".join(rf"(?<!{re.escape(mark)})" for mark in MARKS.values())
_BEFORE = rf"(?<!{LETTER})(?<!\+){_AT_MARK}(?<![0-9\]][.{_DASH}])"
_AFTER = rf"(?!{LETTER}|[.{_DASH}](?:[0-9]|\[[A-Z]))"
# Spaces bind weakly: a form with only spaces must not be cut out of a longer row of numbers.
_APART = "".join(rf"(?<!{end}[{SPACES}])" for end in ("[0-9]", *map(re.escape, MARKS.values())))
_ALONE = rf"(?![{SPACES}](?:[0-9]|\[(?:EMAIL|IDENTITY|PHONE)\]))"


def _number(pattern: str, is_private: Callable[[str], bool] | None = None) -> Form:
    return Form(rf"{_BEFORE}(?P<it>{pattern}){_AFTER}", is_private)


def _identity(pattern: str, is_valid: Callable[[str], bool]) -> Form:
    return _number(pattern, lambda text: is_valid(re.sub(r"[^0-9A-Z]", "", text)))


def _grouped(*sizes: int, separators: str = SPACES + _DASH) -> str:
    """Return a pattern for groups of digits with the same separator between them."""
    first, *others = (f"[0-9]{{{size}}}" for size in sizes)
    return rf"{first}(?P<separator>[{separators}])" + "(?P=separator)".join(others)


# Issuers whose cards have check digits: Amex, Visa, Mastercard, Discover, Mir, UnionPay and
# others.
_CARD_START = "(?=[3-6]|220[0-4]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)"
_SSN_CUE = r"(?i:(?<![A-Za-z])(?:ssn|social security(?: number| no\.?)?)(?: is)?)[ :#=.*]{0,4}"
IDENTITIES = (
    _identity(
        rf"[A-Z]{{2}}[0-9]{{2}}(?:[{SPACES}]?[A-Z0-9]){{11,30}}",
        partial(iban.is_valid, check_country=False),
    ),
    *(
        _identity(_CARD_START + digits, lambda text: len(text) >= 13 and luhn.is_valid(text))
        for digits in (
            "[0-9]{13,19}",
            *(_grouped(4, *rest) for rest in ((4, 4, 4, 3), (4, 4, 4), (6, 5), (6, 4))),
        )
    ),
    # Area, group and serial number are never zero; an area from 900 is an ITIN's, whose group is 50
    # or more.
    _number(
        rf"(?!000|666|9[0-9]{{2}}.[0-4]|.{{4}}00|.{{7}}0000){_grouped(3, 2, 4, separators=_DASH)}"
    ),
    Form(rf"{_SSN_CUE}(?P<it>[0-9]{{3}}[ ]?[0-9]{{2}}[ ]?[0-9]{{4}}){_AFTER}"),
    _identity(rf"[0-9]{{3}}\.[0-9]{{3}}\.[0-9]{{3}}[{_DASH}][0-9]{{2}}", cpf.is_valid),
    _number(
        rf"(?!BG|GB|KN|NK|NT|TN|ZZ)(?:QQ|[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z])"
        rf"(?:[{SPACES}]?[0-9]{{2}}){{3}}[{SPACES}]?[A-D]"
    ),
    _identity(
        rf"(?:[XYZ][{_DASH}]?[0-9]{{7}}|[0-9]{{2}}\.?[0-9]{{3}}\.?[0-9]{{3}})[{_DASH}]?[A-Z]",
        nif.is_valid,
    ),
    _identity(rf"{_APART}{_grouped(4, 4, 4)}{_ALONE}", aadhaar.is_valid),
    _identity(
        rf"{_APART}{_grouped(3, 3, 3)}{_ALONE}", lambda text: len(text) == 9 and luhn.is_valid(text)
    ),
)

# Dates, decimals, IP addresses, round numbers, rows of bits and rows of single digits.
_NO_PHONE = late_pattern(
    rf"\(?(?:19|20)[0-9]{{2}}([{_ANY}])[0-9]{{1,2}}\1[0-9]{{1,2}}(?![0-9])"
    rf"|\(?[0-9]{{1,2}}([{_ANY}])[0-9]{{1,2}}\2(?:19|20)?[0-9]{{2}}(?![0-9]"
    rf"|[{_ANY}][0-9]{{2}}(?![0-9]))"
    rf"|\+?[0-9]+\.[0-9]+$|[0-9]+(?:\.[0-9]+){{3}}$|.*000[{_ANY}]?000$|[01{_ANY}]+$"
    rf"|[0-9](?:[{_ANY}][0-9])+$"
)
# Where national numbers start with 0; together they allow most of what other countries do.
_TRUNK_COUNTRIES = ("DE", "GB", "FR", "JP", "AU", "IN", "CN", "BE", "EG", "AR")
# Where national numbers are written with a hyphen before the last four digits.
_DASHED_COUNTRIES = ("CN", "BR")


def _digits(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)


def _is_phone(text: str) -> bool:
    return len(_digits(text)) >= 7 and _NO_PHONE.match(text) is None


def _is_international(text: str) -> bool:
    try:
        return _is_phone(text) and phonenumbers.is_possible_number(
            phonenumbers.parse(f"+{_digits(text)}")
        )
    except phonenumbers.NumberParseException:  # no such country, or too long
        return False


def _is_national(text: str, countries: tuple[str, ...]) -> bool:
    return 9 <= len(_digits(text)) <= 15 and _is_phone(text) and _is_valid(_digits(text), countries)


@lru_cache(maxsize=4096)
def _is_valid(digits: str, countries: tuple[str, ...]) -> bool:
    try:
        return any(
            phonenumbers.is_valid_number(phonenumbers.parse(digits, country))
            for country in countries
        )
    except phonenumbers.NumberParseException:  # too long
        return False


_PHONE_WORD = (
    r"(?<![^\W_])(?i:(?:tele)?phone|tel|mobile|cell(?:phone)?|fax|whatsapp|sms|call"
    r"(?:ing)?|dial|hotline"
    r"|t[eé]l[eé]phone|t[eé]l|tel[eé]fono|telefone?|telefon(?:nummer)?|handy"
    r"(?:nummer)?|celular|m[oó]vil)"
    r"(?:[ ](?i:number|no|nr|me|us|him|her|them|at|on|is)){0,3}[ .:=#*_]{0,4}+"
)
# Dots are not mixed with other separators, or a number would take in the times and decimals behind
# it.
_GROUPS = (
    rf"(?:(?:(?:[{SPACES}]?\(|\)[{SPACES}{_DASH}]?|[{SPACES}{_DASH}/])?[0-9]){{6,14}}"
    r"|(?:\.?[0-9]){6,14})"
)
_TRUNK_REST = (
    rf"[0-9]{{2,8}}(?:(?P<separator>[{SPACES}{_DASH}.])[0-9]{{2,8}}(?:"
    rf"(?P=separator)[0-9]{{2,8}}){{0,3}})?"
)
# The most certain forms first: what one masks, the next does not see.
PHONES = (
    Form(rf"{_PHONE_WORD}(?P<it>(?:\((?=[0-9]{{1,5}}\)))?[0-9]{_GROUPS}){_AFTER}", _is_phone),
    _number(rf"\+[1-9]{_GROUPS}", _is_international),
    _number(
        rf"(?:1[{_ANY}])?(?:\([0-9]{{3}}\)[{SPACES}]?[0-9]{{3}}[{SPACES}{_DASH}.]"
        rf"|[0-9]{{3}}(?:[{_DASH}][0-9]{{3}}[{_DASH}]"
        rf"|\.[0-9]{{3}}\.|[{SPACES}/][0-9]{{3}}[{_DASH}]))[0-9]{{4}}"
    ),
    _number(
        rf"{_APART}(?:\([1-9][0-9]{{1,2}}\)[{SPACES}]?"
        rf"|[1-9][0-9]{{1,2}}[{SPACES}{_DASH}])[0-9]{{4,5}}[{_DASH}][0-9]{{4}}",
        partial(_is_national, countries=_DASHED_COUNTRIES),
    ),
    _number(
        rf"{_APART}(?:0[0-9]{{1,4}}(?:[{SPACES}]?[{_DASH}/][{SPACES}]?|[{SPACES}.])"
        rf"|\(0[0-9]{{1,4}}\)[{SPACES}]?){_TRUNK_REST}",
        partial(_is_national, countries=_TRUNK_COUNTRIES),
    ),
)

NUMBERS = {"identity": IDENTITIES, "phone": PHONES}
