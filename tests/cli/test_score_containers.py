import gzip
import io
import json
import zipfile

import pytest

SAMPLES = [
    {
        "id": "q1",
        "epoch": epoch,
        "input": "Why?",
        "target": "",
        "messages": [
            {
                "role": "user",
                "content": "Why?",
                "source": "input",
            },
            {
                "role": "assistant",
                "content": "Because " * epoch,
                "source": "generate",
            },
        ],
        "output": {
            "model": "m",
            "choices": [{"message": {"role": "assistant", "content": "Because " * epoch}}],
        },
        "scores": {"match": {"value": float("nan")}},
    }
    for epoch in (1, 2, 3)
]


def _eval_log(samples):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for sample in samples:
            archive.writestr(
                f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample, indent=2)
            )
    return buffer.getvalue()


def _parquet(rows):
    import pyarrow
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def test_an_eval_log_becomes_scored_samples(genrm, call):
    """Each sample of a `.eval` log is a line of the output, with a score and everything else as it
    was.
    """
    (genrm.folder / "log.eval").write_bytes(_eval_log(SAMPLES))
    call("score log.eval --offline").ended(0)
    text = genrm.text("log.scored.jsonl")
    assert text.count('"match":{"value":null}') == 3
    scored = [json.loads(line) for line in text.splitlines()]
    assert [sample["epoch"] for sample in scored] == [1, 2, 3]
    assert all(isinstance(sample["reward"], float) for sample in scored)
    assert [sample["messages"] for sample in scored] == [sample["messages"] for sample in SAMPLES]


def test_completions_of_trl_are_scored(genrm, call):
    """The Parquet files that TRL writes are read; the output is JSON lines with the same
    columns.
    """
    rows = [
        {
            "step": 1,
            "prompt": f"Q{n % 2}?",
            "completion": "So " * (n + 1),
            "accuracy": float("nan"),
            "advantage": 0.5,
        }
        for n in range(6)
    ]
    (genrm.folder / "completions_00001.parquet").write_bytes(_parquet(rows))
    call("score completions_00001.parquet --offline").ended(0)
    scored = genrm.lines("completions_00001.scored.jsonl")
    assert [line["completion"] for line in scored] == [row["completion"] for row in rows]
    assert all(line["accuracy"] is None and isinstance(line["reward"], float) for line in scored)
    metrics = genrm.json("completions_00001.metrics.json")
    assert metrics["group_sizes"] == {"3": 2}


def test_parquet_of_other_columns_is_refused(genrm, call):
    """Rows that hold no rollouts end with 3, by their item numbers, and name the columns that were
    found.
    """
    (genrm.folder / "in.parquet").write_bytes(_parquet([{"colour": "red"}, {"colour": "blue"}]))
    finished = call("score in.parquet --offline").ended(3)
    assert (
        "cannot read any of its 2 items as rollouts (items 1, 2: unknown format with the keys "
        "colour" in " ".join(finished.err.split())
    )


@pytest.mark.parametrize(
    "command",
    [
        ("report", "-o", "page.html"),
        ("show",),
        ("export", "--to", "trl-dpo", "-o", "out.jsonl"),
        ("review",),
    ],
)
def test_the_limit_of_unpacked_bytes_holds_wherever_scored_lines_are_read(genrm, call, command):
    """A small file that unpacks to more than the limit is refused with the setting, and nothing is
    written.
    """
    genrm.rollouts(1, 3)
    call("score in.jsonl --offline").ended(0)
    scored = (genrm.folder / "in.scored.jsonl").read_bytes()
    (genrm.folder / "big.scored.jsonl.gz").write_bytes(gzip.compress(scored + b" " * 2_000_000))
    before = genrm.names()
    name, *options = command
    finished = call(name, "big.scored.jsonl.gz", *options, "--max-unpacked", "1000000").ended(3)
    assert "--max-unpacked" in finished.err
    assert genrm.names() == before
