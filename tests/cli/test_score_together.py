"""Sets of files: `--together` scores them as one input, with groups that span files."""

import gzip
import json

import pytest
from genrm_process import Json, read_lines

OFFLINE = ["--offline", "--together", "--min-age", "0"]


def rollout(task, index, answer, prompt=None):
    """Make a line as NeMo Gym writes it: its shards hold some rollouts of many tasks."""
    asked = {"input": [{"role": "user", "content": prompt or f"Question {task}?"}]}
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": answer}],
    }
    key = {"_ng_task_index": task, "_ng_rollout_index": index}
    return {
        **key,
        "responses_create_params": asked,
        "response": {"output": [said]},
        "reward": 0.5,
    }


def write(path, lines):
    """Write lines, compressed or as a JSON array where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (
        json.dumps(lines)
        if path.name.endswith(".json")
        else "".join(json.dumps(line) + "\n" for line in lines)
    )
    path.write_bytes(gzip.compress(text.encode()) if path.name.endswith(".gz") else text.encode())


def write_shards(folder, names, tasks=6, size=4):
    """Spread the rollouts of each task over files; return all lines, file by file."""
    shards: dict[str, list[Json]] = {name: [] for name in names}
    for task in range(tasks):
        for index in range(size):
            name = names[(task + index) % len(names)]
            shards[name].append(
                rollout(task, index, f"Answer {task} " + "word " * ((7 * task + 3 * index) % 11))
            )
    for name, lines in shards.items():
        write(folder / name, lines)
    return [line for name in sorted(names) for line in shards[name]]


def scored_of(folder, *names):
    """Return scored lines, one file after another."""
    return b"".join((folder / name).read_bytes() for name in names)


def warnings_in(err):
    """Return what a run warned about."""
    return "\n".join(line for line in err.splitlines() if "warning" in line)


@pytest.mark.parametrize("estimator", ["adaptive", "simple_tiebreaker"])
def test_a_set_of_files_is_scored_as_their_concatenation(call, genrm, estimator):
    """Scored lines and comparisons of a set are, byte for byte, those of one file with all its
    lines.
    """
    whole = write_shards(
        genrm.folder / "shards", ["rs0-chunk0.jsonl", "rs0-chunk1.jsonl", "rs1-chunk0.jsonl"]
    )
    write(genrm.folder / "whole.jsonl", whole)
    given = (
        "--strategy",
        "all_pairs",
        "--estimator",
        estimator,
    )
    assert call("score whole.jsonl --offline", *given).code == 0
    assert call("score shards/", *OFFLINE, *given).code == 0
    shards = genrm.folder / "shards"
    scored = scored_of(
        shards, "rs0-chunk0.scored.jsonl", "rs0-chunk1.scored.jsonl", "rs1-chunk0.scored.jsonl"
    )
    assert scored == scored_of(genrm.folder, "whole.scored.jsonl")
    assert scored_of(shards, "together.comparisons.jsonl") == scored_of(
        genrm.folder, "whole.comparisons.jsonl"
    )


def test_containers_and_folders_mix_in_a_set(call, genrm):
    """Compressed files and JSON arrays, in several folders, form groups with each other."""
    folder = genrm.folder
    names = ["rs0/a.jsonl", "rs1/b.jsonl.gz", "c.json"]
    write_shards(folder, names)
    assert call("score", *names, *OFFLINE).code == 0
    scored = [
        read_lines(folder / name)
        for name in ("rs0/a.scored.jsonl", "rs1/b.scored.jsonl", "c.scored.jsonl")
    ]
    assert {line["genrm"]["group_size"] for lines in scored for line in lines} == {4}
    assert (folder / "together.metrics.json").exists()


def test_contradicting_task_ids_give_way_to_the_prompt(call, genrm):
    """Shards that number their tasks from 0 are grouped by the prompt, and the run says so."""
    first = [rollout(task, 0, f"First {task}", f"Prompt {task}") for task in range(3)]
    second = [rollout(task, 0, f"Second {task} longer", f"Prompt {2 - task}") for task in range(3)]
    write(genrm.folder / "a.jsonl", first)
    write(genrm.folder / "b.jsonl", second)
    finished = call("score a.jsonl b.jsonl", *OFFLINE)
    assert "2 task ids of several prompts in these files" in warnings_in(finished.err)
    by_group: dict[str, set[str]] = {}
    for line in (
        *read_lines(genrm.folder / "a.scored.jsonl"),
        *read_lines(genrm.folder / "b.scored.jsonl"),
    ):
        prompt = line["responses_create_params"]["input"][0]["content"]
        by_group.setdefault(line["genrm"]["group"], set()).add(prompt)
    assert sorted(by_group.values(), key=str) == [{"Prompt 0"}, {"Prompt 1"}, {"Prompt 2"}]


def test_a_file_without_rollouts_fails_the_set(call, genrm):
    """A file of which no line can be read is most likely a mistake, and is named."""
    write_shards(genrm.folder, ["a.jsonl", "b.jsonl"])
    (genrm.folder / "c.jsonl").write_text('{"something": "else"}\n')
    finished = call("score a.jsonl b.jsonl c.jsonl", *OFFLINE).ended(3)
    assert "c.jsonl: cannot read its only line" in finished.err
    assert not list(genrm.folder.glob("*scored*"))


def test_a_set_is_up_to_date_until_one_of_its_files_changes(call, genrm):
    """An unchanged set is skipped in whatever order its files are named; a changed or a further
    file is a reason.
    """
    write_shards(genrm.folder, ["a.jsonl", "b.jsonl"])
    assert call("score a.jsonl b.jsonl", *OFFLINE).code == 0
    assert "a set of 2 files: 1 up to date" in call("score b.jsonl a.jsonl", *OFFLINE).err
    write(genrm.folder / "c.jsonl", [rollout(0, 9, "One more")])
    assert "1 scored" in call("score a.jsonl b.jsonl c.jsonl", *OFFLINE).err
    write(genrm.folder / "c.jsonl", [rollout(0, 9, "Another one")])
    assert "1 scored" in call("score a.jsonl b.jsonl c.jsonl", *OFFLINE).err
    assert "1 scored" in call("score a.jsonl b.jsonl", *OFFLINE).err


def test_a_file_of_a_set_is_not_scored_alone(call, genrm):
    """The scored lines of a set are replaced by a run over a single file on request only, and the
    other way round.
    """
    write_shards(genrm.folder, ["a.jsonl", "b.jsonl"])
    assert call("score a.jsonl b.jsonl", *OFFLINE).code == 0
    before = scored_of(genrm.folder, "a.scored.jsonl")
    alone = call("score a.jsonl --offline").ended(2)
    assert "was scored with other files" in alone.err
    assert scored_of(genrm.folder, "a.scored.jsonl") == before
    assert call("score a.jsonl --offline --force").code == 0
    refused = call("score a.jsonl b.jsonl", *OFFLINE).ended(2)
    assert "but a.scored.jsonl was changed" in refused.err  # the one that is in the way


def test_a_set_is_leased_as_a_whole(call, genrm):
    """While another run works on a set, this one leaves all of it alone."""
    write_shards(genrm.folder, ["a.jsonl", "b.jsonl"])
    lease = {
        "host": "another",
        "id": "1",
        "pid": 1,
        "started": "1",
        "since": "now",
        "expiry_s": 300.0,
    }
    (genrm.folder / "together.lease-1").write_text(json.dumps(lease))
    finished = call("score a.jsonl b.jsonl", *OFFLINE).ended(5)
    assert "process 1 on another has been working on it" in finished.err
    assert not list(genrm.folder.glob("*scored*"))


def write_scored_set(call, genrm):
    """Score a set of three files, and the same lines in one file; return the names of the set's
    scored lines.
    """
    names = ["rs0.jsonl", "rs1.jsonl", "rs2.jsonl"]
    write(genrm.folder / "whole.jsonl", write_shards(genrm.folder / "shards", names))
    assert call("score whole.jsonl --offline").code == 0
    assert call("score shards/", *OFFLINE).code == 0
    return [f"shards/{name.removesuffix('.jsonl')}.scored.jsonl" for name in names]


def test_a_scored_set_is_exported_as_one_file(call, genrm):
    """Pairs are made across the files of a set, with the comparisons of the set, and the ids name
    it.
    """
    scored = write_scored_set(call, genrm)
    given = ["--to", "trl-dpo", "--pairs", "compared", "-o"]
    whole = call("export whole.scored.jsonl", *given, "whole.dpo.jsonl")
    of_set = call("export", *scored, "--together", *given, "set.dpo.jsonl")
    assert whole.code == 0
    assert of_set.code == 0
    rows = (genrm.folder / "whole.dpo.jsonl").read_text()
    assert '"whole/task:3#' in rows
    assert (genrm.folder / "set.dpo.jsonl").read_text() == rows.replace('"whole/', '"together/')
    manifest = json.loads((genrm.folder / "set.dpo.manifest.json").read_text())
    assert [each["rollouts"] for each in manifest["inputs"]] == [8, 8, 8]
    assert {each["scored_with"]["estimator"] for each in manifest["inputs"]} == {"adaptive"}
    assert manifest["incomplete_groups"] == 0


def test_a_scored_set_is_shown_as_one_file(call, genrm):
    """Groups that span files are shown whole, before and after scoring."""
    scored = write_scored_set(call, genrm)
    for whole, of_set in (("whole.scored.jsonl", scored), ("whole.jsonl", ["shards/"])):
        shown = call("show", whole, "--group", "task:3", "--json").out
        assert call("show --together --group task:3 --json", *of_set).out == shown


def test_parts_of_a_set_are_not_read_alone(call, genrm):
    """A file of a set is refused without --together, and a file that was scored alone with it."""
    scored = write_scored_set(call, genrm)
    for given in (
        ("show", scored[0]),
        ("report", *scored),
        (
            "export",
            "shards/",
            "--to",
            "trl-dpo",
            "-o",
            "x.jsonl",
        ),
    ):
        refused = call(*given).ended(2)
        assert f"{scored[0]} was scored with other files" in refused.err
        assert "--together" in refused.err
    refused = call("report", *scored, "whole.scored.jsonl", "--together").ended(2)
    assert "so it was not scored with the others" in refused.err
    assert call("show", scored[0], scored[1]).code == 2
    refused = call("export --together --to trl-dpo -o x.jsonl", *scored[:2]).ended(2)
    assert (
        "rs2.scored.jsonl belongs to the set shards/together, too: name all of its 3 files"
        in refused.err
    )
    assert "no such file" in call("report", *scored, "shards/typo.scored.jsonl", "--together").err


def test_a_file_scored_alone_leaves_its_set(call, genrm):
    """Scored alone again, a file is read alone, and no longer with the others."""
    scored = write_scored_set(call, genrm)
    assert call("score shards/rs0.jsonl --offline --force").code == 0
    assert call("show", scored[0]).code == 0
    refused = call("report --together", *scored).ended(2)
    assert f"{scored[0]} was changed or scored alone since" in refused.err
