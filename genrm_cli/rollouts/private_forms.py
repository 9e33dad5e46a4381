"""The written forms of private data, and that of e-mail addresses.

`email`: name@domain.tld, also with `%40`. Not: quoted names, domains without a dot."""

import re
from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from genrm_cli.texts.late_pattern import late_pattern

MARKS = {"email": "[EMAIL]", "identity": "[IDENTITY]", "phone": "[PHONE]"}  # masked in this order

# Between the groups of a number; the others are no-break spaces, as typesetters use them.
SPACES = r" \u00a0\u202f"
# Scripts without spaces between words are excluded: an address may begin and end anywhere in them.
LETTER = (
    r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
_GROUP_END = late_pattern(rf"[0-9A-Z](?=[{SPACES}]|$)")


class Form(Struct, frozen=True, dict=True):
    """One way to write private data. The group `it` is masked as far as it passes the check."""

    regex: str
    is_private: Callable[[str], bool] | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression; compiling all of them takes 0.2 s, so runs without redaction
        should not.
        """
        return re.compile(self.regex)

    def private_chars(self, text: str) -> int:
        """Return the length of the longest private start of the text that ends at a space or at the
        end.
        """
        if self.is_private is None:
            return len(text)
        ends = (found.end() for found in reversed([*_GROUP_END.finditer(text)]))
        return next((end for end in ends if self.is_private(text[:end])), 0)


# Repeats are possessive (`++`) or bounded and lookbehinds anchor each start, so hostile text takes
# linear time.
_NAME_SIGN = r"[.+&\-]"
_ADDRESS = (
    rf"(?:{LETTER}|{_NAME_SIGN})++(?:@|%40)"
    rf"(?:(?:{LETTER}|-)++\.){{1,126}}(?:(?:(?![0-9_]){LETTER}){{2,63}}"
    rf"|xn--[A-Za-z0-9\-]{{2,59}})(?!{LETTER})"
)
# Addresses separated only by a sign that the second one could begin with are one match.
EMAIL = Form(rf"(?<!{LETTER})(?<!{_NAME_SIGN})(?P<it>{_ADDRESS}(?:(?={_NAME_SIGN}){_ADDRESS})*)")
