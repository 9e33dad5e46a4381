"""What commands refuse, row by row of refused_commands.toml."""

import tomllib
from pathlib import Path

import pytest
from scored_lines import scored

ROWS_PATH = Path(__file__).with_name("refused_commands.toml")
TABLES = tomllib.loads(ROWS_PATH.read_text(encoding="utf-8"))
ROWS = [
    (f"{command} {words}".removeprefix("genrm "), *more)
    for command, rows in TABLES.items()
    for words, *more in rows
]
ALONE = [{"prompt": "1?", "completion": "a"}, {"prompt": "2?", "completion": "b"}]
GROUP = [scored("best", 5.0), scored("worst", 1.0, index=1)]
FILES = {
    "empty.jsonl": [],
    "alone.jsonl": ALONE,
    "blank.jsonl": [{"prompt": "Why?", "completion": ""}] * 2,
    "other.jsonl": [{"colour": "red"}],
    "pairs.jsonl": [{"prompt": "Why?", "chosen": "a", "rejected": "b"}],
    "out.json": [{}],
    "x.scored.jsonl": GROUP,
    "one.scored.jsonl": GROUP[:1],
    "mixed.scored.jsonl": [*GROUP, *ALONE],
}


@pytest.fixture
def contents(genrm):
    """Write the files that rows name; return what all of them hold."""
    genrm.rollouts()
    for name, lines in FILES.items():
        genrm.write(name, lines)
    (genrm.folder / "grid.toml").write_text("[axes]\nrepeats = [1, 2]\n")
    (genrm.folder / "mine.toml").write_text("[[scenario]]\nscenario_id = 'x'\n")
    return lambda: {name: genrm.text(name) for name in genrm.names()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_it_is_told_and_nothing_is_written_or_asked(call, judge_server, contents, row):
    """The exit code is that of its kind, and the message says what to do."""
    words, code, says, *stdin = row
    before = contents()
    judge = " ".join(judge_server.flags)
    refused = call(words.replace("JUDGE", judge), stdin="".join(stdin).encode()).ended(code)
    said = " ".join(refused.err.split())
    assert says in said
    assert "secret" not in said
    assert refused.out == b"" or "--json" in words or words.startswith("validate")
    assert contents() == before
    assert judge_server.stats()["requests"] == 0
