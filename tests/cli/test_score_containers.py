import gzip
import json
import zipfile

import pytest


def sample(epoch):
    """Make a sample of an eval log."""
    answer = {"role": "assistant", "content": "Because " * epoch}
    messages = [
        {"role": "user", "content": "Why?", "source": "input"},
        {**answer, "source": "generate"},
    ]
    return {
        "id": "q1",
        "epoch": epoch,
        "input": "Why?",
        "target": "",
        "messages": messages,
        "output": {"model": "m", "choices": [{"message": answer}]},
        "scores": {"match": {"value": float("nan")}},
    }


def write_parquet(path, rows):
    """Write rows as Parquet."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def test_an_eval_log_becomes_scored_samples(genrm, call):
    """Each sample of a `.eval` log is a line of the output, with a score and everything else as it
    was.
    """
    samples = [sample(epoch) for epoch in (1, 2, 3)]
    with zipfile.ZipFile(genrm.folder / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for each in samples:
            archive.writestr(f"samples/q1_epoch_{each['epoch']}.json", json.dumps(each, indent=2))
    call("score log.eval --offline").ended(0)
    assert genrm.text("log.scored.jsonl").count('"match":{"value":null}') == 3
    scored = genrm.lines("log.scored.jsonl")
    assert [line["epoch"] for line in scored] == [1, 2, 3]
    assert all(isinstance(line["reward"], float) for line in scored)
    assert [line["messages"] for line in scored] == [each["messages"] for each in samples]


def test_completions_of_trl_are_scored(genrm, call):
    """The Parquet files that TRL writes are read; the output is JSON lines with the same
    columns.
    """
    columns = {"step": 1, "accuracy": float("nan"), "advantage": 0.5}
    rows = [{"prompt": f"Q{n % 2}?", "completion": "So " * (n + 1), **columns} for n in range(6)]
    write_parquet(genrm.folder / "of_trl.parquet", rows)
    call("score of_trl.parquet --offline").ended(0)
    scored = genrm.lines("of_trl.scored.jsonl")
    assert [line["completion"] for line in scored] == [row["completion"] for row in rows]
    assert all(line["accuracy"] is None and isinstance(line["reward"], float) for line in scored)
    assert genrm.metrics("of_trl")["group_sizes"] == {"3": 2}


def test_parquet_of_other_columns_is_refused(genrm, call):
    """Rows that hold no rollouts end with 3, by their item numbers, and name the columns that were
    found.
    """
    write_parquet(genrm.folder / "in.parquet", [{"colour": "red"}, {"colour": "blue"}])
    said = " ".join(call("score in.parquet --offline").ended(3).err.split())
    unknown = "cannot read any of its 2 items as rollouts (items 1, 2: unknown format with the keys"
    assert f"{unknown} colour" in said


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
    assert "--prompt-field question" in call("validate", name).ended(3).err
    fields = "--prompt-field question --response-field reply"
    call(f"score -o out.jsonl --offline {fields}", name).ended(0)
    lines = genrm.lines("out.jsonl")
    assert [line["question"] for line in lines] == ["Why?", "Why?", "How?", "How?"]
    assert all(line["reward"] is not None for line in lines)


@pytest.mark.parametrize(
    "words",
    [
        "report -o page.html",
        "show",
        "export --to trl-dpo -o out.jsonl",
        "review",
    ],
)
def test_the_limit_of_unpacked_bytes_holds_wherever_scored_lines_are_read(genrm, call, words):
    """A small file that unpacks to more than the limit is refused with the setting, and nothing is
    written.
    """
    genrm.rollouts(1, 3)
    call("score in.jsonl --offline").ended(0)
    padded = genrm.text("in.scored.jsonl") + " " * 2_000_000
    (genrm.folder / "big.scored.jsonl.gz").write_bytes(gzip.compress(padded.encode()))
    before = genrm.names()
    finished = call(f"{words} big.scored.jsonl.gz --max-unpacked 1000000").ended(3)
    assert "--max-unpacked" in finished.err
    assert genrm.names() == before
