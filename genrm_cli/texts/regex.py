"""Regular expressions that users write: RE2 searches in linear time, whatever the expression and
the text.
"""

import re
from typing import cast

import re2
from re2 import escape as escape


def compile_regex(text: str, *, by_line: bool = False) -> re.Pattern[str]:
    r"""Compile a regular expression of RE2, which has the methods of a pattern of `re`.

    One match takes linear time. To find all matches can take quadratic time: with `a(.*b)?`, each
    of many `a` looks for a `b` to the end of its line.

    Args:
        text: the expression.
        by_line: whether `^` and `$` match at the ends of lines, too.

    Raises:
        ValueError: RE2 does not accept it.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return cast(re.Pattern[str], re2.compile(f"(?m){text}" if by_line else text, options))
    except re2.error as error:
        detail = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise ValueError(
            f"{text!r} is not a regular expression of RE2: {detail}. RE2 has no lookaround (?=, "
            "?!, ?<=, ?<!), no "
            r"backreferences, no possessive repeats and no (?x); the end of the text is \z."
        ) from error
