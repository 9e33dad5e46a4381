"""Answering files of requests through a batch API, and what such servers do."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from answered_requests import Json, vllm_line
from batch_server import judged, serving
from genrm_process import make_rollouts, read_lines
from small_server import completion

GROUPS = 3
REQUESTS = 12
SCORE = "score in.jsonl --model m --profile nemotron-plain"
AGAIN = f"{SCORE} --replies-from replies.jsonl --requests-to requests-2.jsonl"


@pytest.fixture
def run(call):
    """Run a command line."""
    return lambda line: call(*line.split())


@pytest.fixture
def ask(run, genrm):
    """Write the requests of three groups of four, in files of this many."""

    def write(in_files_of=REQUESTS):
        genrm.write("in.jsonl", make_rollouts(groups=GROUPS, size=4))
        run(f"{SCORE} --requests-to requests.jsonl").ended(0)
        lines = read_lines(genrm.folder / "requests.jsonl")
        for start in range(0, len(lines), in_files_of):
            genrm.write(f"requests{start or ''}.jsonl", lines[start : start + in_files_of])

    return write


@pytest.fixture
def batch(run):
    """Answer the requests through the batch API."""
    return lambda server, more="": run(f"batch requests*.jsonl --base-url {server.url} {more}")


@pytest.fixture
def read(run, genrm):
    """Score with the replies; return the metrics."""

    def score(code=0):
        run(f"{SCORE} --replies-from replies*.jsonl --force").ended(code)
        metrics: dict[str, Any] = genrm.metrics()
        return metrics

    return score


def test_a_batch_is_a_pipe(ask, batch, read, genrm):
    """Requests go out as they are written, replies come back, and the outputs are those of any
    file of replies; each step of the API is made once.
    """
    ask()
    with serving(looks=2) as server:
        said = batch(server).ended(0).err
        assert "in_progress" in said
        assert "completed, 12 requests done" in said
        assert "replies       replies.jsonl" in said
        made = [server.calls[f"{route}"] for route in ("POST /files", "POST /batches")]
        assert made == [1, 1]
        uploaded = next(iter(server.files.values()))[1]
    assert uploaded == (genrm.folder / "requests.jsonl").read_bytes()
    assert read()["failures"] == 0
    scored = (genrm.folder / "in.scored.jsonl").read_bytes()
    (genrm.folder / "in.journal.sqlite").unlink()
    lines = [json.loads(line) for line in uploaded.splitlines()]
    genrm.write(
        "replies.jsonl", [vllm_line(line["custom_id"], *judged(line["body"])) for line in lines]
    )
    read()
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == scored


Finish = Callable[[list[Json], list[Json]], str]


def once(change):
    """Return a change of the first batch alone."""
    left = [change]
    return lambda good, bad: left.pop()(good, bad) if left else "completed"


def _expire(good, bad):
    error = {"code": "batch_expired", "message": "too late"}
    bad.extend({**line, "response": None, "error": error} for line in good[4:])
    del good[4:]
    return "expired"


def _double(good):
    body = {**good[0]["response"]["body"], "id": "another"}
    good.append({**good[0], "response": {**good[0]["response"], "body": body}})


def _tear(good):
    good[-1] = json.dumps(good[-1])[:-60]


def _spoil(good):
    good[1] = "{not JSON}\n"


def _empty(good):
    good[0]["response"]["body"]["choices"][0]["message"]["content"] = ""


def completed(change):
    """Return a change of the good lines of a batch that completes."""

    def finish(good, bad):
        change(good)
        return "completed"

    return finish


@pytest.mark.parametrize(
    ("change", "missing", "replaced"),
    [
        (_expire, 8, 0),
        (completed(lambda good: good.pop()), 1, 0),
        (completed(_double), 0, 0),
        (completed(lambda good: good.insert(0, {**good[0], "custom_id": "0" * 64})), 0, 0),
        (completed(_tear), 1, 0),
        (completed(_spoil), 1, 0),
        (completed(_empty), 0, 1),
    ],
)
def test_what_lacks_a_verdict_goes_to_the_next_file(
    run, ask, batch, read, genrm, change, missing, replaced
):
    """Partial, missing and torn replies cost another batch of those requests alone, an empty one a
    batch of what replaces it; odd lines cost nothing.
    """
    ask()
    with serving(looks=0, finish=once(change)) as server:
        batch(server).ended(0)
        run(AGAIN).ended(0)
        assert (genrm.folder / "requests-2.jsonl").exists() == (missing + replaced > 0)
        batch(server).ended(0)
        assert sum(count > 1 for count in server.asked.values()) == missing
    metrics = read()
    assert metrics["verdicts"] + metrics["journal_hits"] == REQUESTS
    assert metrics["failures"] == replaced


@pytest.mark.parametrize(
    "given",
    [
        {"no_file": ""},
        {"empty_error_file": True},
        {"line": vllm_line},
        {
            "states": ("VALIDATING", "IN_PROGRESS", "QUEUED"),
            "finish": lambda good, bad: "COMPLETED",
            "looks": 1,
        },
    ],
)
def test_servers_differ(ask, batch, read, given):
    """Empty ids and files, vLLM's lines, and statuses in capitals or of another name are
    understood.
    """
    ask()
    with serving(**{"looks": 0, **given}) as server:
        batch(server).ended(0)
        assert set(server.asked.values()) == {1}
    assert read()["failures"] == 0


NOT_YET = {"message": "Cannot find file file-0. Ensure that the file is uploaded.", "code": None}


@pytest.mark.parametrize(
    "faults",
    [
        {
            "POST /batches": ["lost"],
            "GET /batches": [503],
        },
        *(
            pytest.param(faults, marks=pytest.mark.slow)
            for faults in (
                {"POST /files": [503]},
                {"POST /files": ["lost"]},
                {"POST /batches": [NOT_YET]},
                {"POST /batches": [429, 500]},
                {"GET /batches/id": [429, 502, "lost"]},
                {"GET /files/content": [502, "lost"]},
            )
        ),
    ],
    ids=str,
)
def test_faults_that_pass_are_waited_out(ask, batch, faults):
    """Calls are made again, but a batch that was created without its reply is found, and not made
    twice.
    """
    ask()
    with serving(looks=0, faults=faults) as server:
        batch(server).ended(0)
        assert len(server.batches) == 1
        assert set(server.asked.values()) == {1}


def test_a_request_that_is_refused_is_not_written_again(run, ask, batch, genrm):
    """A batch with errors alone leaves failures, in the server's words, and no further requests."""
    error = {"message": "Invalid 'messages': too long.", "code": "x", "param": "messages"}
    ask()
    with serving(looks=0, answer=lambda body: (400, {"error": error})) as server:
        batch(server).ended(0)
    run(f"{AGAIN} --max-extra 0").ended(6)
    assert not (genrm.folder / "requests-2.jsonl").exists()
    assert "too long" in genrm.metrics()["failure_examples"]["refused"]


def test_replies_that_never_can_be_read_are_replaced_within_the_limit(run, ask, batch, genrm):
    """Rounds end after as many further requests as `--max-extra` allows."""

    ask()
    rounds = 1
    status, _, unreadable = completion("Both are fine.")
    with serving(looks=0, answer=lambda body: (status, unreadable)) as server:
        while True:
            batch(server).ended(0)
            rounds += 1
            given = f"{SCORE} --replies-from replies*.jsonl"
            run(f"{given} --requests-to requests-{rounds}.jsonl")
            if not (genrm.folder / f"requests-{rounds}.jsonl").exists():
                break
        assert set(server.asked.values()) == {1}
    assert genrm.metrics()["failures_by_kind"] == {"no_verdict": len(server.asked)}
    assert REQUESTS < len(server.asked) <= 2 * REQUESTS


def test_a_batch_that_fails_ends_the_command(ask, batch, read):
    """The server's reason is told, with the line; the next call submits the requests again."""
    error = {"code": "invalid_json_line", "line": 3, "message": "This line is not parseable."}
    ask()
    with serving(looks=0, invalid=[error]) as server:
        said = batch(server).ended(4).err
        reason = "failed without a reply: line 3: invalid_json_line: This line is not parseable."
        assert reason in " ".join(said.split())
        batch(server).ended(0)
    assert read()["failures"] == 0


def test_a_full_queue_is_waited_for(ask, batch, genrm):
    """A batch over the account's limit is submitted again when another has ended; alone, it ends
    the command.
    """
    error = {
        "code": "token_limit_exceeded",
        "line": None,
        "message": "Enqueued token limit reached.",
    }
    ask(in_files_of=6)
    with serving(looks=0, invalid=[{}, error, {}, {}]) as server:
        batch(server).ended(0)
        assert len(server.batches) == 3
    for path in (*genrm.folder.glob("replies*"), *genrm.folder.glob("*.batch.json")):
        path.unlink()
    with serving(looks=0, invalid=[error, error]) as server:
        assert batch(server, "--force").code == 4


def test_a_cancelled_batch_leaves_its_finished_replies(ask, batch, read):
    """`--cancel` ends a batch in progress; what it answered counts, and the outputs are partial."""

    def cancel(good, bad):
        del good[4:]
        return "cancelled"

    ask()
    with serving(looks=5, finish=once(cancel)) as server:
        batch(server, "--wait 0").ended(6)
        batch(server, "--cancel").ended(0)
        assert server.calls["POST /batches/cancel"] == 1
    assert read(6)["verdicts"] == 4


def test_cancelling_submits_nothing(ask, batch, read):
    """Files without a batch stay as they are, and a batch that has just ended is no error."""
    ask()
    with serving(looks=0) as server:
        batch(server, "--cancel").ended(0)
        assert server.calls.total() == 0
        batch(server, "--wait 0")
        batch(server, "--cancel").ended(0)
        assert server.calls["POST /batches"] == 1
    assert read()["failures"] == 0


def test_a_batch_without_a_reply_is_submitted_again_by_the_next_call(ask, batch, read, genrm):
    """An empty file of replies would end every later run: none is written."""

    def expire(good, bad):
        good.clear()
        return "expired"

    ask()
    with serving(looks=0, finish=once(expire)) as server:
        said = " ".join(batch(server).ended(4).err.split())
        assert "batch_0 of requests.jsonl: expired without a reply" in said
        assert not (genrm.folder / "replies.jsonl").exists()
        batch(server).ended(0)
    assert read()["failures"] == 0


def test_deleted_replies_are_collected_again(ask, batch, read, genrm):
    """The batch is known: its replies cost nothing more."""
    ask()
    with serving(looks=0) as server:
        batch(server).ended(0)
        (genrm.folder / "replies.jsonl").unlink()
        batch(server).ended(0)
        assert server.calls["POST /batches"] == 1
    assert read()["failures"] == 0


@pytest.mark.parametrize(
    "line",
    [
        "private notes",
        '{"prompt": "Q", "response": "A"}',
        '{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {}}',
        '{"custom_id": "00112233445566778899aabbccddeeff", "method": "POST", "url": "/v1/files", '
        '"body": {}}',
    ],
)
def test_only_requests_are_uploaded(run, ask, genrm, line):
    """A file of anything else, or a folder that holds one, is refused before the first byte."""
    ask()
    requests = (genrm.folder / "requests.jsonl").read_bytes()
    (genrm.folder / "notes.jsonl").write_bytes(requests + line.encode())
    (genrm.folder / "in.jsonl").unlink()
    with serving() as server:
        for given in ("notes.jsonl", "./"):
            done = run(f"batch {given} --base-url {server.url}").ended(3)
            assert "is not a request of" in done.err
            assert given == "./" or "notes.jsonl: line 13 is" in done.err
        assert not server.files
        assert not server.batches


def test_files_whose_replies_have_one_name_are_refused(run, ask, genrm):
    """Before anything is sent."""
    ask()
    (genrm.folder / "x.jsonl").write_bytes((genrm.folder / "requests.jsonl").read_bytes())
    (genrm.folder / "requests.jsonl").rename(genrm.folder / "requests-x.jsonl")
    with serving() as server:
        refused = run(f"batch x.jsonl requests-x.jsonl --base-url {server.url}").ended(2)
        assert "would be written to replies-x.jsonl" in refused.err
        assert server.calls.total() == 0


def test_a_batch_of_another_project_is_told(ask, batch, genrm):
    """The id in the state means nothing to this key: the message says what to check, and how to
    submit again.
    """
    ask()
    with serving() as server:
        batch(server, "--wait 0").ended(6)
        server.batches.clear()
        said = " ".join(batch(server).ended(4).err.split())
        assert "No batches found with id 'batch_0'" in said
        assert "Remove the .batch.json file beside the requests" in said
        (genrm.folder / "requests.batch.json").unlink()
        batch(server).ended(0)


def test_one_call_submits_and_the_next_collects(ask, batch, genrm):
    """Without a wait each call leaves at once with exit code 6, and submits nothing twice; then
    the replies are there, and another call does nothing.
    """
    ask()
    with serving(looks=2) as server:
        for _ in range(2):
            said = " ".join(batch(server, "--wait 0").ended(6).err.split())
            assert "requests.jsonl: not answered yet; run the same command again" in said
            assert not (genrm.folder / "replies.jsonl").exists()
        for _ in range(2):
            batch(server, "--wait 0").ended(0)
        assert server.calls["POST /files"] == 1
        assert server.calls["POST /batches"] == 1


@pytest.mark.parametrize("is_answered", [False, True])
def test_other_requests_under_the_same_name_are_refused(ask, batch, genrm, is_answered):
    """The batch answers those that were there when it was submitted, and so do its replies."""
    ask()
    with serving(looks=0 if is_answered else 5) as server:
        batch(server, "" if is_answered else "--wait 0")
        content = (genrm.folder / "requests.jsonl").read_text()
        (genrm.folder / "requests.jsonl").write_text(content.partition("\n")[0] + "\n")
        said = " ".join(batch(server).ended(3).err.split())
    assert "its requests have changed since they were submitted" in said


def start(genrm, server):
    """Start the command."""
    return genrm.start("batch", "requests*.jsonl", "--base-url", server.url, "-q")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "route", ["POST /files", "POST /batches", "GET /batches/id", "GET /files/content"]
)
def test_a_killed_command_submits_nothing_twice(ask, batch, read, genrm, route, when):
    """Wherever it is killed, the next one finds the file or the batch that was made, and takes its
    replies.
    """
    ask()
    with serving(looks=0) as server:
        process = start(genrm, server)
        server.kill_at = route, when, process.kill
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        batch(server).ended(0)
        assert set(server.asked.values()) == {1}
    assert read()["failures"] == 0


@pytest.mark.slow
def test_kills_lose_nothing(ask, batch, read, genrm, soak_rng):
    """Killed five times at moments of chance, commands with many batches submit each request once
    and collect them all.
    """
    ask(in_files_of=2)
    with serving(looks=2) as server:
        for _ in range(5):
            process = start(genrm, server)
            server.kill_after = soak_rng.randint(1, 25), process.kill
            process.communicate(timeout=60)
            server.kill_after = None
        batch(server).ended(0)
        assert set(server.asked.values()) == {1}
        assert len(server.asked) == REQUESTS
    assert read()["failures"] == 0


@pytest.mark.slow
def test_an_interrupted_command_leaves_its_batch(ask, batch, genrm):
    """Ctrl-C ends the command, and the batch goes on: the next one collects its replies."""
    ask()
    with serving(looks=3) as server:
        process = genrm.start("batch", "requests.jsonl", "--base-url", server.url)
        assert process.stderr is not None
        while b"batch_0" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        batch(server).ended(0)
        assert set(server.asked.values()) == {1}
