import gzip
import json
import os
import re
import signal
import sqlite3
from unittest.mock import ANY

import pytest
import zstandard
from genrm_process import make_rollouts, read_lines, without_rewards

LEXICAL = ("--judge", "lexical")
NOW = ("--min-age", "0")
SUFFIXES = ("scored.jsonl", "metrics.json", "comparisons.jsonl")
BEFORE_OUR_TIME = (1_600_000_000, 1_600_000_000)


def fill(genrm, *names):
    """Write a rollout file under each name, no two of them alike; return what each holds."""
    content = {}
    for number, name in enumerate(names):
        lines = [
            line | {"id": f"{name} {line['id']}"}
            for line in make_rollouts(groups=1 + number % 2, size=2)
        ]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        path = genrm.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".gz"):
            data = gzip.compress(data)
        elif name.endswith(".zst"):
            data = zstandard.compress(data)
        path.write_bytes(data)
        content[name] = lines
    return content


def state_of(folder):
    """Take down every file below a folder, with its time and content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in files
    }


def names_below(folder):
    """Name all files below a folder, but no journals."""
    return {name for name in state_of(folder) if ".journal.sqlite" not in name}


def last_line(finished):
    """Return what a log grep would look for."""
    return finished.err.splitlines()[-1]


def file_lines(finished, status):
    """Return the lines on stderr about files that ended so."""
    return [
        line
        for line in finished.err.splitlines()
        if line.removeprefix("genrm: error: ").startswith(f"{status}:")
    ]


@pytest.mark.parametrize(
    "given",
    [
        ".",
        "runs/",
        "runs",
        "runs/**/*.jsonl*",
        "runs/*.jsonl*|runs/deep/*.jsonl.gz",
    ],
)
def test_every_rollout_file_below_is_scored(call, genrm, given):
    """A folder or a pattern, compressed or not: each file has its outputs beside it, with its own
    lines in them.
    """
    content = fill(genrm, "runs/a.jsonl", "runs/b.jsonl.zst", "runs/deep/c.jsonl.gz")
    finished = call("score", *given.split("|"), *LEXICAL, *NOW).ended(0)
    stems = {
        "runs/a": "runs/a.jsonl",
        "runs/b": "runs/b.jsonl.zst",
        "runs/deep/c": "runs/deep/c.jsonl.gz",
    }
    assert names_below(genrm.folder) == {
        *content,
        *(f"{stem}.{suffix}" for stem in stems for suffix in SUFFIXES),
    }
    for stem, name in stems.items():
        scored = read_lines(genrm.folder / f"{stem}.scored.jsonl")
        assert [without_rewards(line) for line in scored] == content[name]
        assert all(line["reward"] is not None for line in scored)
    assert last_line(finished).startswith("genrm: done: 3 files: 3 scored; ")
    assert last_line(finished).endswith("; exit 0")


def test_side_files_are_no_inputs(call, genrm):
    """Our outputs, NeMo Gym's side files, journals, leases, hidden and other files are left out of
    a folder.
    """
    fill(genrm, "a.jsonl")
    others = [
        *(f"old.{suffix}" for suffix in (*SUFFIXES, "rejects.jsonl")),
        "old.scored.jsonl.gz",
        "a_materialized_inputs.jsonl",
        "a_failures.jsonl",
        "a_aggregate_metrics.json",
        "a_aggregate_metrics.jsonl",
        "old.journal.sqlite",
        "old.lease-1",
        ".hidden.jsonl",
        "notes.txt",
        "config.json",
    ]
    for name in others:
        (genrm.folder / name).write_text("{}\n")
    planned = call("score . --dry-run --json", *LEXICAL, *NOW)
    assert [result["input"] for result in json.loads(planned.out)["results"]] == ["a.jsonl"]


def test_a_template_places_the_outputs(call, genrm):
    """{path} keeps the folders below what was given; folders are made, and the next run takes
    nothing for input.
    """
    fill(genrm, "in/x/run.jsonl", "in/y/run.jsonl.gz")
    template = ("--output-template", "out/{path}/{stem}.scored.jsonl.gz")
    call("score in/", *LEXICAL, *NOW, *template).ended(0)
    for name in ("x", "y"):
        assert gzip.decompress((genrm.folder / f"out/{name}/run.scored.jsonl.gz").read_bytes())
        assert (genrm.folder / f"out/{name}/run.metrics.json").exists()
    again = call("score in/ out/", *LEXICAL, *NOW, *template)
    assert last_line(again).startswith("genrm: done: 2 files: 2 up to date; ")


def test_the_second_run_does_nothing(call, genrm, judge_server):
    """All is up to date: no call, not even the probe's, no file touched, 0, and one line is
    said.
    """
    fill(genrm, "a.jsonl", "b.jsonl.gz", "deep/c.jsonl")
    assert call("score .", *judge_server.flags, *NOW).code == 0
    judge_server.reset()
    before = state_of(genrm.folder)
    finished = call("score .", *judge_server.flags, *NOW).ended(0)
    assert judge_server.stats()["requests"] == 0
    assert state_of(genrm.folder) == before
    (line,) = finished.err.splitlines()
    assert line.startswith("genrm: done: 3 files: 3 up to date; 0 verdicts, ")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--preset", "nemotron-3-nano"), "the settings have changed"),
        (("--unscored", "drop"), "the settings have changed"),
        (("--force",), "--force"),
        (("--concurrency", "3"), None),
        (
            (
                "--call-timeout",
                "7",
            ),
            None,
        ),
        (("--keep-replies",), None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_settings_that_change_rewards_score_again(call, genrm, flags, reason):
    """Another reward setting, or --force, scores again; a setting that changes no reward does
    not.
    """
    fill(genrm, "a.jsonl", "b.jsonl")
    assert call("score .", *LEXICAL, *NOW).code == 0
    finished = call("score .", *LEXICAL, *NOW, *flags).ended(0)
    status = "up to date" if reason is None else "scored"
    assert last_line(finished).startswith(f"genrm: done: 2 files: 2 {status}; ")
    if reason is not None:
        assert all(reason in line for line in file_lines(finished, "scored"))


def test_only_the_changed_input_is_scored_again(call, genrm):
    """A file with other lines, or the same lines written anew, is scored again; its neighbour is
    left alone.
    """
    fill(genrm, "a.jsonl", "b.jsonl")
    assert call("score .", *LEXICAL, *NOW).code == 0
    neighbour = (genrm.folder / "b.scored.jsonl").stat().st_mtime_ns
    genrm.write("a.jsonl", make_rollouts(groups=3, size=2))
    finished = call("score .", *LEXICAL, *NOW)
    assert last_line(finished).startswith("genrm: done: 2 files: ")
    (line,) = file_lines(finished, "scored")
    assert "(the input has changed)" in line
    assert len(read_lines(genrm.folder / "a.scored.jsonl")) == 6
    os.utime(genrm.folder / "a.jsonl", BEFORE_OUR_TIME)
    assert "1 scored" in last_line(call("score .", *LEXICAL, *NOW))
    assert (genrm.folder / "b.scored.jsonl").stat().st_mtime_ns == neighbour


@pytest.mark.parametrize(
    "damage",
    [
        "edited",
        "truncated",
        "written by hand",
        "metrics of something else",
    ],
)
def test_what_is_not_ours_is_refused_and_stays(call, genrm, damage):
    """Scored lines that somebody edited, or wrote, fail with 2 and stay as they are; the others go
    on.
    """
    fill(genrm, "a.jsonl", "b.jsonl")
    scored = genrm.folder / "a.scored.jsonl"
    metrics = genrm.folder / "a.metrics.json"
    if damage in ("edited", "truncated"):
        assert call("score a.jsonl", *LEXICAL).code == 0
    if damage == "edited":  # in place, the size kept
        scored.write_bytes(re.sub(rb'"reward":.', b'"reward":9', scored.read_bytes(), count=1))
    elif damage == "truncated":
        os.truncate(scored, 20)
    else:
        scored.write_text('{"note": "mine"}\n')
    if damage == "metrics of something else":
        metrics.write_text(
            '{"accuracy": 1, "settings_digest": 1, "output_mark": "none", "input": null}'
        )
    before = scored.read_bytes()
    finished = call("score .", *LEXICAL, *NOW).ended(2)
    (failed,) = file_lines(finished, "failed")
    assert "--force" in failed
    assert scored.read_bytes() == before
    assert (genrm.folder / "b.scored.jsonl").exists()
    assert call("score . --force", *LEXICAL, *NOW).code == 0
    assert "2 up to date" in last_line(call("score .", *LEXICAL, *NOW))


def test_partial_results_are_completed_by_the_next_runs(call, genrm, judge_server):
    """--max-calls holds over all files; each run ends with 6 and goes on where the last one
    stopped, until 0.
    """
    content = fill(genrm, *(f"{name}.jsonl" for name in "abcdef"))
    total = sum(
        len(lines) for lines in content.values()
    )  # in groups of two: as many comparisons as rollouts
    asked = 0
    codes = []
    while not codes or codes[-1] == 6:
        judge_server.reset()
        arguments = (
            ".",
            *judge_server.flags,
            *NOW,
            "--max-calls",
            "7",
            "--no-probe",
            "--concurrency",
            "2",
        )
        finished = call("score", *arguments)
        codes.append(finished.code)
        requests = judge_server.stats()["requests"]
        assert requests <= 7
        asked += requests
        assert last_line(finished).endswith(f"; exit {finished.code}")
        assert len(codes) < 10, finished.err
    assert asked == total == 18
    assert codes == [6, 6, 0]
    assert all((genrm.folder / name.replace(".", ".scored.", 1)).exists() for name in content)


def test_too_many_unscored_stay_6_until_they_are_scored(call, genrm):
    """Outputs that are up to date keep their exit code, alone and in a folder; a higher limit
    accepts them.
    """
    fill(genrm, "good.jsonl")
    genrm.write("bad.jsonl", [{"prompt": "Q?", "responses": ["a", ""]}])
    for given in (
        (".",),
        (".",),
        ("bad.jsonl",),
        ("bad.jsonl", "good.jsonl"),
    ):
        finished = call("score", *given, *LEXICAL)
        assert finished.code == 6, finished.err
        assert "more than --max-unscored 0.05 allows" in finished.err, finished.err
    assert "1 × blank response; 1 × no other" in finished.err
    assert call("score . --max-unscored 1", *LEXICAL).code == 0


def test_a_bad_file_does_not_stop_the_others(genrm, call):
    """Each file has one plain line, the last line is the end, and the exit code is the worst, as
    cron sees it.
    """
    fill(genrm, "a.jsonl", "z.jsonl")
    (genrm.folder / "bad.jsonl").write_text("no rollouts\n")
    (genrm.folder / "broken.jsonl.gz").write_bytes(b"\x1f\x8b no gzip")
    (genrm.folder / "new\nline\x1b[31m.jsonl").write_text("also bad\n")
    finished = call("score . missing.jsonl", *LEXICAL, *NOW).ended(3)
    lines = finished.err.splitlines()
    assert len(lines) == 16, (
        finished.err
    )  # six files, the judge, six lines of summary, two warnings, the end
    assert len(file_lines(finished, "scored")) == 2
    assert len(file_lines(finished, "failed")) == 4
    assert lines[-1].startswith("genrm: failed: 6 files: ")
    assert lines[-1].endswith("; exit 3")
    assert "4 failed" in lines[-1]
    assert "2 scored" in lines[-1]
    assert "\x1b" not in finished.err
    assert "\r" not in finished.err
    assert finished.out == b""


def test_a_dry_run_does_nothing(call, genrm, judge_server):
    """--dry-run lists what would be done with each file, writes nothing, takes no lease and asks
    nothing.
    """
    fill(genrm, "current.jsonl", "new.jsonl", "stale.jsonl", "young.jsonl")
    judge = judge_server.flags
    assert call("score current.jsonl stale.jsonl --no-probe", *judge).code == 0
    genrm.write("stale.jsonl", make_rollouts(groups=1, size=3))
    for name in ("new.jsonl", "stale.jsonl"):
        os.utime(genrm.folder / name, BEFORE_OUR_TIME)
    judge_server.reset()
    before = state_of(genrm.folder)
    template = ("--output-template", "{dir}/{stem}.scored.jsonl")
    finished = call("score . --dry-run --min-age 60s", *judge, *template).ended(0)
    assert [line.split(": ")[:2] for line in finished.out.decode().splitlines()] == [
        ["up to date", "current.jsonl"],
        ["to score", "new.jsonl -> new.scored.jsonl"],
        ["  completion; 4 rollouts in 2 groups"],
        ["  4 comparisons", ANY],
        ["  With --judging listwise", ANY],
        ["to score", "stale.jsonl -> stale.scored.jsonl"],
        ["  completion; 3 rollouts in 1 group"],
        ["  3 comparisons, 1 of them answered in an earlier run", ANY],
        ["  With --judging listwise", ANY],
        ["skipped", "young.jsonl"],
    ]
    assert (
        "in total 7 comparisons, 1 of them answered in an earlier run: 6 calls to make"
        in finished.err
    )
    assert state_of(genrm.folder) == before
    assert not genrm.state_folder.exists()
    assert judge_server.stats()["requests"] == 0
    assert (
        call("score .", *judge, "--output-template", "out/{stem}.scored.jsonl", "--dry-run").code
        == 0
    )
    assert state_of(genrm.folder) == before


@pytest.mark.slow
def test_a_judge_that_is_down_ends_the_run(call, genrm, judge_server):
    """Files that are finished stay; the judge that then refuses ends the run with 4, and is not
    asked file by file.
    """
    fill(genrm, "a.jsonl")
    for name in "bcd":  # with so many calls in flight that the judge is soon known to be down
        genrm.write(f"{name}.jsonl", make_rollouts(groups=10, size=2))
    judge_server.behave(script=[{}] * 4, fault={"status": 401})
    flags = ["--no-probe", "--concurrency", "1", "--give-up-after", "0.5"]
    finished = call("score .", *judge_server.flags, *NOW, *flags).ended(4)
    assert (genrm.folder / "a.scored.jsonl").exists()
    assert "d.scored.jsonl" not in genrm.names()
    assert not [name for name in genrm.names() if ".lease-" in name]
    assert last_line(finished).endswith("; exit 4")
    assert judge_server.stats()["requests"] < 2 + 2 * 20
    judge_server.behave()
    again = call("score . --no-probe", *judge_server.flags, *NOW).ended(0)
    assert "up to date" in last_line(again)


@pytest.mark.parametrize(
    "sent", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
@pytest.mark.slow
def test_an_interrupted_run_of_many_files_goes_on(genrm, call, judge_server, sent):
    """130 within seconds, whole outputs or none, no leases; the next run repeats no call that was
    answered.
    """
    content = fill(genrm, *(f"{name}.jsonl" for name in "abcdefgh"))
    judge_server.behave(script=[{}] * 10, fault={"hang": True})
    arguments = (
        "score",
        ".",
        *judge_server.flags,
        *NOW,
        "--no-probe",
    )
    first = genrm.start(*arguments, "--concurrency", "4")
    try:
        judge_server.wait_until(lambda stats: stats["hangs"] == 4)
        first.send_signal(sent)
        _, err = first.communicate(timeout=90)
    finally:
        first.kill()
    assert first.returncode == 130, err
    assert "genrm: error: interrupted" in err.decode()
    names = names_below(genrm.folder)
    assert not [name for name in names if ".lease-" in name or ".genrm-" in name]
    done = {name.partition(".")[0] for name in names if ".scored." in name}
    assert {name.partition(".")[0] for name in names if ".metrics." in name} == done
    judge_server.reset()
    call(*arguments).ended(0)
    assert judge_server.stats()["requests"] == sum(map(len, content.values())) - 10
    assert all((genrm.folder / name.replace(".", ".scored.", 1)).exists() for name in content)
    for path in genrm.folder.glob("*.journal.sqlite"):
        with sqlite3.connect(path) as journal:
            assert journal.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        journal.close()
