"""What is scored again, what is left alone, and what is refused."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from genrm_process import COMMAND, make_rollouts
from small_server import listening

from genrm_cli.storage.leases import Lease, take_lease
from genrm_cli.storage.store import Store

NOW = ("--min-age", 0)
LEXICAL = ("--judge", "lexical")


def at(judge, *more):
    """Return the arguments that name a judge, without probe and further tries."""
    return (
        *judge.flags,
        "--no-probe",
        "--retries",
        0,
        "--max-extra",
        0,
        *more,
    )


def through(disturbed_s3):
    """Return the variable that names the endpoint that fails when told to."""
    return {"AWS_ENDPOINT_URL": disturbed_s3.url}


def body(groups=1, size=3):
    """Render rollouts as the content of a file or object."""
    return b"".join(
        json.dumps(line).encode() + b"\n" for line in make_rollouts(groups=groups, size=size)
    )


def rewards_in(genrm, name="in.scored.jsonl"):
    """Return the rewards of a scored file."""
    return [json.loads(line)["reward"] for line in (genrm.folder / name).read_bytes().splitlines()]


def test_another_inputs_results_are_not_replaced(genrm, call):
    """Two inputs with one output do not replace each other, run by run; the refusal names the first
    one.
    """
    for name in ("a.jsonl", "b.jsonl"):
        (genrm.folder / name).write_bytes(body(size=len(name)) + body(groups=ord(name[0]) - 95))
    assert call("score a.jsonl -o out.scored.jsonl", *LEXICAL).code == 0
    before = (genrm.folder / "out.scored.jsonl").read_bytes()
    refused = call("score b.jsonl -o out.scored.jsonl", *LEXICAL)
    assert refused.code == 2
    assert (genrm.folder / "out.scored.jsonl").read_bytes() == before
    assert "made from another input, a.jsonl" in refused.err
    assert call("score b.jsonl -o out.scored.jsonl --force", *LEXICAL).code == 0


def test_the_stand_in_does_not_replace_a_judge(genrm, call, judge_server):
    """Trying --judge lexical on what a reward model judged is refused; the model may replace the
    stand-in.
    """
    genrm.write("in.jsonl", make_rollouts())
    assert call("score in.jsonl", *LEXICAL).code == 0
    assert call("score in.jsonl", *at(judge_server)).code == 0
    refused = call("score in.jsonl", *LEXICAL).ended(2)
    assert "it was judged by m, not lexical" in refused.err


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 400}], ids=["server", "request"])
def test_a_file_with_too_many_unscored_is_tried_again(genrm, call, judge_server, fault):
    """Outputs of a run with exit code 6 are not up to date: the next run makes only the failed
    requests.
    """
    genrm.write("in.jsonl", make_rollouts(groups=2, size=3))
    judge_server.behave(script=[{}] * 3, fault=fault)
    assert call("score in.jsonl", *at(judge_server, "--concurrency", 1)).code == 6
    judge_server.reset()
    call("score in.jsonl", *at(judge_server)).ended(0)
    assert judge_server.stats()["requests"] == 3
    assert None not in rewards_in(genrm)
    assert "is up to date" in call("score in.jsonl", *at(judge_server)).err


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 503}, "http"),
        ({"body": "<html>Welcome</html>", "content_type": "text/html"}, "bad_body"),
    ],
    ids=["503", "html with 200"],
)
def test_failed_calls_are_asked_again_and_unreadable_replies_are_not(
    genrm, call, judge_server, fault, kind
):
    """A transient failure makes a file due again; a reply without a verdict would most likely come
    again.
    """
    genrm.write("in.jsonl", make_rollouts(groups=4, size=4))
    judge_server.behave(script=[fault])
    lenient = ("--min-verdicts", 0)
    first = call("score in.jsonl", *at(judge_server, *lenient, "--concurrency", 1))
    assert first.code == 0, first.err
    assert f"1 {kind} (for example: " in first.err, first.err
    judge_server.reset()
    judge_server.behave(script=[{"content": "no verdict"}])
    assert call("score in.jsonl", *at(judge_server, *lenient)).code == 0
    assert judge_server.stats()["requests"] == 1
    assert "is up to date" in call("score in.jsonl", *at(judge_server, *lenient)).err


def test_a_name_that_is_not_utf_8_does_not_stop_the_others(genrm, call):
    """Such a file is refused by itself, before anything is paid for."""
    Path(os.fsdecode(os.fsencode(str(genrm.folder)) + b"/bad\xff.jsonl")).write_bytes(body())
    (genrm.folder / "good.jsonl").write_bytes(body())
    finished = call("score .", *LEXICAL, *NOW).ended(2)
    assert "not UTF-8" in finished.err
    assert "1 scored" in finished.err


@pytest.mark.parametrize(
    "words",
    [
        "score BAD --offline",
        "rank BAD good.jsonl --offline",
        "export BAD --to trl-dpo -o out.jsonl",
    ],
)
def test_a_named_file_whose_name_is_not_utf_8_is_refused(genrm, call, words):
    """So is the only file of a command: no output could tell its name."""
    for name in (b"bad\xff.jsonl", b"good.jsonl"):
        (genrm.folder / os.fsdecode(name)).write_bytes(body())
    finished = call(*words.replace("BAD", "bad\udcff.jsonl").split()).ended(2)
    assert "its name is not UTF-8; rename it" in finished.err
    assert genrm.names() == {"bad\udcff.jsonl", "good.jsonl"}


def test_a_guard_that_is_empty_is_refused(genrm, call):
    """An unset variable in a script must not switch a guard off."""
    for flag in ["--redact-pattern", "--require-metadata"]:
        genrm.write("in.jsonl", make_rollouts())
        assert call("score in.jsonl", *LEXICAL, flag, "").code == 2
        variable = "GENRM_" + flag.removeprefix("--").replace("-", "_").upper()
        assert call("score in.jsonl", *LEXICAL, **{variable: ""}).code == 2


@pytest.mark.slow
def test_a_closed_stdout_is_no_fault(genrm):
    """`>&-` changes nothing for a command whose product is files."""
    genrm.write("in.jsonl", make_rollouts())
    command = [
        sys.executable,
        "-c",
        "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])",
        *COMMAND,
    ]
    done = subprocess.run(
        [*command, "score", "in.jsonl", *LEXICAL],
        cwd=genrm.folder,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def test_a_journal_on_s3_stays_under_rl(genrm, call, s3_bucket, aws):
    """The judge's replies are RL data, too."""
    genrm.write("in.jsonl", make_rollouts())
    refused = call(
        "score in.jsonl", *LEXICAL, "--journal", f"s3://{s3_bucket.name}/sft/journal/", **aws
    )
    assert refused.code == 2
    assert "rl/" in refused.err


def test_a_journal_below_the_prefix_is_no_input(call, s3_bucket, aws, judge_server):
    """Segments below the prefix that is scored are never taken for rollouts."""
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="rl/env/run.jsonl", Body=body())
    where = (
        f"s3://{s3_bucket.name}/rl/",
        *NOW,
        "--journal",
        f"s3://{s3_bucket.name}/rl/_genrm/journal/",
    )
    for files in ("1 file: 1 scored", "1 file: 1 up to date"):
        finished = call("score", *where, *at(judge_server), **aws)
        assert finished.code == 0, finished.err
        assert files in finished.err, finished.err
    names = [
        item["Key"] for item in s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name)["Contents"]
    ]
    assert any(name.startswith("rl/_genrm/journal/run-") for name in names)


@pytest.mark.slow
def test_a_role_that_may_not_delete_scores_again_and_again(
    genrm, call, s3_bucket, aws, disturbed_s3
):
    """Neither this run nor the next one fails for leases that cannot be given up."""
    for number in range(3):
        s3_bucket.client.put_object(
            Bucket=s3_bucket.name, Key=f"rl/env/{number}.jsonl", Body=body()
        )
    disturbed_s3.rule(method="DELETE", key_contains=".lease-", answer={"code": "AccessDenied"})
    arguments = (
        "score",
        f"s3://{s3_bucket.name}/rl/env/",
        *LEXICAL,
        *NOW,
    )
    environment = aws | through(disturbed_s3)
    for finished in (
        genrm.run(*arguments, **environment),
        call(*arguments, "--force", **environment),
    ):  # the first owner is gone
        assert finished.code == 0, finished.err
        assert "3 scored" in finished.err, finished.err


def test_another_version_of_the_judge_is_another_judge(genrm, call):
    """After an upgrade that asks or reads in another way, what was scored before is scored
    again.
    """
    genrm.write("in.jsonl", make_rollouts())
    assert call("score in.jsonl", *LEXICAL).code == 0
    path = genrm.folder / "in.metrics.json"
    metrics = json.loads(path.read_bytes())
    metrics["judge"]["name"] = "lexical-0"
    path.write_text(json.dumps(metrics))
    planned = call("score in.jsonl --dry-run", *LEXICAL)
    assert "profile has changed" in planned.out.decode()
    assert json.loads(path.read_bytes()) == metrics
    assert call("score in.jsonl", *LEXICAL).code == 0
    assert json.loads(path.read_bytes())["judge"]["name"] != "lexical-0"


def test_an_input_that_is_gone_when_its_turn_comes_waits(call, s3_bucket, aws, disturbed_s3):
    """A file deleted after the listing needs no result, and is not an error of this run."""
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="rl/env/run.jsonl", Body=body())
    for method in ("HEAD", "GET"):
        disturbed_s3.rule(
            method=method, key_contains="env/run.jsonl", answer={"status": 404, "code": "NoSuchKey"}
        )
    finished = call(
        "score", f"s3://{s3_bucket.name}/rl/env/", *LEXICAL, *NOW, **aws | through(disturbed_s3)
    )
    assert finished.code == 0, finished.err
    assert "gone since it was listed" in finished.err, finished.err


@pytest.mark.parametrize(
    "source",
    [
        "in.jsonl",
        *(pytest.param(source, marks=pytest.mark.slow) for source in ("in.jsonl.gz", "-")),
    ],
)
def test_outputs_of_a_private_input_are_private(genrm, call, source):
    """Nobody may read the outputs who may not read the input; the umask may take more."""
    path = genrm.folder / "in.jsonl"
    path.write_bytes(body())
    if source.endswith(".gz"):
        path = path.with_name(source)
        path.write_bytes(gzip.compress(body()))
    for mode, expected in (
        (0o600, 0o600),
        (0o644, 0o640),
        (0o444, 0o640),
    )[: 1 if source == "-" else 3]:
        path.chmod(mode)
        arguments = ("score", source, *LEXICAL, "-o", "out.jsonl")
        if source == "-":
            with path.open("rb") as stdin:
                process = subprocess.run(
                    [*COMMAND, *map(str, arguments)], stdin=stdin, cwd=genrm.folder, umask=0o027,
                    env=genrm.environment(), capture_output=True, check=False,
                )  # fmt: skip
            assert process.returncode == 0, process.stderr
        else:
            before = os.umask(0o027)
            try:
                assert call(*arguments).code == 0
            finally:
                os.umask(before)
        outputs = [path for path in genrm.folder.iterdir() if path.name.startswith("out.")]
        assert {path.name: path.stat().st_mode & 0o777 for path in outputs} == dict.fromkeys(
            ("out.jsonl", "out.comparisons.jsonl", "out.metrics.json"), expected
        )
        for output in outputs:
            output.unlink()


def test_the_state_folder_is_private(genrm, call, judge_server):
    """Journals of streams are in a folder that only its user can enter."""
    before = os.umask(0)
    try:
        assert call("score -", *at(judge_server), stdin=body()).code == 0
    finally:
        os.umask(before)
    folder = genrm.state_folder / "genrm"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_claim_beside_finished_outputs_that_is_held_is_left_alone(genrm, call):
    """Another run may be about to release it; the input is up to date all the same."""
    path = genrm.folder / "in.jsonl"
    path.write_bytes(body())
    assert call("score", path, *LEXICAL).code == 0
    lease = take_lease(str(genrm.folder / "in.scored.jsonl"), Store(), 60.0)
    assert isinstance(lease, Lease)
    again = call("score", path, *LEXICAL)
    assert again.code == 0
    assert "up to date" in again.err
    lease.verify()


def test_an_endpoint_that_is_not_s3_is_an_error(call):
    """A web server that answers everything with a page: exit code 5 and no traceback, for a prefix
    as well.
    """
    page = (200, {"Content-Type": "text/html"}, b"<html><body>Please sign in.</body></html>")
    with listening(lambda _: page) as endpoint:
        for name in ("rl/in.jsonl", "rl/"):
            where = f"s3://bucket/{name}"
            finished = call("score", where, *LEXICAL, AWS_ENDPOINT_URL=endpoint).ended(5)
            assert "check the S3 endpoint" in " ".join(finished.err.split()), where
