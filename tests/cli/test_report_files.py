"""Inputs and outputs of `genrm report`: what it recognises, what it refuses, and what appears on disk."""

import json
import stat
from pathlib import Path
from random import Random

import pytest
from genrm_process import Call, Genrm
from report_pages import unpacked
from scored_lines import scored, verdict, write_lines

PAIR = [scored("best", 5.0), scored("low", 1.0, index=1)]


@pytest.fixture
def run(genrm: Genrm) -> Path:
    """Give a test a scored pair with its comparison."""
    write_lines(genrm.folder / "x.comparisons.jsonl", [verdict(0, 1, 5, 2)])
    return write_lines(genrm.folder / "x.scored.jsonl", PAIR)


def write_large(genrm: Genrm, seed: int) -> None:
    """Write scored lines that take more than a megabyte compressed."""
    noise = [Random(seed + number).randbytes(30_000).hex() for number in range(40)]
    lines = [scored(text, float(n), group=f"task:{n}") for n, text in enumerate(noise)]
    write_lines(genrm.folder / "large.scored.jsonl", lines)


def test_a_large_page_becomes_a_folder(genrm: Genrm, call: Call) -> None:
    """Above --max-size the groups lie in scripts beside the page, as private as the input."""
    write_large(genrm, 0)
    (genrm.folder / "large.scored.jsonl").chmod(0o600)
    done = call("report", "large.scored.jsonl", "-o", "out.html", "--max-size", "1")
    small = (genrm.folder / "out.html").read_text(encoding="utf-8")
    blocks = sorted((genrm.folder / "out_files").iterdir())
    assert "out.html and out_files/" in done.err
    assert 'id="block-0"' not in small
    assert "&#39;strict-dynamic&#39;" in small
    assert len(small) < 100_000
    assert all(path.read_text().startswith("genrmBlock(") for path in blocks)
    assert {stat.S_IMODE(path.stat().st_mode) for path in blocks} == {0o600}
    at = unpacked(small, "index")["scripts_at"]
    assert {f"{at}{number}.js" for number in range(len(blocks))} == {f"out_files/{path.name}" for path in blocks}


@pytest.mark.slow
def test_a_page_that_fails_leaves_no_folder(genrm: Genrm, call: Call) -> None:
    """Where the figures cannot be written neither page nor blocks appear, and an earlier report keeps its own."""
    write_large(genrm, 0)
    large = ("report", "large.scored.jsonl", "-o", "out.html", "--max-size", "1")
    assert call(*large, "--figures", "/dev/full").code == 5
    assert genrm.names() == {"large.scored.jsonl"}
    assert call(*large).code == 0
    before = {path: path.read_bytes() for path in genrm.folder.rglob("*.*") if path.is_file()}
    write_large(genrm, 100)
    assert call(*large, "--force", "--figures", "/dev/full").code == 5
    changed = {path for path in before if path.read_bytes() != before[path]}
    assert changed == {genrm.folder / "large.scored.jsonl"}


def test_names_are_masked_as_texts_are(genrm: Genrm, call: Call) -> None:
    """Keys, reasons and judges are masked in the page and in the figures; two keys made equal stay two groups."""
    keys = ["jo@example.org", "al@example.org"]
    lines = [scored("a", None, group=key, size=1, reason_text=f"asked {key}", judge="m@example.org") for key in keys]
    write_lines(genrm.folder / "x.scored.jsonl", lines)
    write_lines(genrm.folder / "x.comparisons.jsonl", [verdict(0, 1, 5, 2, group=key, judge=key) for key in keys])
    done = call("report", "x.scored.jsonl", "-o", "out.html", "--redact-pattern", "email", "--json")
    page = (genrm.folder / "out.html").read_text(encoding="utf-8")
    index, block = unpacked(page, "index"), unpacked(page, "block-0")
    for text in (done.out.decode(), page, json.dumps(index), json.dumps(block)):
        assert "@example.org" not in text
    assert [row[1] for row in index["groups"]] == ["[EMAIL]", "[EMAIL] (2)"]
    assert json.loads(done.out)["runs"][0]["unscored"] == {"no_verdict": 2}
    assert b"@example.org" not in call("show", "x.scored.jsonl", "--limit", "9", "--redact-pattern", "email").out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.scored.jsonl", b"", "x.scored.jsonl: it is empty; expected an output of `genrm score`"),
        ("x.scored.jsonl", b"no\n", "x.scored.jsonl: none of its 1 lines is scored (line 1: not JSON"),
        ("x.scored.jsonl", b'{"prompt": "a", "completion": "b"}\n', "expected an output of `genrm score`"),
        (
            "x.comparisons.jsonl",
            b'{"group": "task:1"}',
            "x.comparisons.jsonl: line 1: format is missing; it is not a file",
        ),
        ("x.metrics.json", b'{"format": 2}', "x.metrics.json: format: found 2; expected one of 1; it is not"),
        ("x.journal.sqlite", b"not SQLite, but long enough for a header of it" * 9, "It is damaged or not a journal"),
    ],
)
def test_what_cannot_be_read_is_named_with_a_remedy(
    run: Path, call: Call, genrm: Genrm, name: str, content: bytes, message: str
) -> None:
    """The file, the line and what to do are said, and no page appears."""
    line = json.loads((genrm.folder / "x.comparisons.jsonl").read_text())
    write_lines(genrm.folder / "x.comparisons.jsonl", [line | {"journal_key": "00"}])
    (genrm.folder / name).write_bytes(content)
    done = call("report", name if name == "x.json" else run, "-o", "out.html")
    assert done.code in (3, 5)
    assert message in done.err
    assert "out.html" not in genrm.names()


def test_lines_that_cannot_be_read_are_counted(run: Path, call: Call, genrm: Genrm) -> None:
    """A torn scored file is reported on as far as it goes; page, figures and message say so."""
    run.write_bytes(run.read_bytes() + b'{"messages": [')
    done = call("report", run, "-o", "out.html", "--json")
    assert done.code == 0
    assert "1 line could not be read" in done.err
    assert json.loads(done.out)["runs"][0]["rejected_lines"] == 1
    assert "1 line could not be read." in (genrm.folder / "out.html").read_text(encoding="utf-8")
