"""Judging through a batch API, and what such servers do."""

import json
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from answered_requests import Json, vllm_line
from batch_server import BatchServer, judged, serving
from genrm_process import Call, Finished, Genrm, make_rollouts

GROUPS = 3
REQUESTS = 12
PLAIN = ("--model", "m", "--profile", "nemotron-plain")


def score(call: Call, genrm: Genrm, server: BatchServer, *given: object) -> Finished:
    """Score three groups of four through the batch API."""
    genrm.write("in.jsonl", make_rollouts(groups=GROUPS, size=4))
    return call("score", "in.jsonl", *PLAIN, "--base-url", server.url, "--batch", *given)


def whole(call: Call, genrm: Genrm, server: BatchServer, *given: object) -> None:
    """Score, and make sure that every comparison has a verdict."""
    finished = score(call, genrm, server, "-q", *given)
    assert finished.code == 0, finished.err
    metrics = genrm.metrics()
    assert (metrics["verdicts"] + metrics["journal_hits"], metrics["failures"]) == (REQUESTS, 0)


def test_a_batch_gives_the_outputs_of_files(call, genrm):
    """Scored lines are equal; a batch is uploaded, created and fetched once, and its states are
    told.
    """
    with serving(looks=2) as server:
        finished = score(call, genrm, server)
        assert finished.code == 0, finished.err
        assert [
            state for state in ("in_progress", "completed, 12 of 12") if state not in finished.err
        ] == []
        assert (
            server.calls["POST /files"]
            == server.calls["POST /batches"]
            == server.calls["GET /files/content"]
            == 1
        )
        requests = next(iter(server.files.values()))[1]
    scored = (genrm.folder / "in.scored.jsonl").read_bytes()
    assert call("score", "in.jsonl", *PLAIN, "--conclude", "--force", "-q").code == 0
    assert genrm.metrics()["judge"]["probe"] == "skipped"
    (genrm.folder / "in.journal.sqlite").unlink()
    lines = [json.loads(line) for line in requests.splitlines()]
    genrm.write(
        "replies.jsonl", [vllm_line(line["custom_id"], *judged(line["body"])) for line in lines]
    )
    assert (
        call("score", "in.jsonl", *PLAIN, "--replies-from", "replies.jsonl", "--force", "-q").code
        == 0
    )
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == scored


Finish = Callable[[list[Json], list[Json]], str]


def once(change: Callable[[list[Json], list[Json]], str]) -> Finish:
    """Return a change of the first batch alone."""
    left = [change]
    return lambda good, bad: left.pop()(good, bad) if left else "completed"


def _expire(good: list[Json], bad: list[Json]) -> str:
    error = {"code": "batch_expired", "message": "too late"}
    bad.extend({**line, "response": None, "error": error} for line in good[4:])
    del good[4:]
    return "expired"


def _drop(good: list[Json], bad: list[Json]) -> str:
    good.pop()
    return "completed"


def _double(good: list[Json], bad: list[Json]) -> str:
    body = {**good[0]["response"]["body"], "id": "another"}
    good.append({**good[0], "response": {**good[0]["response"], "body": body}})
    return "completed"


def _add_foreign(good: list[Json], bad: list[Json]) -> str:
    good.insert(0, {**good[0], "custom_id": "0" * 64})
    return "completed"


def _tear(good: list[Any], bad: list[Json]) -> str:
    good[-1] = json.dumps(good[-1])[:-60]
    return "completed"


def _spoil(good: list[Any], bad: list[Json]) -> str:
    good[1] = "{not JSON}\n"
    return "completed"


def _empty(good: list[Json], bad: list[Json]) -> str:
    good[0]["response"]["body"]["choices"][0]["message"]["content"] = ""
    return "completed"


@pytest.mark.parametrize(
    ("change", "batches"),
    [
        (_expire, 2),
        (_drop, 2),
        (_double, 1),
        (_add_foreign, 1),
        (_tear, 2),
        (_spoil, 2),
        (_empty, 2),
    ],
)
def test_what_lacks_a_verdict_is_submitted_again(call, genrm, change, batches):
    """Partial, missing, torn and empty replies cost another batch of those requests alone; odd
    lines cost nothing.
    """
    with serving(looks=0, finish=once(change)) as server:
        whole(call, genrm, server)
        assert len(server.batches) == batches
        again = [count for count in server.asked.values() if count > 1]
        assert len(again) == {_expire: 8}.get(change, batches - 1)


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
def test_servers_differ(call, genrm, given):
    """Empty ids and files, vLLM's lines, and statuses in capitals or of another name are
    understood.
    """
    with serving(**{"looks": 0, **given}) as server:
        whole(call, genrm, server)
        assert (len(server.batches), set(server.asked.values())) == (1, {1})


NOT_YET = {"message": "Cannot find file file-0. Ensure that the file is uploaded.", "code": None}


@pytest.mark.parametrize(
    "faults",
    [
        {"POST /batches": ["lost"], "GET /batches": [503]},
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
def test_faults_that_pass_are_waited_out(call, genrm, faults):
    """Calls are made again, but a file or a batch that arrived without its reply is found, and not
    made twice.
    """
    with serving(looks=0, faults=faults) as server:
        whole(call, genrm, server)
        assert (len(server.batches), set(server.asked.values())) == (1, {1})
        assert len([name for name, _ in server.files.values() if name.startswith("genrm-")]) == 1


def test_all_requests_refused(call, genrm):
    """A batch with errors alone leaves failures of calls, which are not submitted again, in the
    server's words.
    """
    refusal = (
        400,
        {"error": {"message": "Invalid 'messages': too long.", "code": "x", "param": "messages"}},
    )
    with serving(looks=0, answer=lambda body: refusal) as server:
        finished = score(call, genrm, server)
        assert (finished.code, len(server.batches)) == (6, 1)
    assert "12 refused (for example: HTTP 400: Invalid 'messages': too long." in finished.err


def test_a_reply_that_never_can_be_read_is_asked_for_as_often_as_a_call(call, genrm):
    """After `--reask` further batches the failures are final."""

    def unreadable(body):
        return 200, {
            "choices": [{"message": {"content": "Both are fine."}, "finish_reason": "stop"}]
        }

    with serving(looks=0, answer=unreadable) as server:
        assert score(call, genrm, server, "--reask", 2, "-q").code == 6
        assert len(server.batches) == 3
    assert genrm.metrics()["failures_by_kind"] == {"no_verdict": REQUESTS}


def test_a_batch_that_fails_ends_the_run(call, genrm):
    """The server's reason is told, with the line; the next run submits the requests again."""
    error = {"code": "invalid_json_line", "line": 3, "message": "This line is not parseable."}
    with serving(looks=0, invalid=[error]) as server:
        finished = score(call, genrm, server)
        assert finished.code == 4
        assert (
            "batch batch_0 failed: line 3: invalid_json_line: This line is not parseable."
            in finished.err
        )
        whole(call, genrm, server)


def test_a_full_queue_is_waited_for(call, genrm):
    """A batch over the account's limit is submitted again when another has ended; alone, it ends
    the run.
    """
    error = {
        "code": "token_limit_exceeded",
        "line": None,
        "message": "Enqueued token limit reached.",
    }
    with serving(looks=0, invalid=[{}, error, {}, {}]) as server:
        whole(call, genrm, server, "--requests-per-file", 6)
        assert len(server.batches) == 3
    (genrm.folder / "in.journal.sqlite").unlink()
    with serving(looks=0, invalid=[error]) as server:
        assert score(call, genrm, server, "--force").code == 4


def test_a_cancelled_batch_is_not_submitted_again(call, genrm):
    """Its replies count, and the outputs are partial; the next run asks for the rest."""

    def cancel(good, bad):
        del good[4:]
        return "cancelled"

    with serving(looks=0, finish=once(cancel)) as server:
        finished = score(call, genrm, server)
        assert (finished.code, len(server.batches)) == (6, 1)
        assert genrm.metrics()["verdicts"] == 4
        whole(call, genrm, server)
        assert sorted(server.asked.values()) == [1] * 4 + [2] * 8


def test_a_batch_of_another_project_is_told(call, genrm):
    """The id in the journal means nothing to this key: the message says what to check, and how to
    submit again.
    """
    with serving() as server:
        assert score(call, genrm, server, "--batch-wait", 0, "-q").code == 0
        server.batches.clear()
        finished = score(call, genrm, server)
        assert finished.code == 4
        assert "No batches found with id 'batch_0'" in finished.err
        assert "--force forgets batches that do not exist" in finished.err
        whole(call, genrm, server, "--force")


@pytest.mark.parametrize(
    "differs", ['base_url = "http://127.0.0.1:9/v1"', 'api_key_env = "OTHER_KEY"']
)
def test_a_model_has_one_endpoint(call, genrm, differs):
    """Judges that name the same model elsewhere, or with another key, are refused: a batch goes to
    one account.
    """
    genrm.write("in.jsonl", make_rollouts())
    judge = '[[judge]]\nmodel = "m"\nprofile = "nemotron-plain"\n'
    with serving() as server:
        (genrm.folder / "p.toml").write_text(
            f'base_url = "{server.url}"\n{judge}{judge}judge_id = "2"\n{differs}\n'
        )
        finished = call("score", "in.jsonl", "--config", "p.toml", "--batch", OTHER_KEY="other")
        assert (finished.code, server.calls.total()) == (2, 0)
    assert "two judges ask m at different endpoints or with different keys" in finished.err


def test_one_run_submits_and_the_next_collects(call, genrm):
    """Without a wait each run leaves at once, and submits nothing twice; then the outputs are
    there.
    """
    with serving(looks=2) as server:
        for _ in range(2):
            first = score(call, genrm, server, "--batch-wait", 0)
            assert first.code == 0, first.err
            assert "asked: in.jsonl: it waits for replies" in first.err
            assert not (genrm.folder / "in.scored.jsonl").exists()
        whole(call, genrm, server, "--batch-wait", 0)
        assert (server.calls["POST /files"], server.calls["POST /batches"]) == (1, 1)


def test_two_turns_and_goals_take_batches_of_their_own(call, genrm):
    """Each round is a batch; one run makes all of them."""
    with serving(looks=0) as server:
        whole(call, genrm, server, "--goal", "pair", "--ring-k", "1")
        assert len(server.batches) == 2


def test_the_summary_tells_what_a_batch_saves(call, genrm):
    """With prices, the cost is that of the discount, beside that of calls."""
    with serving(looks=0) as server:
        finished = score(call, genrm, server, "--price-in", 1000, "--price-out", 1000)
    tokens = genrm.metrics()["prompt_tokens"] + genrm.metrics()["completion_tokens"]
    assert (
        f"cost          {tokens / 2000:,.2f}, {tokens / 2000:,.2f} less than by calls"
        in finished.err
    )


def start(genrm: Genrm, server: BatchServer, *given: str) -> "subprocess.Popen[bytes]":
    """Start a run through the batch API."""
    return genrm.start(
        "score", "in.jsonl", *PLAIN, "--base-url", server.url, "--batch", "-q", *given
    )


_KILLED_AT = [
    pytest.param(
        route, when, marks=[] if (route, when) == ("POST /batches", "after") else pytest.mark.slow
    )
    for route in ("POST /files", "POST /batches", "GET /batches/id", "GET /files/content")
    for when in ("before", "after")
]


@pytest.mark.parametrize(("route", "when"), _KILLED_AT)
def test_a_killed_run_submits_nothing_twice(call, genrm, route, when):
    """Wherever it is killed, the next run finds the file or the batch that was made, and takes its
    replies.
    """
    genrm.write("in.jsonl", make_rollouts(groups=GROUPS, size=4))
    with serving(looks=0) as server:
        process = start(genrm, server)
        server.kill_at = route, when, process.kill
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        whole(call, genrm, server)
        assert set(server.asked.values()) == {1}
        assert len([name for name, _ in server.files.values() if name.startswith("genrm-")]) == 1


@pytest.mark.slow
def test_ten_kills_lose_nothing(call, genrm, soak_rng):
    """Killed ten times at moments of chance, runs with many batches submit each request once and
    collect them all.
    """
    genrm.write("in.jsonl", make_rollouts(groups=GROUPS, size=4))
    options = ("--requests-per-file", "2", "--goal", "pair", "--ring-k", "1")
    with serving(looks=2) as server:
        for _ in range(10):
            process = start(genrm, server, *options)
            server.kill_after = soak_rng.randint(1, 25), process.kill
            process.communicate(timeout=60)
            server.kill_after = None
        whole(call, genrm, server, *options)
        assert set(server.asked.values()) == {1}
        assert len(server.asked) == REQUESTS


@pytest.mark.slow
def test_ctrl_c_leaves_a_batch_and_a_second_one_cancels_it(genrm):
    """The first press ends the run, whose batch goes on; the second one, right after it, cancels
    the batch.
    """
    genrm.write("in.jsonl", make_rollouts(groups=GROUPS, size=4))
    with serving(looks=10_000) as server:
        process = genrm.start("score", "in.jsonl", *PLAIN, "--base-url", server.url, "--batch")
        assert process.stderr is not None
        told = b""
        for words in (b"in_progress", b"Press Ctrl-C again"):
            while words not in told:
                line = process.stderr.readline()
                assert line, told
                told += line
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert server.calls["POST /batches/cancel"] == 1
