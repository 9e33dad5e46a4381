import json

import pytest

from genrm_cli.catalog import INPUT_FORMATS


def test_every_printed_example_is_read_as_its_format(genrm, call):
    """The example lines of all formats, piped into one file, are recognised, each as its own
    format.
    """
    lines = [call("formats", name).out for name in INPUT_FORMATS]
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
    (genrm.folder / "examples.jsonl").write_bytes(b"".join(lines))
    report = json.loads(call("validate examples.jsonl --json").out)
    assert report["formats"] == dict.fromkeys(INPUT_FORMATS, 1)
    assert report["rejected_lines"] == 0


def test_the_list_holds_each_format_with_an_example(call):
    """In a pipe each format has a line with its explanation, and one that is its whole example."""
    lines = call("formats").out.decode().splitlines()
    for name, explanation in INPUT_FORMATS.items():
        at = next(
            number for number, line in enumerate(lines) if line.split(maxsplit=1)[:1] == [name]
        )
        assert lines[at].endswith(f"  {explanation}")
        assert json.loads(lines[at + 1]) == json.loads(call("formats", name).out)


def test_an_unknown_format_is_refused_with_a_guess(call):
    """A misspelt name ends with 2 and the name that was perhaps meant."""
    finished = call("formats nemogym").ended(2)
    assert finished.out == b""
    assert "Did you mean nemo_gym?" in finished.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("it is.csv", b'question,reply\nWhy?,So.\nWhy?,"Because,\nI say."\nHow?,a\nHow?,b\n'),
        ("table", b"question\treply\nWhy?\tSo.\nWhy?\tBecause.\nHow?\ta\nHow?\tb\n"),
    ],
    ids=["csv", "tsv"],
)
def test_the_rows_of_a_table_are_scored(genrm, call, name, content):
    """Rows become JSON lines with the names of the first row; fields whose names are not known are
    named.
    """
    (genrm.folder / name).write_bytes(content)
    refused = call("validate", name).ended(3)
    assert "--prompt-field question" in refused.err
    named = ["--prompt-field", "question", "--response-field", "reply"]
    call("score -o out.jsonl --judge lexical", name, *named).ended(0)
    lines = [json.loads(line) for line in genrm.text("out.jsonl").splitlines()]
    assert [line["question"] for line in lines] == ["Why?", "Why?", "How?", "How?"]
    assert all(line["reward"] is not None for line in lines)
