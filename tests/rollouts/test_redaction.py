"""Masking of personal data. All numbers and addresses are invented or published test values."""

import re
import sys
from collections import Counter

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import UsageError
from genrm_cli.rollouts.private_forms import MARKS
from genrm_cli.rollouts.redaction import Redactor, redactor_of

ALL = ("email", "phone", "identity")

EMAILS = """
a.b@example.com | first.last+tag@sub.example.co.uk | josé@correo.es | a_b@example.org | x@example.museum
user%40example.com | me-too@xn--bcher-kva.example | почта@пример.рф | 1234@example.com | a@b.c-d.example
"""  # noqa: E501
PHONES = """
+1 555 123 4567 | +15551234567 | +1 (555) 123-4567 | +44 (0)20 7946 0958 | +49-30-1234567 | +33 6 12 34 56 78
+7 (495) 123-45-67 | +91 98765 43210 | +55 (11) 91234-5678 | +65 9123 4567 | (555) 123-4567 | (555)123-4567
555-123-4567 | 555.123.4567 | 555 123-4567 | 555/123-4567 | 1-800-555-0199 | 1.800.555.0199 | 138-1234-5678
(020) 7946 0958 | 020 7946 0958 | 01632 960 983 | 07700 900123 | 06 12 34 56 78 | 06.12.34.56.78 | 030/1234567
0171 / 1234567 | 03-1234-5678 | 0049 30 1234567 | (11) 91234-5678 | 555\u2011123\u20114567 | +33\u00a06\u202f12 34 56 78
"""  # noqa: E501
CALLED = """
phone: 555-1234 | call me at 5551234567 | Tel. 612 345 679 | call 555 123 4567 | fax 12345678901 | SMS 91234567890
Teléfono: 612345678 | WhatsApp number 98765 43210 | **Phone:** 5551234567 | mobile (555) 1234567
"""  # noqa: E501
IDENTITIES = """
123-45-6789 | 912-70-1234 | AB 12 34 56 C | AB123456C | QQ123456C | GB82 WEST 1234 5698 7654 32
GB82WEST12345698765432 | DE89 3704 0044 0532 0130 00 | FR14 2004 1010 0505 0001 3M02 606 | NO93 8601 1117 947
MT84 MALT 0110 0001 2345 MTLC AST0 01S | 4111 1111 1111 1111 | 4111-1111-1111-1111 | 4111111111111111
3782 822463 10005 | 378282246310005 | 5555555555554444 | 6011 0009 9013 9424 | 4222222222222 | 3056 930902 5904
529.982.247-25 | 12345678Z | 12345678-Z | 12.345.678-Z | X1234567L | X-1234567-L | 2341 2341 2346 | 2341-2341-2346
046 454 286 | 046-454-286
"""  # noqa: E501
NOTHING = """
1000000 | -1000000 | +1000000 | 1,000,000,000 | 1 234 567 | 100 000 000 | $1,234,567.89 | 2147483647 | 12,345,678
2024-01-15 | 01/02/2024 | 01.02.2024 | 15-01-2024 10:30 | 05-01-24 10:30 | 2024-01-15T10:30:00+02:00 | 10:30-11:45
2023-2024 | 09:30 10:45 | 09.30 10.45 11.15 | 09-17 10-18 11-19 | 12:34:56.789012 | 1700000000000 | 1700000000000000
1.2.3 | v10.20.30 | v2024.01.15 | 192.168.100.200 | 010.020.030.040 | 10.0.0.1:8080 | lodash@4.17.21 | root@10.0.0.1
978-0-306-40615-7 | 0-306-40615-2 | 9780306406157 | ISBN 978 0 306 40615 7 | 0000-0002-1825-0097 | RFC 2616, 1999
3.14159265358979 | +3.14159265 | 0.1234 5678 | 6.02214076e23 | 1e+1234567 | 0xdeadbeef1234 | 2**31 - 1 | 1/3 + 2/3
x = 100 + 200 - 3000 | 256 512 1024 | 128 256 1024 | 0100 1000 0110 | 0 1 2 3 4 5 6 7 8 9 | 1-2-3-4-5-6-7-8 | 210 x 297
[1, 2, 3, 4, 5, 6, 7] | arr[1234567] | f(123) 456-7890 | (2019) 1234-1245 | 45 (3): 123-134 | 00012-00034
550e8400-e29b-41d4-a716-446655440000 | @decorator | a@b | x @ y.T | 50% off | 555-1234 | call foo(1, 2) | call 1000000
pages 100-2000 | call on 2024-01-15 | call 192.168.100.200 | call 100 000 000 | name at example dot com | a@localhost
4111 1111 1111 1112 | 4111111111111112 | 123-45-67890 | 000-12-3456 | 666-12-3456 | 123-00-4567 | 123-45-0000
GB82 WEST 1234 5698 7654 33 | ZZ99 1234 5678 9012 | BG123456C | AB123456E | 529.982.247-26 | 529982247-25 | 12345678A
X1234567A | 2341 2341 2347 | 1341 2341 2346 | 123 456 789 | 3.4111111111111111 | id-4111-1111-1111-1111-1
"""  # noqa: E501
SETTINGS_OF_A_TEXT = (
    "{}",
    "Text before {}, and after.",
    "({})",
    "Ends with {}.",
    "**{}**",
    "first\n{}\nlast 42",
)


def listed(table):
    """Return the examples of a table."""
    return [example.strip() for line in table.strip().splitlines() for example in line.split(" | ")]


def masked(text, *patterns):
    """Return the text masked, and the counts."""
    counts = Counter()
    return Redactor(patterns or ALL).redact(text, counts), dict(counts)


CASES = [
    *((text, "email") for text in listed(EMAILS)),
    *((text, "phone") for text in listed(PHONES)),
    *((text, "identity") for text in listed(IDENTITIES)),
]


def test_it_is_masked_as_what_it_is_wherever_it_stands():
    """One mark of its name and nothing else replaces it: alone, in a sentence, in brackets, at its
    end, in markup.
    """
    for text, name in CASES:
        for setting in SETTINGS_OF_A_TEXT:
            assert masked(setting.format(text)) == (setting.format(MARKS[name]), {name: 1})


def test_a_word_before_a_number_makes_it_a_telephone_number():
    """Groups that say nothing by themselves are masked after phone, call, fax and the like; the
    word stays.
    """
    for text in listed(CALLED):
        after, counts = masked(text)
        assert counts == {"phone": 1}
        assert re.search("[0-9]", after) is None
        assert after.endswith("[PHONE]")
        assert masked(re.search("[(0-9].*", text)[0]) != ("[PHONE]", {}), (
            "the examples are of interest"
        )


def test_a_word_before_a_number_makes_it_a_social_security_number():
    """Nine digits in a row are masked after SSN; without it they are a number."""
    cases = ["SSN 123456789", "ssn: 123 45 6789", "Social Security number is 123456789"]
    for text in cases:
        assert masked(text)[1] == {"identity": 1}
        assert masked("the count 123456789")[1] == {}


def test_what_only_looks_like_it_stays():
    """Numbers, dates, times, versions, addresses of machines, mathematics, code and wrong check
    digits stay.
    """
    for text in listed(NOTHING):
        for setting in SETTINGS_OF_A_TEXT:
            assert masked(setting.format(text)) == (setting.format(text), {})


def test_only_what_was_asked_for_is_masked():
    """Each name masks its own kind; the counts are by name."""
    text = "a@example.com, 555-123-4567, 123-45-6789, b@example.com"
    assert masked(text, "email") == ("[EMAIL], 555-123-4567, 123-45-6789, [EMAIL]", {"email": 2})
    assert masked(text, "phone") == (
        "a@example.com, [PHONE], 123-45-6789, b@example.com",
        {"phone": 1},
    )
    assert masked(text, "identity") == (
        "a@example.com, 555-123-4567, [IDENTITY], b@example.com",
        {"identity": 1},
    )
    assert masked(text) == (
        "[EMAIL], [PHONE], [IDENTITY], [EMAIL]",
        {"email": 2, "phone": 1, "identity": 1},
    )


def test_an_address_in_text_without_spaces_takes_no_words_with_it():
    """Scripts that write words without spaces keep the words around an address."""
    assert masked("请联系admin@example.com谢谢")[0] == "请联系[EMAIL]谢谢"


def test_an_own_pattern_is_masked_under_its_own_name():
    """Its matches become [REDACTED], counted under the pattern itself; the marks are never masked
    again.
    """
    own = r"(?i)case-\d+"
    text = "Case-17 and case-18 of a@example.com"
    assert masked(text, own, "email") == (
        "[REDACTED] and [REDACTED] of [EMAIL]",
        {own: 2, "email": 1},
    )
    assert masked("a@example.com SECRET", "email", "[A-Z]+") == (
        "[EMAIL] [REDACTED]",
        {"email": 1, "[A-Z]+": 1},
    )
    assert masked("a@example.com secret", "email", ".*secret.*")[0] == "[REDACTED]"


def test_an_own_pattern_never_masks_nothing():
    """A pattern that matches between characters, in some texts only, leaves no marks there."""
    assert masked("ab ++", r"\b\d*") == ("ab ++", {})


def test_a_pattern_with_catastrophic_backtracking_takes_linear_time():
    """What takes an engine that backtracks longer than the age of the universe ends at once."""
    for pattern in [r"(a+)+$", r"(a|a)*b", r"(.*)*x$", r"(\w+\s?)*;"]:
        assert masked("a" * 100_000 + "!", pattern) == ("a" * 100_000 + "!", {})


def test_a_redactor_is_made_once():
    """The groups of a run share one."""
    assert redactor_of(ALL) is redactor_of(ALL)


# Properties

FRAGMENTS = st.sampled_from(
    [text for text, _ in CASES]
    + listed(CALLED)
    + listed(NOTHING)
    + [
        *MARKS.values(),
        "[REDACTED]",
        *" -.,()/+@:\n",
        "word",
        "x",
        "1",
        "12",
        "555",
        "4567",
        "call ",
        "SSN ",
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=8).map("".join) | st.lists(FRAGMENTS, max_size=8).map(" ".join)


@given(TEXTS | st.text(st.sampled_from("0123456789 -.()/+@axZ%[]:\n"), max_size=60))
def test_masking_twice_changes_nothing_more(text):
    """A masked text has nothing left to mask: its journal key is stable."""
    once, _ = masked(text)
    assert masked(once) == (once, {})


@given(TEXTS)
def test_the_counts_are_the_marks_that_were_added(text):
    """Each match is one mark, and a text without any is unchanged."""
    after, counts = masked(text)
    for name, mark in MARKS.items():
        assert after.count(mark) - text.count(mark) == counts.get(name, 0)
    assert counts or after == text


@given(st.text(st.characters(exclude_characters="@%0123456789")))
def test_a_text_without_digits_and_addresses_is_unchanged(text):
    """The built-in patterns need a digit or an address sign."""
    assert masked(text) == (text, {})


@given(
    st.integers(10**14, 10**15 - 1),
    st.sampled_from(["", " ", "-"]),
    st.sampled_from(["", "card: ", "(", "no. "]),
)
def test_no_digit_of_a_card_survives(number, separator, before):
    """Every number of sixteen digits with a card's prefix and a right check digit is masked in
    full.
    """
    body = "4" + str(number)[1:]
    total = sum(sum(divmod(int(digit) * (2 - place % 2), 10)) for place, digit in enumerate(body))
    card = body + str(-total % 10)
    written = separator.join(card[start : start + 4] for start in range(0, 16, 4))
    assert masked(f"{before}{written}, thanks") == (f"{before}[IDENTITY], thanks", {"identity": 1})


def test_hostile_text_is_checked_once_for_each_row_of_groups(monkeypatch):
    """Rows of digit groups reach the phone library a bounded number of times, so time is linear in
    the text.
    """
    parsed = []
    parse = phonenumbers.parse
    monkeypatch.setattr(
        phonenumbers,
        "parse",
        lambda digits, country=None: parsed.append(digits) or parse(digits, country),
    )
    for unit in ("01 ", "01-", "0 ", "(0", "+1", "+49 1 ", "11 ", "call 1 "):
        parsed.clear()
        masked(unit * (8_000 // len(unit)))
        assert len(parsed) <= 8_000


@pytest.mark.parametrize("name", ["phone", "identity"])
def test_numbers_need_an_extra(monkeypatch, name):
    """The error names it; addresses and the user's own patterns need none."""
    for module in ("phonenumbers", "stdnum"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "genrm_cli.rollouts.private_numbers", raising=False)
    with pytest.raises(UsageError, match=rf"{name}.* needs \w+: .*\[redact\]"):
        Redactor([name])
    assert Redactor(["email", "x+"]).redact("xx a@b.org", Counter()) == "[REDACTED] [EMAIL]"
