import json
import math

import orjson
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
    """NaN excuses nothing else: torn lines, bad text and deep nesting are refused as before."""
    cases = [
        (b'{"a": NaN', "not JSON"),
        (b'{"a": nan}', "not JSON"),
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


HALVES = ["half \ud83d", "\ude00 half", "\ud83d\ud83d\ude00", "\ude00\ud83d", "\\ud83d"]


def test_half_a_character_is_read_as_a_replacement_and_written_as_it_was():
    """In texts and names, beside long numbers and whole pairs; what only spells an escape stays."""
    for text in HALVES:
        line = {"t": text, "in": [{text: 1}], "n": 12345678901234567890123, "x": math.nan}
        raw = json.dumps(line).encode()
        parsed = parse_record(raw)
        assert parsed["t"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert list(parsed["in"][0]) == [parsed["t"]]
        orjson.dumps(parsed)
        written = json.loads(render_record(exact_record(raw, parsed)))
        assert written == {**json.loads(raw), "x": None}
        kept = parse_record(raw, keeps_halves=True)
        assert json.loads(render_record(kept))["in"] == written["in"]
