"""Inputs and outputs of `genrm report`: what it recognises, what it refuses, and what appears on
disk.
"""

import json

import pytest
from report_pages import unpacked
from scored_lines import scored, verdict, write_lines

PAIR = [scored("best", 5.0), scored("low", 1.0, index=1)]


@pytest.fixture
def run(genrm):
    """Give a test a scored pair with its comparison."""
    write_lines(genrm.folder / "x.comparisons.jsonl", [verdict(0, 1, 5, 2)])
    return write_lines(genrm.folder / "x.scored.jsonl", PAIR)


def test_names_are_masked_as_texts_are(genrm, call):
    """Keys, reasons and judges are masked in the page and in the figures; two keys made equal stay
    two groups.
    """
    keys = ["jo@example.org", "al@example.org"]
    lines = [
        scored("a", None, group=key, size=1, reason_text=f"asked {key}", judge="m@example.org")
        for key in keys
    ]
    write_lines(genrm.folder / "x.scored.jsonl", lines)
    write_lines(
        genrm.folder / "x.comparisons.jsonl",
        [verdict(0, 1, 5, 2, group=key, judge=key) for key in keys],
    )
    done = call("report x.scored.jsonl -o out.html --redact-pattern email --json")
    page = genrm.text("out.html")
    index = unpacked(page, "index")
    block = unpacked(page, "block-0")
    for text in (
        done.out.decode(),
        page,
        json.dumps(index),
        json.dumps(block),
    ):
        assert "@example.org" not in text
    assert [row[0] for row in index["groups"]] == ["[EMAIL]", "[EMAIL] (2)"]
    assert json.loads(done.out)["runs"][0]["unscored"] == {"incomplete": 2}
    assert b"@example.org" not in call("show x.scored.jsonl --limit 9 --redact-pattern email").out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.scored.jsonl", b"", "x.scored.jsonl: it is empty; expected an output of `genrm score`"),
        (
            "x.scored.jsonl",
            b"no\n",
            "x.scored.jsonl: none of its 1 lines is scored (line 1: not JSON",
        ),
        (
            "x.scored.jsonl",
            b'{"prompt": "a", "completion": "b"}\n',
            "expected an output of `genrm score`",
        ),
        (
            "x.comparisons.jsonl",
            b'{"group": "task:1"}',
            "x.comparisons.jsonl: line 1: Object missing required field",
        ),
        (
            "x.metrics.json",
            b'{"format": 2}',
            "x.metrics.json: Invalid enum value 2 - at `$.format`; it is not",
        ),
        (
            "x.journal.sqlite",
            b"not SQLite, but long enough for a header of it" * 9,
            "It is damaged or not a journal",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_a_remedy(run, call, genrm, name, content, message):
    """The file, the line and what to do are said, and no page appears."""
    line = genrm.json("x.comparisons.jsonl")
    write_lines(genrm.folder / "x.comparisons.jsonl", [line | {"journal_key": "00"}])
    (genrm.folder / name).write_bytes(content)
    done = call("report -o out.html", name if name == "x.json" else run)
    assert done.code in (3, 5)
    assert message in done.err
    assert "out.html" not in genrm.names()


def test_lines_that_cannot_be_read_are_counted(run, call, genrm):
    """A torn scored file is reported on as far as it goes; page, figures and message say so."""
    run.write_bytes(run.read_bytes() + b'{"messages": [')
    done = call("report -o out.html --json", run).ended(0)
    assert "1 line could not be read" in done.err
    assert json.loads(done.out)["runs"][0]["rejected_lines"] == 1
    assert "1 line could not be read." in genrm.text("out.html")
