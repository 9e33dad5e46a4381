import json

import pytest

from genrm_cli.storage.encoding.records import (
    BadLineError,
    parse_record,
    parse_record_exactly,
    render_record,
)


@pytest.mark.parametrize(
    "name", ["NaN", "Infinity", "-Infinity", "1e400", "-1E+999", "1.00000000000000000000e999"]
)
def test_not_a_number_reads_as_null_and_is_written_as_null(name: str) -> None:
    """A line with a number that is not finite is read, the value counts as missing, and the output
    is JSON.
    """
    raw = f'{{"a":[{name},1],"n":12345678901234567890123,"t":"NaN"}}'.encode()
    assert parse_record(raw) == {"a": [None, 1], "n": 12345678901234567890123.0, "t": "NaN"}
    nulls: list[str] = []
    parse_record(raw, nulls.append)
    assert nulls == [name]
    assert (
        render_record(parse_record_exactly(raw))
        == raw.replace(f"[{name},".encode(), b"[null,") + b"\n"
    )


def test_a_text_that_says_nan_changes_nothing() -> None:
    """Lines with the word in a text come back byte by byte."""
    raw = '{"t":"NaN or Infinity","x":1.0,"ü":[]}'.encode()
    assert parse_record(raw) == json.loads(raw)
    assert render_record(parse_record_exactly(raw)) == raw + b"\n"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"a": NaN', "not JSON"),
        (b'{"a": nan}', "not JSON"),
        (b'{"a": NaN, "t": "\\ud800"}', "not JSON"),
        (b'{"a": NaN, "t": "\xff"}', "not UTF-8"),
        (b'{"a": 1e400, "n": 01}', "not JSON"),
        (b'{"a": NaN, "d": ' + b"[" * 300 + b"]" * 300 + b"}", "not JSON"),
        (b'{"a": NaN, "d": ' + b"[" * 200_000, "not JSON"),
        (b"[NaN]", "a list"),
        (b"NaN", "a bare value"),
    ],
)
def test_a_line_that_is_wrong_otherwise_is_still_bad(raw: bytes, says: str) -> None:
    """NaN excuses nothing else: torn lines, bad text, surrogates and deep nesting are refused as
    before.
    """
    with pytest.raises(BadLineError, match=says):
        parse_record(raw)
