import json

import pytest

from genrm_cli.storage.encoding.records import (
    BadLineError,
    exact_record,
    parse_record,
    render_record,
)


def test_not_a_number_reads_as_null_and_is_written_as_null():
    """A line with a number that is not finite is read, the value counts as missing, and the output
    is JSON.
    """
    cases = [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1E+999",
        "1.00000000000000000000e999",
    ]
    for name in cases:
        raw = f'{{"a":[{name},1],"n":12345678901234567890123,"t":"NaN"}}'.encode()
        assert parse_record(raw) == {
            "a": [None, 1],
            "n": 12345678901234567890123.0,
            "t": "NaN",
        }
        nulls = []
        parse_record(raw, nulls.append)
        assert nulls == [name]
        assert (
            render_record(exact_record(raw, parse_record(raw)))
            == raw.replace(f"[{name},".encode(), b"[null,") + b"\n"
        )


def test_a_text_that_says_nan_changes_nothing():
    """Lines with the word in a text come back byte by byte."""
    raw = '{"t":"NaN or Infinity","x":1.0,"ü":[]}'.encode()
    assert parse_record(raw) == json.loads(raw)
    assert render_record(exact_record(raw, parse_record(raw))) == raw + b"\n"


def test_a_line_that_is_wrong_otherwise_is_still_bad():
    """NaN excuses nothing else: torn lines, bad text, surrogates and deep nesting are refused as
    before.
    """
    cases = [
        (b'{"a": NaN', "not JSON"),
        (b'{"a": nan}', "not JSON"),
        (b'{"a": NaN, "t": "\\ud800"}', "not JSON"),
        (b'{"a": NaN, "t": "\xff"}', "not UTF-8"),
        (b'{"a": 1e400, "n": 01}', "not JSON"),
        (b'{"a": NaN, "d": ' + b"[" * 300 + b"]" * 300 + b"}", "not JSON"),
        (b'{"a": NaN, "d": ' + b"[" * 200_000, "not JSON"),
        (b"[NaN]", "a list"),
        (b"NaN", "a bare value"),
    ]
    for raw, says in cases:
        with pytest.raises(BadLineError, match=says):
            parse_record(raw)
