import contextlib
import socket
import time

import pytest
from disturbed_scoring import OUTPUTS


@pytest.mark.parametrize(
    ("headers", "least_s"),
    [
        ({}, 0.0),
        ({"Retry-After": "1"}, 1.0),
    ],
    ids=["bare", "retry-after"],
)
def test_a_storm_of_429_is_sat_out(scoring, headers, least_s):
    """A judge that refuses every call at first is asked again when it wants, however few retries
    there are.
    """
    scoring.server.behave(fault={"status": 429, "headers": headers}, fault_times=1)
    started_s = time.monotonic()
    scoring.run("--retries", 0).ended(0)
    assert time.monotonic() - started_s > least_s
    metrics = scoring.check_honest()
    assert metrics["retries"] == scoring.server.stats()["by_status"]["429"] == 16
    scoring.check_undisturbed()
    scoring.check_resumes()


@pytest.mark.parametrize(
    ("fault", "concurrency"),
    [
        pytest.param({"status": 500}, 1, marks=pytest.mark.slow),
        pytest.param({"status": 500}, 8, marks=pytest.mark.slow),
        ({"status": 500}, "auto"),
        ({"status": 429}, 1),
        pytest.param({"status": 429}, 8, marks=pytest.mark.slow),
        ({"reset": "mid_body"}, 8),
        ({"status": 401}, 8),
        pytest.param({"body": "<html>"}, 8, marks=pytest.mark.slow),
    ],
    ids=[
        "500-1",
        "500-8",
        "500-auto",
        "429-1",
        "429-8",
        "reset",
        "401",
        "html",
    ],
)
def test_the_calls_of_a_bad_endpoint_move_to_a_good_one(scoring, start_judge, fault, concurrency):
    """With one of two endpoints bad from the first call to the last, every comparison is answered
    by the other.
    """
    scoring.server.behave(fault=fault)
    good = start_judge()
    scoring.run("--base-url", good.base_url, "--concurrency", concurrency).ended(0)
    assert scoring.check_honest()["failures"] == 0
    assert good.stats()["distinct_answered"] == 16
    assert good.stats()["repeat_answers"] == 0
    scoring.check_undisturbed()


@pytest.mark.parametrize(
    "fault",
    [
        {"reset": "before"},
        pytest.param({"status": 503}, marks=pytest.mark.slow),
        {"status": 401},
        pytest.param({"status": 404}, marks=pytest.mark.slow),
        pytest.param({"body": "<html>"}, marks=pytest.mark.slow),
    ],
    ids=["reset", "503", "401", "404", "html"],
)
def test_a_judge_that_breaks_for_good_is_given_up(scoring, fault):
    """After --give-up-after the run ends with 4 and a reason, without outputs, with every verdict
    in the journal.
    """
    scoring.server.behave(script=[{}] * 6, fault=fault)
    started_s = time.monotonic()
    finished = scoring.run("--give-up-after", 0.3).ended(4)
    assert time.monotonic() - started_s > 0.3
    assert "(--give-up-after)" in finished.err
    assert not OUTPUTS & scoring.genrm.names()
    assert scoring.journaled() == 6
    scoring.check_resumes()


def test_a_host_that_never_takes_a_connection_is_given_up(scoring):
    """Packets that are dropped are an outage, not slow answers: told from the connection's own time
    limit.
    """
    with contextlib.ExitStack() as opened:
        deaf = opened.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(
            4
        ):  # fill its queue: further connections wait for an answer that never comes
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(deaf.getsockname())
        nowhere = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        arguments = [
            nowhere if argument == scoring.server.base_url else argument
            for argument in scoring.arguments()
        ]
        finished = scoring.genrm.run(*arguments, "--give-up-after", 0.3)
    assert finished.code == 4, finished.err
    assert not OUTPUTS & scoring.genrm.names()
    scoring.check_resumes()
