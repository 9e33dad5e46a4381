import gzip
import json
import os
import re
import signal
from unittest.mock import ANY

import pytest
import zstandard
from genrm_process import make_rollouts, without_rewards

SUFFIXES = ("scored.jsonl", "metrics.json", "comparisons.jsonl")
SCORE = "score . --offline --min-age 0"
ENCODERS = {".gz": gzip.compress, ".zst": zstandard.compress}


def fill(genrm, *names):
    """Write a rollout file under each name, no two of them alike; return what each holds."""
    content = {}
    for number, name in enumerate(names):
        rollouts = make_rollouts(groups=1 + number % 2, size=2)
        content[name] = [line | {"id": f"{name} {line['id']}"} for line in rollouts]
        path = genrm.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(json.dumps(line) + "\n" for line in content[name]).encode()
        path.write_bytes(ENCODERS.get(path.suffix, bytes)(data))
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


def file_lines(finished, status):
    """Return the lines on stderr about files that ended so."""
    return re.findall(rf"^(?:genrm: error: )?{status}: .*", finished.err, re.MULTILINE)


@pytest.mark.parametrize("given", [".", "runs/*.jsonl* runs/deep/*.jsonl.gz"])
def test_every_rollout_file_below_is_scored(call, genrm, given):
    """A folder or a pattern, compressed or not: each file has its outputs beside it, with its own
    lines in them.
    """
    content = fill(genrm, "runs/a.jsonl", "runs/b.jsonl.zst", "runs/deep/c.jsonl.gz")
    finished = call(f"score {given} --offline --min-age 0").ended(0)
    stems = {name: name.partition(".")[0] for name in content}
    outputs = {f"{stem}.{suffix}" for stem in stems.values() for suffix in SUFFIXES}
    assert names_below(genrm.folder) == {*content, *outputs}
    for name, stem in stems.items():
        scored = genrm.lines(f"{stem}.scored.jsonl")
        assert [without_rewards(line) for line in scored] == content[name]
        assert all(line["reward"] is not None for line in scored)
    assert finished.last.startswith("genrm: done: 3 files: 3 scored; ")
    assert finished.last.endswith("; exit 0")


def test_the_second_run_does_nothing(call_judged, genrm, judge_server):
    """All is up to date: no call, not even the probe's, no file touched, 0, and one line is
    said. Then only a file with other lines is scored again.
    """
    fill(genrm, "a.jsonl", "b.jsonl.gz", "deep/c.jsonl")
    score = "score . --min-age 0"
    call_judged(score).ended(0)
    judge_server.reset()
    before = state_of(genrm.folder)
    (line,) = call_judged(score).ended(0).err.splitlines()
    assert line.startswith("genrm: done: 3 files: 3 up to date; 0 verdicts, ")
    assert judge_server.stats()["requests"] == 0
    assert state_of(genrm.folder) == before
    genrm.rollouts(3, 2, name="a.jsonl")
    (line,) = file_lines(call_judged(score), "scored")
    assert line.startswith("scored: a.jsonl")
    assert "(the input has changed)" in line
    assert len(genrm.lines("a.scored.jsonl")) == 6


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--preset nemotron-3-nano", "the settings have changed"),
        ("--unscored drop", "the settings have changed"),
        ("--force", "--force"),
        ("--concurrency 3", None),
        ("--call-timeout 7", None),
        ("--keep-replies", None),
    ],
)
def test_settings_that_change_rewards_score_again(call, genrm, flag, reason):
    """Another reward setting, or --force, scores again; a setting that changes no reward does
    not.
    """
    fill(genrm, "a.jsonl", "b.jsonl")
    call(SCORE).ended(0)
    finished = call(f"{SCORE} {flag}").ended(0)
    status = "up to date" if reason is None else "scored"
    assert finished.last.startswith(f"genrm: done: 2 files: 2 {status}; ")
    assert all(reason in line for line in file_lines(finished, "scored"))


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_is_not_ours_is_refused_and_stays(call, genrm, is_ours):
    """Scored lines that somebody edited, or wrote, fail with 2 and stay as they are; the others go
    on.
    """
    fill(genrm, "a.jsonl", "b.jsonl")
    scored = genrm.folder / "a.scored.jsonl"
    if is_ours:  # edited in place, the size kept
        call("score a.jsonl --offline").ended(0)
        scored.write_bytes(re.sub(rb'"reward":.', b'"reward":9', scored.read_bytes(), count=1))
    else:
        scored.write_text('{"note": "mine"}\n')
    before = scored.read_bytes()
    (failed,) = file_lines(call(SCORE).ended(2), "failed")
    assert "--force" in failed
    assert scored.read_bytes() == before
    assert "b.scored.jsonl" in genrm.names()
    call(f"{SCORE} --force").ended(0)
    assert "2 up to date" in call(SCORE).last


def test_partial_results_are_completed_by_the_next_runs(call_judged, genrm, judge_server):
    """--max-calls holds over all files; each run ends with 6 and goes on where the last one
    stopped, until 0.
    """
    fill(genrm, *(f"{name}.jsonl" for name in "abcdef"))
    # In groups of two, there are as many comparisons as rollouts: 18.
    asked = []
    for code in (6, 6, 0):
        judge_server.reset()
        limited = "score . --min-age 0 --no-probe --concurrency 2 --max-calls 7"
        finished = call_judged(limited).ended(code)
        asked.append(judge_server.stats()["requests"])
        assert finished.last.endswith(f"; exit {code}")
    assert asked == [7, 7, 4]
    assert {f"{name}.scored.jsonl" for name in "abcdef"} <= genrm.names()


def test_too_many_unscored_stay_6_until_they_are_scored(call, genrm):
    """Outputs that are up to date keep their exit code, alone and in a folder; a higher limit
    accepts them.
    """
    fill(genrm, "good.jsonl")
    genrm.write("bad.jsonl", [{"prompt": "Q?", "responses": ["a", ""]}])
    for given in (".", ".", "bad.jsonl", "bad.jsonl good.jsonl"):
        finished = call(f"score {given} --offline").ended(6)
        assert "more than --max-unscored 0.05 allows" in finished.err
    assert "1 × blank response; 1 × no other" in finished.err
    call("score . --max-unscored 1 --offline").ended(0)


def test_a_bad_file_does_not_stop_the_others(genrm, call):
    """Each file has one plain line, the last line is the end, and the exit code is the worst, as
    cron sees it.
    """
    fill(genrm, "a.jsonl", "z.jsonl")
    (genrm.folder / "bad.jsonl").write_text("no rollouts\n")
    (genrm.folder / "broken.jsonl.gz").write_bytes(b"\x1f\x8b no gzip")
    (genrm.folder / "new\nline\x1b[31m.jsonl").write_text("also bad\n")
    finished = call(f"{SCORE} missing.jsonl").ended(3)
    # Six files, the judge, six lines of summary, two warnings, the end.
    assert len(finished.err.splitlines()) == 16
    assert len(file_lines(finished, "scored")) == 2
    assert len(file_lines(finished, "failed")) == 4
    assert re.match(r"genrm: failed: 6 files: .*4 failed.*; exit 3$", finished.last)
    assert not re.search(r"[\x1b\r]", finished.err)
    assert finished.out == b""


def test_a_dry_run_does_nothing(call_judged, genrm, judge_server):
    """--dry-run lists what would be done with each file, writes nothing, takes no lease and asks
    nothing.
    """
    fill(genrm, "current.jsonl", "new.jsonl", "stale.jsonl", "young.jsonl")
    call_judged("score current.jsonl stale.jsonl --no-probe").ended(0)
    genrm.rollouts(1, 3, name="stale.jsonl")
    for name in ("new.jsonl", "stale.jsonl"):
        os.utime(genrm.folder / name, (1_600_000_000, 1_600_000_000))
    judge_server.reset()
    before = state_of(genrm.folder)
    dry = "score . --dry-run --output-template {dir}/{stem}.scored.jsonl --min-age"
    finished = call_judged(dry, "60s").ended(0)
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
    said = "in total 7 comparisons, 1 of them answered in an earlier run: 6 calls to make"
    assert said in finished.err
    call_judged(dry.replace("{dir}", "out"), 0).ended(0)
    assert state_of(genrm.folder) == before
    assert not genrm.state_folder.exists()
    assert judge_server.stats()["requests"] == 0


@pytest.mark.slow
def test_a_judge_that_is_down_ends_the_run(call_judged, genrm, judge_server):
    """Files that are finished stay; the judge that then refuses ends the run with 4, and is not
    asked file by file.
    """
    fill(genrm, "a.jsonl")
    for name in "bcd":  # with so many calls in flight that the judge is soon known to be down
        genrm.rollouts(10, 2, name=f"{name}.jsonl")
    judge_server.behave(script=[{}] * 4, fault={"status": 401})
    score = "score . --min-age 0 --no-probe --concurrency 1 --give-up-after 0.5"
    finished = call_judged(score).ended(4)
    assert "a.scored.jsonl" in genrm.names()
    assert "d.scored.jsonl" not in genrm.names()
    assert not [name for name in genrm.names() if ".lease-" in name]
    assert finished.last.endswith("; exit 4")
    assert judge_server.stats()["requests"] < 2 + 2 * 20
    judge_server.behave()
    assert "up to date" in call_judged(score).ended(0).last


@pytest.mark.slow
def test_an_interrupted_run_of_many_files_goes_on(genrm, call_judged, judge_server):
    """130 within seconds, whole outputs or none, no leases; the next run repeats no call that was
    answered.
    """
    content = fill(genrm, *(f"{name}.jsonl" for name in "abcdefgh"))
    judge_server.behave(script=[{}] * 10, fault={"hang": True})
    score = "score . --min-age 0 --no-probe --concurrency 4"
    first = genrm.start(score, *judge_server.flags)
    judge_server.wait_until(lambda stats: stats["hangs"] == 4)
    first.send_signal(signal.SIGTERM)
    _, err = first.communicate(timeout=90)
    assert first.returncode == 130, err
    assert "genrm: error: interrupted" in err.decode()
    names = names_below(genrm.folder)
    assert not [name for name in names if ".lease-" in name or ".genrm-" in name]
    scored = {name for name in names if ".scored." in name}
    assert {name.replace("scored.jsonl", "metrics.json") for name in scored} <= names
    judge_server.reset()
    call_judged(score).ended(0)
    assert judge_server.stats()["requests"] == sum(map(len, content.values())) - 10
    assert {name.replace(".", ".scored.", 1) for name in content} <= genrm.names()
