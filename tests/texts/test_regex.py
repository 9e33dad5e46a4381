"""Regular expressions that users write."""

import pytest

from genrm_cli.texts.regex import compile_regex


def test_what_re2_does_not_have_is_refused_with_the_reason():
    """The message names the expression and what RE2 lacks."""
    reasons = {
        "(": "missing",
        "a{1001}": "invalid repetition",
        r"(?<=key )\w+": "no lookaround",
        r"(\w)\1": "no backreferences",
        "a++": "no possessive",
        "(?x) a": r"no \(\?x\)",
        r"a\Z": "is .z",
    }
    for expression, reason in reasons.items():
        with pytest.raises(ValueError, match=reason):
            compile_regex(expression)


def test_by_line_matches_at_line_ends():
    """Otherwise `^` and `$` match at the ends of the text only."""
    assert compile_regex("^b$", by_line=True).search("a\nb\nc") is not None
    assert compile_regex("^b$").search("a\nb\nc") is None
