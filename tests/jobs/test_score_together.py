"""Sets of files: `--together` scores them as one input, with groups that span files."""

import gzip
import json

import pytest

TOGETHER = "--offline --together --min-age 0"


def rollout(task, index, answer, prompt=None):
    """Make a line as NeMo Gym writes it: its shards hold some rollouts of many tasks."""
    part = {"type": "output_text", "text": answer}
    said = {"type": "message", "role": "assistant", "content": [part]}
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": index,
        "responses_create_params": {
            "input": [{"role": "user", "content": prompt or f"Question {task}?"}]
        },
        "response": {"output": [said]},
        "reward": 0.5,
    }


def write(path, lines):
    """Write lines, compressed or as a JSON array where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        text = json.dumps(lines)
    else:
        text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def write_shards(folder, names, tasks=6, size=4):
    """Spread the rollouts of each task over files; return all lines, file by file."""
    shards = {name: [] for name in names}
    for task in range(tasks):
        for index in range(size):
            answer = f"Answer {task} " + "word " * ((7 * task + 3 * index) % 11)
            shards[names[(task + index) % len(names)]].append(rollout(task, index, answer))
    for name, lines in shards.items():
        write(folder / name, lines)
    return [line for name in names for line in shards[name]]


@pytest.fixture
def two(genrm):
    """Write a set of two files."""
    write_shards(genrm.folder, ["a.jsonl", "b.jsonl"])


@pytest.mark.parametrize("estimator", ["adaptive", "simple_tiebreaker"])
def test_a_set_of_files_is_scored_as_their_concatenation(call, genrm, estimator):
    """Scored lines and comparisons of a set are, byte for byte, those of one file with all its
    lines; compressed files and JSON arrays, in several folders, form groups with each other.
    """
    names = ["rs0/a.jsonl", "rs1/b.jsonl.gz", "c.json"]
    write(genrm.folder / "whole.jsonl", write_shards(genrm.folder, names))
    plan = f"--strategy all_pairs --estimator {estimator}"
    call(f"score whole.jsonl --offline {plan}").ended(0)
    call(f"score {TOGETHER} {plan}", *names).ended(0)
    scored = [genrm.text(f"{name}.scored.jsonl") for name in ("rs0/a", "rs1/b", "c")]
    assert "".join(scored) == genrm.text("whole.scored.jsonl")
    assert genrm.text("together.comparisons.jsonl") == genrm.text("whole.comparisons.jsonl")


def test_contradicting_task_ids_give_way_to_the_prompt(call, genrm):
    """Shards that number their tasks from 0 are grouped by the prompt, and the run says so."""
    for name, answer in (("a", "First"), ("b", "Second, longer")):
        tasks = range(3) if name == "a" else reversed(range(3))
        lines = [rollout(n, 0, f"{answer} {n}", f"Prompt {task}") for n, task in enumerate(tasks)]
        write(genrm.folder / f"{name}.jsonl", lines)
    finished = call(f"score a.jsonl b.jsonl {TOGETHER}")
    assert "warning: 2 task ids of several prompts in these files" in finished.err
    prompts = {}
    for line in (*genrm.lines("a.scored.jsonl"), *genrm.lines("b.scored.jsonl")):
        prompt = line["responses_create_params"]["input"][0]["content"]
        prompts.setdefault(line["genrm"]["group"], []).append(prompt)
    assert sorted(prompts.values()) == [[f"Prompt {task}"] * 2 for task in range(3)]


@pytest.mark.usefixtures("two")
def test_a_file_without_rollouts_fails_the_set(call, genrm):
    """A file of which no line can be read is most likely a mistake, and is named."""
    genrm.write("c.jsonl", [{"something": "else"}])
    finished = call(f"score a.jsonl b.jsonl c.jsonl {TOGETHER}").ended(3)
    assert "c.jsonl: cannot read its only line" in finished.err
    assert not list(genrm.folder.glob("*scored*"))


@pytest.mark.usefixtures("two")
def test_a_set_is_up_to_date_until_one_of_its_files_changes(call, genrm):
    """An unchanged set is skipped in whatever order its files are named; a changed or a further
    file is a reason.
    """
    call(f"score a.jsonl b.jsonl {TOGETHER}").ended(0)
    again = call(f"score b.jsonl a.jsonl {TOGETHER}")
    assert "a set of 2 files: 1 up to date" in again.err
    for answer in ("One more", "Another one"):
        genrm.write("c.jsonl", [rollout(0, 9, answer)])
        assert "1 scored" in call(f"score a.jsonl b.jsonl c.jsonl {TOGETHER}").err
    assert "1 scored" in call(f"score a.jsonl b.jsonl {TOGETHER}").err


@pytest.mark.usefixtures("two")
def test_a_file_of_a_set_is_not_scored_alone(call, genrm):
    """The scored lines of a set are replaced by a run over a single file on request only, and the
    other way round.
    """
    call(f"score a.jsonl b.jsonl {TOGETHER}").ended(0)
    before = genrm.text("a.scored.jsonl")
    assert "was scored with other files" in call("score a.jsonl --offline").ended(2).err
    assert genrm.text("a.scored.jsonl") == before
    call("score a.jsonl --offline --force").ended(0)
    refused = call(f"score a.jsonl b.jsonl {TOGETHER}").ended(2)
    assert "but a.scored.jsonl was changed" in refused.err  # the one that is in the way


@pytest.mark.usefixtures("two")
def test_a_set_is_leased_as_a_whole(call, genrm):
    """While another run works on a set, this one leaves all of it alone."""
    lease = {"host": "another", "id": "1", "pid": 1, "started": "1", "since": "now"}
    genrm.write("together.lease-1", [lease | {"expiry_s": 300.0}])
    finished = call(f"score a.jsonl b.jsonl {TOGETHER}").ended(5)
    assert "process 1 on another has been working on it" in finished.err
    assert not list(genrm.folder.glob("*scored*"))


@pytest.fixture
def scored(call, genrm):
    """Score a set of three files, and the same lines in one file; name the set's scored lines."""
    names = ["rs0.jsonl", "rs1.jsonl", "rs2.jsonl"]
    write(genrm.folder / "whole.jsonl", write_shards(genrm.folder / "shards", names))
    call("score whole.jsonl --offline").ended(0)
    call(f"score shards/ {TOGETHER}").ended(0)
    return [f"shards/rs{n}.scored.jsonl" for n in range(3)]


def test_a_scored_set_is_exported_as_one_file(call, genrm, scored):
    """Pairs are made across the files of a set, with the comparisons of the set, and the ids name
    it.
    """
    export = "export --to trl-dpo --pairs compared -o"
    call(f"{export} whole.dpo.jsonl whole.scored.jsonl").ended(0)
    call(f"{export} set.dpo.jsonl --together", *scored).ended(0)
    rows = genrm.text("whole.dpo.jsonl")
    assert '"whole/task:3#' in rows
    assert genrm.text("set.dpo.jsonl") == rows.replace('"whole/', '"together/')
    manifest = genrm.json("set.dpo.manifest.json")
    assert [each["rollouts"] for each in manifest["inputs"]] == [8, 8, 8]
    assert {each["scored_with"]["estimator"] for each in manifest["inputs"]} == {"adaptive"}
    assert manifest["incomplete_groups"] == 0


def test_a_scored_set_is_shown_as_one_file(call, scored):
    """Groups that span files are shown whole, before and after scoring."""
    show = "show --group task:3 --json"
    for whole, of_set in (("whole.scored.jsonl", scored), ("whole.jsonl", ["shards/"])):
        assert call(f"{show} --together", *of_set).out == call(show, whole).out


ALONE = "was scored with other files"
WITHOUT = "rs2.scored.jsonl belongs to the set shards/together, too: name all of its 3 files"


@pytest.mark.parametrize(
    ("words", "count", "said"),
    [
        ("show", 1, ALONE),
        ("report", 3, ALONE),
        ("export shards/ --to trl-dpo -o x.jsonl", 0, ALONE),
        ("show", 2, "--together"),
        ("report whole.scored.jsonl --together", 3, "so it was not scored with the others"),
        ("export --together --to trl-dpo -o x.jsonl", 2, WITHOUT),
    ],
)
def test_parts_of_a_set_are_not_read_alone(call, scored, words, count, said):
    """A file of a set is refused without --together, and a file that was scored alone with it."""
    refused = call(words, *scored[:count]).ended(2)
    assert said in refused.err
    assert "--together" in refused.err or said == WITHOUT


def test_a_file_scored_alone_leaves_its_set(call, scored):
    """Scored alone again, a file is read alone, and no longer with the others."""
    missing = call("report shards/typo.scored.jsonl --together", *scored)
    assert "no such file" in missing.err
    call("score shards/rs0.jsonl --offline --force").ended(0)
    call("show", scored[0]).ended(0)
    refused = call("report --together", *scored).ended(2)
    assert f"{scored[0]} was changed or scored alone since" in refused.err
