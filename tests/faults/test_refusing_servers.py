import time

import pytest
from disturbed_scoring import OUTPUTS
from rude_network import hole


@pytest.mark.parametrize(("headers", "least_s"), [({}, 0.0), ({"Retry-After": "1"}, 1.0)])
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
        ({"status": 500}, "auto"),
        ({"status": 429}, 1),
        ({"reset": "mid_body"}, 8),
        ({"status": 401}, 8),
        ({"body": "<html>"}, 8),
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
    [{"reset": "before"}, {"status": 503}, {"status": 401}, {"status": 404}, {"body": "<html>"}],
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
    with hole() as port:
        arguments = [
            f"http://127.0.0.1:{port}/v1" if argument == scoring.server.base_url else argument
            for argument in scoring.arguments("--give-up-after", 0.3)
        ]
        scoring.genrm.run(*arguments).ended(4)
    assert not OUTPUTS & scoring.genrm.names()
    scoring.check_resumes()
