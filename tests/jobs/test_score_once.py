"""What is scored again, what is left alone, and what is refused."""

import json
import os
import subprocess
import sys

import pytest
from genrm_process import COMMAND, make_rollouts
from s3_objects import keys_in, put

from genrm_cli.storage.leases import Lease, take_lease
from genrm_cli.storage.store import Store

ONCE = "score in.jsonl --no-probe --retries 0 --max-extra 0"
BODY = b"".join(json.dumps(line).encode() + b"\n" for line in make_rollouts(groups=1, size=3))


def test_another_inputs_results_are_not_replaced(genrm, call):
    """Two inputs with one output do not replace each other, run by run; the refusal names the first
    one.
    """
    genrm.rollouts(2, 7, name="a.jsonl")
    genrm.rollouts(3, 7, name="b.jsonl")
    call("score a.jsonl -o out.scored.jsonl --offline").ended(0)
    before = genrm.text("out.scored.jsonl")
    refused = call("score b.jsonl -o out.scored.jsonl --offline").ended(2)
    assert genrm.text("out.scored.jsonl") == before
    assert "made from another input, a.jsonl" in refused.err
    call("score b.jsonl -o out.scored.jsonl --force --offline").ended(0)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ("--model other", "other"),
        ("--model m --judge-id oslo", "oslo"),
        ("--offline", "lexical"),
    ],
)
def test_another_judges_results_are_not_replaced_unasked(
    genrm, call, judge_server, monkeypatch, other, name
):
    """Another model or identity, or the stand-in, is refused with 2 and the difference, also in a
    folder; --force replaces.
    """
    monkeypatch.setenv("GENRM_BASE_URL", judge_server.base_url)
    genrm.rollouts()
    call("score in.jsonl --model m").ended(0)
    before = genrm.text("in.scored.jsonl")
    for given in ("in.jsonl", ". --min-age 0"):
        refused = call(f"score {given} {other}").ended(2)
        assert f"it was judged by m, not {name}" in refused.err
        assert "--force" in refused.err
        assert genrm.text("in.scored.jsonl") == before
    call(f"score in.jsonl -o other.jsonl {other}").ended(0)
    call(f"score in.jsonl --force {other}").ended(0)


def test_a_judge_replaces_the_stand_in(genrm, call, call_judged):
    """Whoever tried the command offline needs no flag for the real run."""
    genrm.rollouts()
    call("score in.jsonl --offline").ended(0)
    call_judged("score in.jsonl").ended(0)


def test_a_judge_that_moved_continues(genrm, call, call_judged, start_judge):
    """As a nightly job: what is done stays done, the rest is finished elsewhere, no call is paid
    twice.
    """
    for name in ("done", "begun"):
        genrm.rollouts(2, 3, name=f"{name}.jsonl")
    words = "--no-probe --profile nemotron"
    call_judged(f"score done.jsonl {words}").ended(0)
    call_judged(f"score begun.jsonl --max-calls 2 {words}").ended(6)
    moved = start_judge()
    finished = call(f"score . --min-age 0 {words}", *moved.flags).ended(0)
    assert moved.stats()["requests"] == 6 - 2
    assert "1 up to date" in finished.err
    call(f"score . --min-age 0 --judge-id m {words}", *moved.flags).ended(0)
    assert moved.stats()["requests"] == 4


@pytest.mark.parametrize("status", [500, 400])
def test_a_file_with_too_many_unscored_is_tried_again(genrm, call_judged, judge_server, status):
    """Outputs of a run with exit code 6 are not up to date: the next run makes only the failed
    requests.
    """
    genrm.rollouts(2, 3)
    judge_server.behave(script=[{}] * 3, fault={"status": status})
    call_judged(f"{ONCE} --concurrency 1").ended(6)
    judge_server.reset()
    call_judged(ONCE).ended(0)
    assert judge_server.stats()["requests"] == 3
    assert all(line["reward"] is not None for line in genrm.lines())
    assert "is up to date" in call_judged(ONCE).err


def test_failed_calls_are_asked_again_and_unreadable_replies_are_not(
    genrm, call_judged, judge_server
):
    """A transient failure makes a file due again; a reply without a verdict would most likely come
    again.
    """
    genrm.rollouts(4, 4)
    lenient = f"{ONCE} --min-verdicts 0 --concurrency 1"
    judge_server.behave(script=[{"status": 503}])
    first = call_judged(lenient).ended(0)
    assert "1 http (for example: " in first.err
    judge_server.reset()
    judge_server.behave(script=[{"content": "no verdict"}])
    call_judged(lenient).ended(0)
    assert judge_server.stats()["requests"] == 1
    assert "is up to date" in call_judged(lenient).err


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("score . --offline --min-age 0", {"good.scored.jsonl", "good.metrics.json"}),
        ("score bad\udcff.jsonl --offline", set()),
        ("rank bad\udcff.jsonl good.jsonl --offline", set()),
        ("export bad\udcff.jsonl --to trl-dpo -o out.jsonl", set()),
    ],
)
def test_a_file_whose_name_is_not_utf_8_is_refused(genrm, call, words, left):
    """No output could tell its name; beside others in a folder, it is refused alone."""
    names = {"bad\udcff.jsonl", "good.jsonl"}
    for name in names:
        (genrm.folder / name).write_bytes(BODY)
    finished = call(words).ended(2)
    assert "its name is not UTF-8; rename it" in finished.err
    assert genrm.names() - {"good.comparisons.jsonl"} == names | left


@pytest.mark.parametrize("name", ["redact-pattern", "require-metadata"])
def test_a_guard_that_is_empty_is_refused(genrm, call, name):
    """An unset variable in a script must not switch a guard off."""
    genrm.rollouts()
    call("score in.jsonl --offline", f"--{name}", "").ended(2)
    variable = "GENRM_" + name.replace("-", "_").upper()
    call("score in.jsonl --offline", **{variable: ""}).ended(2)


@pytest.mark.slow
def test_a_closed_stdout_is_no_fault(genrm):
    """`>&-` changes nothing for a command whose product is files."""
    genrm.rollouts()
    closing = "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", closing, *COMMAND, "score", "in.jsonl", "--offline"],
        cwd=genrm.folder, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def test_a_journal_below_the_prefix_is_no_input(call, s3_bucket, aws, judge_server):
    """Segments below the prefix that is scored are never taken for rollouts; outside of rl/, where
    the judge's replies belong, no journal is kept.
    """
    put(s3_bucket, "rl/env/run.jsonl", BODY)
    root = f"s3://{s3_bucket.name}"
    score = ("score --min-age 0 --no-probe", f"{root}/rl/", *judge_server.flags, "--journal")
    for files in ("1 file: 1 scored", "1 file: 1 up to date"):
        assert files in call(*score, f"{root}/rl/_genrm/journal/", **aws).ended(0).err
    assert any(name.startswith("rl/_genrm/journal/run-") for name in keys_in(s3_bucket))
    assert "rl/" in call(*score, f"{root}/sft/journal/", "--force", **aws).ended(2).err


def test_another_version_of_the_judge_is_another_judge(genrm, call):
    """After an upgrade that asks or reads in another way, what was scored before is scored
    again.
    """
    genrm.rollouts()
    call("score in.jsonl --offline").ended(0)
    metrics = genrm.metrics()
    metrics["judge"]["name"] = "lexical-0"
    (genrm.folder / "in.metrics.json").write_text(json.dumps(metrics))
    planned = call("score in.jsonl --dry-run --offline")
    assert b"profile has changed" in planned.out
    assert genrm.metrics() == metrics
    call("score in.jsonl --offline").ended(0)
    assert genrm.metrics()["judge"]["name"] != "lexical-0"


def test_an_input_that_is_gone_when_its_turn_comes_waits(call, s3_bucket, aws, disturbed_s3):
    """A file deleted after the listing needs no result, and is not an error of this run."""
    put(s3_bucket, "rl/env/run.jsonl", BODY)
    gone = {"status": 404, "code": "NoSuchKey"}
    for method in ("HEAD", "GET"):
        disturbed_s3.rule(method=method, key_contains="env/run.jsonl", answer=gone)
    aws["AWS_ENDPOINT_URL"] = disturbed_s3.url
    prefix = f"s3://{s3_bucket.name}/rl/env/"
    finished = call("score --offline --min-age 0", prefix, **aws).ended(0)
    assert "gone since it was listed" in finished.err


@pytest.fixture
def umask():
    """Set the umask until the end of a test."""
    before = os.umask(0)
    yield os.umask
    os.umask(before)


def modes_in(folder, stem):
    """Return the permissions of files by their names."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.glob(f"{stem}*")}


@pytest.mark.parametrize(
    ("source", "mode", "expected"),
    [
        ("in.jsonl", 0o600, 0o600),
        ("in.jsonl", 0o644, 0o640),
        ("in.jsonl", 0o444, 0o640),
        pytest.param("-", 0o600, 0o600, marks=pytest.mark.slow),
    ],
)
def test_outputs_of_a_private_input_are_private(genrm, umask, source, call, mode, expected):
    """Nobody may read the outputs who may not read the input; the umask may take more."""
    genrm.rollouts().chmod(mode)
    umask(0o027)
    words = f"score {source} --offline -o out.jsonl"
    if source == "-":
        with (genrm.folder / "in.jsonl").open("rb") as stdin:
            done = subprocess.run(
                [*COMMAND, *words.split()], stdin=stdin, cwd=genrm.folder,
                env=genrm.environment(), capture_output=True, check=False,
            )  # fmt: skip
        assert done.returncode == 0, done.stderr
    else:
        call(words).ended(0)
    outputs = ("out.jsonl", "out.comparisons.jsonl", "out.metrics.json")
    assert modes_in(genrm.folder, "out.") == dict.fromkeys(outputs, expected)


def test_the_state_folder_is_private(genrm, call_judged, umask):
    """Journals of streams are in a folder that only its user can enter."""
    umask(0)
    call_judged("score - --no-probe", stdin=BODY).ended(0)
    assert modes_in(genrm.state_folder, "genrm") == {"genrm": 0o700}
    assert set(modes_in(genrm.state_folder / "genrm", "").values()) == {0o600}


def test_a_claim_beside_finished_outputs_that_is_held_is_left_alone(genrm, call):
    """Another run may be about to release it; the input is up to date all the same."""
    genrm.rollouts()
    call("score in.jsonl --offline").ended(0)
    lease = take_lease(str(genrm.folder / "in.scored.jsonl"), Store(), 60.0)
    assert isinstance(lease, Lease)
    assert "up to date" in call("score in.jsonl --offline").ended(0).err
    lease.verify()
