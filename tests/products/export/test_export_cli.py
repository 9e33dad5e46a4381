import gzip
import json

import pytest
from genrm_process import SAMPLE_DATA
from s3_objects import get, put
from scored_lines import scored, total, write_lines

from genrm_cli.products.export.formats import FORMATS

EXPORT = "export x.scored.jsonl --to"
GROUP = [scored("best", 5.0), scored("middle", 3.0, index=1), scored("worst", 1.0, index=2)]


@pytest.fixture
def export(call, genrm):
    """Give a test the command, for an input of its own."""

    def run(lines, words, code=0):
        write_lines(genrm.folder / "x.scored.jsonl", lines)
        return call(f"{EXPORT} {words}").ended(code)

    return run


@pytest.fixture
def pairs(export, genrm):
    """Give a test the pairs of its input as TRL's DPO reads them, and the manifest."""

    def run(lines, words=""):
        export(lines, f"trl-dpo -o out.jsonl {words}")
        rows = genrm.lines("out.jsonl")
        found = [(row["chosen"][-1]["content"], row["rejected"][-1]["content"]) for row in rows]
        return found, genrm.json("out.manifest.json")

    return run


def test_what_score_wrote_is_exported(call, genrm):
    """The whole way: rollouts, scores, pairs; the manifest accounts for every rollout and says who
    judged.
    """
    call("score --offline -o x.scored.jsonl", SAMPLE_DATA / "rollouts.jsonl").ended(0)
    done = call(f"{EXPORT} trl-dpo -o out.jsonl").ended(0)
    assert done.out == b""
    manifest = genrm.json("out.manifest.json")
    assert len(genrm.lines("out.jsonl")) == manifest["rows"]["train"] == 7
    assert (manifest["rollouts"], manifest["left_out"]) == (36, {"blank": 1})
    assert manifest["inputs"][0]["judges"] == ["lexical"]
    assert manifest["inputs"][0]["scored_with"]["estimator"] == "adaptive"
    assert "train on it: no. The built-in lexical baseline judged this" in done.err
    assert "DPOTrainer" in done.err
    assert "longer answer chosen in 100.0 %" in done.err


def as_episode(line, **before):
    """Make a scored session of a scored line, with what its collection recorded."""
    detail = line["genrm"] | {"previous_reward": {"total_reward": 0.0, **before}}
    reward = {"total_reward": line["reward"], "components": {}}
    return line | {"scenario": {"scenario_id": "x"}, "reward": reward, "genrm": detail}


# At scoring, by a rule or a judge without a gate, and at collection by a gate or a component.
UNSAFE = [
    {"total": total(gated_by=["q"])},
    {"components": {"safety": 0.0}},
    {"components": {"rubric_constraints": 0}},
]
UNSAFE_SESSIONS = [{"gated_by": ["contact"]}, {"components": {"safety": 0}}]


@pytest.mark.parametrize("unsafe", [*UNSAFE, *UNSAFE_SESSIONS], ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_no_format_prefers_what_broke_a_gate(export, genrm, name, unsafe):
    """Each writes rows, and says how to load them. Nowhere is the response chosen, wanted, kept, or
    among those with a reward that is not the lowest.
    """
    if unsafe in UNSAFE:
        lines = [*GROUP, scored("unsafe", 9.0, index=3, **unsafe)]
    else:
        lines = [*map(as_episode, GROUP), as_episode(scored("unsafe", 9.0, index=3), **unsafe)]
    done = export(lines, f"{name} -o out.jsonl")
    rows = genrm.text("out.jsonl")
    assert rows
    assert "unsafe" not in rows
    assert "9.0" not in rows
    assert "load it with:" in done.err
    assert ("out.dataset_info.json" in genrm.names()) == (name == "llamafactory")


def test_exports_are_as_private_as_their_inputs(call, genrm):
    """What only its owner may read stays so, the manifest included."""
    write_lines(genrm.folder / "x.scored.jsonl", GROUP).chmod(0o600)
    call(f"{EXPORT} trl-dpo -o out.jsonl").ended(0)
    assert {path.stat().st_mode & 0o777 for path in genrm.folder.iterdir()} == {0o600}


def test_rollouts_that_must_not_be_trained_on_stay_out(pairs):
    """Unscored, single and defaulted rollouts, blank ones, and rewards that a user gave to unscored
    ones.
    """
    media = {"type": "image_url", "image_url": {"url": "x"}}
    bad = [
        scored("unscored", None, index=3),
        scored("given", 0.0, index=4, status="unscored", reason_text="judge failed"),
        scored("alone", 3.0, group="task:2", status="single"),
        scored("defaulted", 9.0, index=5, defaulted=1),
        scored("", 0.5, index=6),
        scored([{"role": "assistant", "content": [media]}], 0.4, index=7),
    ]
    found, manifest = pairs([*GROUP, *bad], "--pairs all")
    assert {text for pair in found for text in pair} == {"best", "middle", "worst"}
    left_out = ("incomplete", "unscored", "single", "defaulted", "blank", "media")
    assert manifest["left_out"] == dict.fromkeys(left_out, 1)


UNSCORED = {"prompt": "a", "response": "b"}


def test_files_scored_differently_are_refused(call, genrm):
    """Two judges are two scales: exit 2."""
    for judge in "jk":
        lines = [line | {"genrm": line["genrm"] | {"judge": judge}} for line in GROUP]
        write_lines(genrm.folder / f"{judge}.scored.jsonl", lines)
    done = call("export j.scored.jsonl k.scored.jsonl --to trl-dpo -o out.jsonl").ended(2)
    assert "j, k" in done.err


def test_lines_that_are_not_exported_are_counted(pairs):
    """With --require-metadata only declared rollouts are exported; a line that is no scored line is
    no rollout, and a pair of equal lengths says nothing of them.
    """
    rows = [("longer", 5.0), ("low", 1.0), ("aaa", 3.0), ("bbb", 1.0)]
    lines = [
        scored(text, reward, group=f"task:{n // 2}", index=n % 2)
        | {"metadata": {"synthetic": True}}
        for n, (text, reward) in enumerate(rows)
    ]
    undeclared = scored("real", 9.0, group="task:0", index=2)
    found, manifest = pairs([*lines, undeclared, UNSCORED], "--require-metadata synthetic=true")
    assert found == [("longer", "low"), ("aaa", "bbb")]
    counts = {"rollouts": 4, "rejected_lines": 2, "rows": {"train": 2}, "longer_chosen_share": 1.0}
    assert manifest | counts == manifest
    assert "does not declare synthetic=true (require_metadata)" in manifest["rejected_reasons"]


def test_the_split_is_by_prompt(export, genrm):
    """No prompt is on both sides, both sides are written, and together they are everything."""
    prompts = [
        " ".join(f"w{(group * 37 + at * 101) % 997}" for at in range(9)) for group in range(20)
    ]
    lines = [
        scored(f"{group} {at}", at, group=f"task:{group}", index=at, prompt=prompts[group // 2])
        for group in range(40)
        for at in range(3)
    ]
    export(lines, "trl-dpo -o out.jsonl --split 0.2 --pairs all")
    sides = (genrm.lines(name) for name in ("out.jsonl", "out.validation.jsonl"))
    train, validation = ({row["prompt_id"] for row in rows} for rows in sides)
    assert not train & validation
    assert (len(train), len(validation)) == (16, 4)
    assert genrm.json("out.manifest.json")["rows"] == {"train": 96, "validation": 24}


@pytest.mark.parametrize(("most", "kept"), [(3, ["best", "middle"]), (1, ["best"])])
def test_rejection_sampling_keeps_the_best(export, genrm, most, kept):
    """--best-of counts per prompt; rewards must reach --min-reward."""
    export(GROUP, f"trl-sft -o out.jsonl --best-of {most} --min-reward 3")
    assert [row["completion"][0]["content"] for row in genrm.lines("out.jsonl")] == kept


def test_a_reward_at_the_threshold_is_wanted(export, genrm):
    """A threshold of 3 takes the reward of 3."""
    export(GROUP, "trl-kto -o out.jsonl --threshold 3")
    assert [row["label"] for row in genrm.lines("out.jsonl")].count(True) == 2


def session(first, second, reward, index):
    """Make a scored session of two turns of the policy."""
    turns = [("assistant", first), ("user", "And?"), ("assistant", second)]
    messages = [{"role": role, "content": text} for role, text in turns]
    line = scored(messages, reward, index=index, size=3, prompt="I feel low.")
    return line | {"scenario": {"scenario_id": "s"}}


def test_sessions_are_exported_whole_or_at_a_turn(export, genrm):
    """Whole sessions have all turns; at a turn only those with equal histories are paired."""
    lines = [
        session("Oh.", "good", 5.0, 0),
        session("Oh.", "bad", 2.0, 1),
        session("Hm.", "worse", 1.0, 2),
    ]
    export(lines, "trl-dpo -o whole.jsonl")
    [row] = genrm.lines("whole.jsonl")
    assert [message["role"] for message in row["chosen"]] == ["assistant", "user", "assistant"]
    export(lines, "trl-dpo -o turn.jsonl --branch-at 2 --pairs all")
    [row] = genrm.lines("turn.jsonl")
    assert [message["content"] for message in row["prompt"]] == ["I feel low.", "Oh.", "And?"]
    assert (row["chosen"][0]["content"], row["rejected"][0]["content"]) == ("good", "bad")
    assert genrm.json("turn.manifest.json")["dropped"] == {"mixed_prompts": 2}


def test_compressed_and_parquet_outputs(export, genrm):
    """The suffix decides; Parquet has a column for every field, null where a row lacks it."""
    from pyarrow import parquet

    tool = {"type": "function", "function": {"name": "look"}}
    other = [scored(text, -place, group="task:2", index=place) for place, text in enumerate("xy")]
    lines = [*GROUP, *(line | {"tools": [tool]} for line in other)]
    export(lines, "trl-dpo -o out.parquet")
    rows = parquet.read_table(genrm.folder / "out.parquet").to_pylist()
    assert [row["tools"] for row in rows] == [None, json.dumps([tool])]
    assert rows[0]["chosen"] == [{"role": "assistant", "content": "best"}]
    export(lines, "trl-dpo -o out.jsonl.gz", 2)  # the manifest is there
    export(lines, "trl-dpo -o other.jsonl.gz")
    assert len(gzip.decompress((genrm.folder / "other.jsonl.gz").read_bytes()).splitlines()) == 2


def test_standard_streams(call, genrm):
    """Scored lines from stdin, rows to stdout; nothing is written beside."""
    lines = "".join(json.dumps(line) + "\n" for line in GROUP)
    done = call("export - --to trl-dpo -o -", stdin=lines.encode()).ended(0)
    assert json.loads(done.out)["margin"] == 4.0
    assert genrm.names() == set()


@pytest.mark.usefixtures("s3")
def test_a_prefix_on_s3_is_exported_to_s3(call, s3_bucket):
    """All scored files under a prefix, none of the others; rows and manifest appear under rl/."""
    body = b"".join(json.dumps(line).encode() + b"\n" for line in GROUP)
    held = b'{"group": "task:1", "index": 0, "status": "held"}\n'
    bodies = dict.fromkeys(("a.scored.jsonl", "b.scored.jsonl", "raw.jsonl"), body)
    for name, content in (bodies | {"b.review.jsonl": held}).items():
        put(s3_bucket, f"rl/env/{name}", content)
    root = f"s3://{s3_bucket.name}/rl"
    call("export --to trl-dpo", f"{root}/env/", "-o", f"{root}/pairs.jsonl").ended(0)
    rows = get(s3_bucket, "rl/pairs.jsonl").splitlines()
    assert [json.loads(row)["chosen"][0]["content"] for row in rows] == ["best", "middle"]
    inputs = json.loads(get(s3_bucket, "rl/pairs.manifest.json"))["inputs"]
    assert [each["uri"] for each in inputs] == [f"{root}/env/{n}.scored.jsonl" for n in "ab"]


@pytest.mark.parametrize(
    ("to", "kept"),
    [
        (
            "trl-dpo",
            {"gts_chosen": "4", "gts_rejected": "4"} | {"meta.k_chosen": 1, "meta.k_rejected": 0},
        ),
        ("trl-sft", {"gts": "4", "meta.k": 1}),
        ("trl-grpo", {"gts": "4", "meta.k": None}),
        ("groups", {"gts": ["4", "4"], "meta.k": [0, 1]}),
    ],
)
def test_fields_of_the_input_stay_as_columns(to, kept, export, genrm):
    """--keep takes dotted paths; pairs have a value for each side, groups one for each response."""
    lines = [scored(str(n), n, index=n) | {"gts": "4", "meta": {"k": n}} for n in (0, 1)]
    export(lines, f"{to} -o o.jsonl --keep gts --keep meta.k")
    [row] = genrm.lines("o.jsonl")
    assert {name: row[name] for name in row if name.startswith(("gts", "meta"))} == kept


SOLVED = {"answer": ["4"], "solution": "2 + 2 = 4"}


@pytest.mark.parametrize(
    ("fields", "option", "truth"),
    [
        ({"gts": "4"}, "", "4"),
        (SOLVED, "", ""),
        (SOLVED, "--reference-field answer", "4"),
        ({"n": 4}, "--reference-field n", "4"),
    ],
)
def test_verl_gets_the_reference_answer(fields, option, truth, export, genrm):
    """The named field, or the only known one; of several, none is chosen."""
    export([line | fields for line in GROUP], f"verl -o o.jsonl {option}")
    assert [row["reward_model"]["ground_truth"] for row in genrm.lines("o.jsonl")] == [truth]
