import gzip
import json
from typing import Any

import pytest
from genrm_process import SAMPLE_DATA
from scored_lines import read_lines, scored, total, write_lines

from genrm_cli.products.export.formats import FORMATS

GROUP = [scored("best", 5.0), scored("middle", 3.0, index=1), scored("worst", 1.0, index=2)]


@pytest.fixture
def folder(genrm):
    """Give a test the folder of the command."""
    return genrm.folder


def manifest_of(folder, stem="out"):
    """Read a manifest."""
    manifest: dict[str, Any] = json.loads((folder / f"{stem}.manifest.json").read_text())
    return manifest


def pairs_in(path):
    """Return the chosen and rejected texts of rows in the form of TRL's DPO."""
    return [
        (row["chosen"][-1]["content"], row["rejected"][-1]["content"]) for row in read_lines(path)
    ]


def test_what_score_wrote_is_exported(call, folder):
    """The whole way: rollouts, scores, pairs; the manifest accounts for every rollout and says who
    judged.
    """
    assert (
        call(
            "score",
            SAMPLE_DATA / "rollouts.jsonl",
            "--judge",
            "lexical",
            "-o",
            folder / "x.scored.jsonl",
        ).code
        == 0
    )
    done = call("export x.scored.jsonl --to trl-dpo -o out.jsonl")
    assert done.code == 0
    assert done.out == b""
    rows = read_lines(folder / "out.jsonl")
    manifest = manifest_of(folder)
    assert len(rows) == manifest["rows"]["train"] == 7
    assert manifest["rollouts"] == 36
    assert manifest["left_out"] == {"blank": 1}
    assert manifest["inputs"][0]["judges"] == ["lexical"]
    assert manifest["inputs"][0]["scored_with"]["estimator"] == "adaptive"
    assert "train on it: no. The built-in lexical baseline judged this" in done.err
    assert "DPOTrainer" in done.err
    assert manifest["longer_chosen_share"] == 1.0
    assert "longer answer chosen in 100.0 %" in done.err


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_is_written(call, folder, name):
    """Each format gives rows, a manifest, and what to type at its loader."""
    write_lines(folder / "x.scored.jsonl", GROUP)
    done = call("export x.scored.jsonl", "--to", name, "-o", "out.jsonl").ended(0)
    assert read_lines(folder / "out.jsonl")
    assert "load it with:" in done.err
    assert (folder / "out.dataset_info.json").exists() == (name == "llamafactory")


def test_exports_are_as_private_as_their_inputs(call, folder):
    """What only its owner may read stays so, the manifest included."""
    write_lines(folder / "x.scored.jsonl", GROUP).chmod(0o600)
    assert call("export x.scored.jsonl --to trl-dpo -o out.jsonl").code == 0
    assert {
        (folder / name).stat().st_mode & 0o777 for name in ("out.jsonl", "out.manifest.json")
    } == {0o600}


def test_rollouts_that_must_not_be_trained_on_stay_out(call, folder):
    """Unscored, single and defaulted rollouts, blank ones, and rewards that a user gave to unscored
    ones.
    """
    bad = [
        scored("unscored", None, index=3),
        scored("given", 0.0, index=4, status="unscored", reason_text="judge failed"),
        scored("alone", 3.0, group="task:2", status="single"),
        scored("defaulted", 9.0, index=5, defaulted=1),
        scored("", 0.5, index=6),
        scored(
            [
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {"url": "x"},
                        }
                    ],
                }
            ],
            0.4,
            index=7,
        ),
    ]
    write_lines(folder / "x.scored.jsonl", [*GROUP, *bad])
    assert call("export x.scored.jsonl --to trl-dpo -o out.jsonl --pairs all").code == 0
    assert {text for pair in pairs_in(folder / "out.jsonl") for text in pair} == {
        "best",
        "middle",
        "worst",
    }
    assert manifest_of(folder)["left_out"] == {
        "incomplete": 1,
        "unscored": 1,
        "single": 1,
        "defaulted": 1,
        "blank": 1,
        "media": 1,
    }


def test_rewards_without_comparisons_are_refused_where_these_are_needed(call, folder):
    """No comparisons file, no guess: exit 3, and the missing file is named."""
    write_lines(folder / "x.scored.jsonl", GROUP)
    options = ["--to", "trl-dpo", "-o", "out.jsonl", "--pairs", "compared"]
    done = call("export x.scored.jsonl", *options).ended(3)
    assert "comparisons file" in done.err
    assert not (folder / "out.jsonl").exists()


def test_files_scored_differently_are_refused(call, folder):
    """Two judges are two scales: exit 2."""
    write_lines(folder / "a.scored.jsonl", GROUP)
    write_lines(
        folder / "b.scored.jsonl",
        [line | {"genrm": line["genrm"] | {"judge": "k"}} for line in GROUP],
    )
    done = call("export a.scored.jsonl b.scored.jsonl --to trl-dpo -o out.jsonl").ended(2)
    assert "j, k" in done.err


def test_an_input_without_a_row_is_an_error(call, folder):
    """Unscored lines, other files and single rollouts: exit 3 with the reason, and no empty data
    set.
    """
    cases = [
        (
            [
                {
                    "messages": [
                        {"role": "user", "content": "a"},
                        {"role": "assistant", "content": "b"},
                    ]
                }
            ],
            "not scored",
        ),
        ([{"a": 1}], "unknown format"),
        ([], "nothing is left"),
        (GROUP[:1], "nothing is left"),
    ]
    for lines, told in cases:
        write_lines(folder / "x.scored.jsonl", lines)
        done = call("export x.scored.jsonl --to trl-dpo -o out.jsonl").ended(3)
        assert told in done.err
        assert [path.name for path in folder.iterdir()] == ["x.scored.jsonl"]


def test_bad_lines_are_counted_and_refused_by_strict(call, folder):
    """A broken and an unscored line cost nothing but themselves; with --strict they are exit 3."""
    path = write_lines(folder / "x.scored.jsonl", [*GROUP, {"prompt": "a", "response": "b"}])
    path.write_text(path.read_text() + "{broken\n")
    assert call("export x.scored.jsonl --to trl-dpo -o out.jsonl").code == 0
    assert manifest_of(folder)["rejected_lines"] == 2
    assert call("export x.scored.jsonl --to trl-dpo -o new.jsonl --strict").code == 3


def test_undeclared_metadata_is_refused(call, folder):
    """With --require-metadata only declared rollouts are exported."""
    declared = [line | {"metadata": {"synthetic": True}} for line in GROUP]
    write_lines(folder / "x.scored.jsonl", [*declared, scored("real", 9.0, index=3)])
    options = ("--require-metadata", "synthetic=true")
    assert call("export x.scored.jsonl --to trl-dpo -o out.jsonl", *options).code == 0
    assert pairs_in(folder / "out.jsonl") == [("best", "worst")]
    assert list(manifest_of(folder)["rejected_reasons"]) == [
        "does not declare synthetic=true (require_metadata)"
    ]


def as_episode(line, **before):
    """Make a scored session of a scored line, with what its collection recorded."""
    detail = line["genrm"] | {"previous_reward": {"total_reward": 0.0, **before}}
    reward = {
        "total_reward": line["reward"],
        "components": {},
    }
    return line | {
        "scenario": {"scenario_id": "x"},
        "reward": reward,
        "genrm": detail,
    }


UNSAFE = {
    "a gate at scoring": scored("unsafe", 9.0, index=3, total=total(gated_by=["q"])),
    "a rule without a gate": scored("unsafe", 9.0, index=3, components={"safety": 0.0}),
    "a judge without a gate": scored("unsafe", 9.0, index=3, components={"rubric_constraints": 0}),
    "a gate at collection": as_episode(scored("unsafe", 9.0, index=3), gated_by=["contact"]),
    "safety at collection": as_episode(scored("unsafe", 9.0, index=3), components={"safety": 0}),
}


@pytest.mark.parametrize("unsafe", UNSAFE)
@pytest.mark.parametrize("name", list(FORMATS))
def test_no_format_prefers_what_broke_a_gate(call, folder, name, unsafe):
    """Nowhere is it chosen, wanted, kept, or among responses with a reward that is not the
    lowest.
    """
    safe = [as_episode(line) for line in GROUP] if "scenario" in UNSAFE[unsafe] else GROUP
    write_lines(folder / "x.scored.jsonl", [*safe, UNSAFE[unsafe]])
    call("export x.scored.jsonl", "--to", name, "-o", "out.jsonl").ended(0)
    assert "unsafe" not in (folder / "out.jsonl").read_text()
    assert "9.0" not in (folder / "out.jsonl").read_text()


def test_rollouts_held_for_review_stay_out(call, folder):
    """The last status counts; approved rollouts are exported, held and pending ones are not."""
    write_lines(folder / "x.scored.jsonl", [*GROUP, scored("fourth", 0.5, index=3)])
    reviews = [
        {
            "group": "task:1",
            "index": 0,
            "status": "held",
            "by": "A. Expert",
        },
        {
            "group": "task:1",
            "index": 1,
            "status": "held",
        },
        {
            "group": "task:1",
            "index": 1,
            "status": "approved",
        },
        {
            "group": "task:1",
            "index": 3,
            "status": "pending",
        },
    ]
    write_lines(folder / "x.review.jsonl", reviews)
    assert call("export x.scored.jsonl --to trl-dpo -o out.jsonl").code == 0
    assert pairs_in(folder / "out.jsonl") == [("middle", "worst")]
    assert manifest_of(folder)["left_out"] == {"review_held": 1, "review_pending": 1}


def test_an_unreadable_review_is_refused(call, folder):
    """A review that cannot be read might hold a rollout back: exit 3, nothing is exported."""
    cases = ['{"group": "task:1", "index": 0, "status": "fine"}', "{", '{"status": "held"}']
    for line in cases:
        write_lines(folder / "x.scored.jsonl", GROUP)
        (folder / "x.review.jsonl").write_text(line + "\n")
        assert call("export x.scored.jsonl --to trl-dpo -o out.jsonl").code == 3
        assert not (folder / "out.jsonl").exists()


def test_the_split_is_by_prompt(call, folder):
    """No prompt is on both sides, both sides are written, and together they are everything."""
    words = [
        " ".join(f"w{(group * 37 + at * 101) % 997}" for at in range(9)) for group in range(40)
    ]
    lines = [
        scored(
            f"{group} {index}",
            float(index),
            group=f"task:{group}",
            index=index,
            size=3,
            prompt=words[group // 2],
        )
        for group in range(40)
        for index in range(3)
    ]
    write_lines(folder / "x.scored.jsonl", lines)
    options = ["--split", "0.2", "--pairs", "all"]
    assert call("export x.scored.jsonl --to trl-dpo -o out.jsonl", *options).code == 0
    train, validation = (
        {row["prompt_id"] for row in read_lines(folder / name)}
        for name in ("out.jsonl", "out.validation.jsonl")
    )
    assert not train & validation
    assert len(train) == 16
    assert len(validation) == 4
    assert manifest_of(folder)["rows"] == {"train": 96, "validation": 24}


def test_rejection_sampling_keeps_the_best(call, folder):
    """--best-of counts per prompt; rewards must reach --min-reward."""
    write_lines(folder / "x.scored.jsonl", GROUP)
    common = [
        "export",
        "x.scored.jsonl",
        "--to",
        "trl-sft",
        "--best-of",
        "3",
        "--min-reward",
        "2.5",
        "--force",
    ]

    def kept(*options):
        call(*common, "-o", "out.jsonl", *options)
        return [row["completion"][0]["content"] for row in read_lines(folder / "out.jsonl")]

    assert kept() == ["best", "middle"]
    assert kept("--best-of", "1") == ["best"]


def test_sessions_are_exported_whole_or_at_a_turn(call, folder):
    """Whole sessions have all turns; at a turn only those with equal histories are paired."""

    def session(first, second, reward, index):
        turns = [
            {"role": "assistant", "content": first},
            {"role": "user", "content": "And?"},
            {"role": "assistant", "content": second},
        ]
        return scored(turns, reward, index=index, size=3, prompt="I feel low.") | {
            "scenario": {"scenario_id": "s"}
        }

    lines = [
        session("Oh.", "good", 5.0, 0),
        session("Oh.", "bad", 2.0, 1),
        session("Hm.", "worse", 1.0, 2),
    ]
    write_lines(folder / "x.scored.jsonl", lines)
    assert call("export x.scored.jsonl --to trl-dpo -o whole.jsonl").code == 0
    (row,) = read_lines(folder / "whole.jsonl")
    assert [message["role"] for message in row["chosen"]] == ["assistant", "user", "assistant"]
    options = ["--branch-at", "2", "--pairs", "all"]
    assert call("export x.scored.jsonl --to trl-dpo -o turn.jsonl", *options).code == 0
    (row,) = read_lines(folder / "turn.jsonl")
    assert [message["content"] for message in row["prompt"]] == ["I feel low.", "Oh.", "And?"]
    assert row["chosen"][0]["content"] == "good"
    assert row["rejected"][0]["content"] == "bad"
    assert manifest_of(folder, "turn")["dropped"] == {"mixed_prompts": 2}


def test_compressed_and_parquet_outputs(call, folder):
    """The suffix decides; Parquet has a column for every field, null where a row lacks it."""
    from pyarrow import parquet

    tool = {
        "type": "function",
        "function": {"name": "look"},
    }
    other = [
        line | {"tools": [tool]}
        for line in (scored("x", 2.0, group="task:2"), scored("y", 1.0, group="task:2", index=1))
    ]
    write_lines(folder / "x.scored.jsonl", [*GROUP, *other])
    assert call("export x.scored.jsonl --to trl-dpo -o out.parquet").code == 0
    rows = parquet.read_table(folder / "out.parquet").to_pylist()
    assert [row["tools"] for row in rows] == [None, json.dumps([tool])]
    assert rows[0]["chosen"] == [{"role": "assistant", "content": "best"}]
    assert (
        call("export x.scored.jsonl --to trl-dpo -o out.jsonl.gz").code == 2
    )  # the manifest is there
    assert call("export x.scored.jsonl --to trl-dpo -o other.jsonl.gz").code == 0
    assert len(gzip.decompress((folder / "other.jsonl.gz").read_bytes()).splitlines()) == 2


def test_standard_streams(call, folder):
    """Scored lines from stdin, rows to stdout; nothing is written beside."""
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in GROUP)
    done = call("export - --to trl-dpo -o -", stdin=lines).ended(0)
    assert json.loads(done.out)["margin"] == 4.0
    assert list(folder.iterdir()) == []


def test_wrong_options_are_refused(call, folder):
    """Exit 2 before anything is written."""
    cases = [
        ("--to", "nothing", "-o", "out.jsonl"),
        ("--to", "trl-dpo", "-o", "out.csv"),
        (
            "--to",
            "trl-dpo",
            "-o",
            "x.scored.jsonl",
            "--force",
        ),
        (
            "--to",
            "trl-dpo",
            "-o",
            "out.jsonl",
            "--pairs",
            "some",
        ),
        (
            "--to",
            "trl-dpo",
            "-o",
            "s3://bucket/data/out.jsonl",
        ),
        (
            "--to",
            "trl-dpo",
            "-o",
            "out.jsonl",
            "--threshold",
            "3",
        ),
        (
            "--to",
            "trl-sft",
            "-o",
            "out.jsonl",
            "--min-gap",
            "1",
        ),
    ]
    for options in cases:
        write_lines(folder / "x.scored.jsonl", GROUP)
        before = (folder / "x.scored.jsonl").read_bytes()
        assert call("export x.scored.jsonl", *options).code == 2
        assert (folder / "x.scored.jsonl").read_bytes() == before
        assert [path.name for path in folder.iterdir()] == ["x.scored.jsonl"]


@pytest.mark.usefixtures("s3")
def test_a_prefix_on_s3_is_exported_to_s3(genrm, call, s3_bucket):
    """All scored files under a prefix, none of the others; rows and manifest appear under rl/."""
    body = b"".join(json.dumps(line).encode() + b"\n" for line in GROUP)
    for key in ("rl/env/a.scored.jsonl", "rl/env/b.scored.jsonl", "rl/env/raw.jsonl"):
        s3_bucket.client.put_object(Bucket=s3_bucket.name, Key=key, Body=body)
    held = b'{"group": "task:1", "index": 0, "status": "held"}\n'
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="rl/env/b.review.jsonl", Body=held)
    root = f"s3://{s3_bucket.name}"
    call("export", f"{root}/rl/env/", "--to", "trl-dpo", "-o", f"{root}/rl/pairs.jsonl").ended(0)
    rows = (
        s3_bucket.client.get_object(Bucket=s3_bucket.name, Key="rl/pairs.jsonl")["Body"]
        .read()
        .splitlines()
    )
    chosen = [json.loads(row)["chosen"][0]["content"] for row in rows]
    assert chosen == ["best", "middle"]
    manifest = s3_bucket.client.get_object(Bucket=s3_bucket.name, Key="rl/pairs.manifest.json")[
        "Body"
    ].read()
    assert [each["uri"] for each in json.loads(manifest)["inputs"]] == [
        f"{root}/rl/env/{n}.scored.jsonl" for n in "ab"
    ]
    assert list(genrm.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("to", "kept"),
    [
        (
            "trl-dpo",
            {
                "gts_chosen": "4",
                "gts_rejected": "4",
                "meta.k_chosen": 1,
                "meta.k_rejected": 0,
            },
        ),
        ("trl-sft", {"gts": "4", "meta.k": 1}),
        ("trl-grpo", {"gts": "4", "meta.k": None}),
        ("groups", {"gts": ["4", "4"], "meta.k": [0, 1]}),
    ],
)
def test_fields_of_the_input_stay_as_columns(to, kept, genrm, call):
    """--keep takes dotted paths; pairs have a value for each side, groups one for each response."""
    answers = (scored("5", 1.0, index=0), scored("4", 2.0, index=1))
    write_lines(
        genrm.folder / "x.scored.jsonl",
        [a | {"gts": "4", "meta": {"k": n}} for n, a in enumerate(answers)],
    )
    call(
        "export x.scored.jsonl", "--to", to, "-o", "o.jsonl", "--keep", "gts", "--keep", "meta.k"
    ).ended(0)
    [row] = read_lines(genrm.folder / "o.jsonl")
    assert {name: row[name] for name in row if name.startswith(("gts", "meta"))} == kept


def test_a_field_that_no_line_has_or_the_format_needs_is_refused(genrm, call):
    """Nothing is written, and the error names the option and the field."""
    for name in ["gt", "prompt"]:
        write_lines(
            genrm.folder / "x.scored.jsonl", [scored("5", 1.0, index=0), scored("4", 2.0, index=1)]
        )
        done = call("export x.scored.jsonl --to trl-dpo -o o.jsonl", "--keep", name)
        assert done.code == 2
        assert genrm.names() == {"x.scored.jsonl"}
        assert f"--keep {name}: " in done.err


@pytest.mark.parametrize(
    ("fields", "options", "truth"),
    [
        ({"gts": "4"}, (), "4"),
        (
            {
                "answer": ["4"],
                "solution": "2 + 2 = 4",
            },
            (),
            "",
        ),
        (
            {
                "answer": ["4"],
                "solution": "2 + 2 = 4",
            },
            ("--reference-field", "answer"),
            "4",
        ),
        ({"n": 4}, ("--reference-field", "n"), "4"),
    ],
)
def test_verl_gets_the_reference_answer(fields, options, truth, genrm, call):
    """The named field, or the only known one; of several, none is chosen."""
    lines = [scored("5", 1.0, index=0) | fields, scored("4", 2.0, index=1) | fields]
    write_lines(genrm.folder / "x.scored.jsonl", lines)
    assert call("export x.scored.jsonl --to verl -o o.jsonl", *options).code == 0
    assert [
        row["reward_model"]["ground_truth"] for row in read_lines(genrm.folder / "o.jsonl")
    ] == [truth]
