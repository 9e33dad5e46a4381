import json
import signal

import pytest
from polling import poll_until
from s3_cron import JOURNAL_PREFIX, PREFIX, Cron, body_of, finish, outputs_of, some_rollouts
from soak import KILLS, Soak

IN_FLIGHT = 4
# Together a tenth of all requests.
DISTURBANCES = (
    {"share": 0.03, "answer": {"code": "SlowDown"}},
    {"share": 0.02, "answer": {"code": "InternalError", "pass_on": True}},
    {"share": 0.02, "drop": "before"},
    {"share": 0.02, "drop": "after"},
    {"share": 0.01, "method": "GET", "drop": "halfway"},
)


@pytest.fixture
def cron(tmp_path, s3_bucket, disturbed_s3, judge_server, aws, monkeypatch):
    """Give a test an empty bucket, a healthy judge and a first machine."""
    monkeypatch.chdir(tmp_path)
    return Cron(tmp_path, s3_bucket, disturbed_s3, judge_server, aws)


def lease_of_another_machine(expiry_s):
    """Make the content of a lease whose owner cannot be looked at."""
    owner = {"id": "x", "host": "far-away boot pid", "pid": 7, "started": "1"}
    lease = {**owner, "since": "2026-01-01T00:00:00+00:00", "expiry_s": expiry_s}
    return json.dumps(lease).encode()


def test_two_runs_started_together_score_each_file_once(cron):
    """Of two processes on 8 files each file is asked about by one only; both end well and leave no
    claims.
    """
    for number in range(8):
        cron.put(f"run-{number:02}.jsonl", some_rollouts(number))
    cron.judge.behave(latency_s=0.05)
    finished = [
        finish(process) for process in [cron.start("--no-journal"), cron.start("--no-journal")]
    ]
    assert [one.code for one in finished] == [0, 0], finished
    assert cron.asked == 32
    assert cron.judge.stats()["repeat_answers"] == 0
    assert cron.names() == set().union(*(outputs_of(f"run-{number:02}") for number in range(8)))
    assert sum(one.err.count("scored: s3://") for one in finished) == 8
    again = cron.run("--no-journal")
    assert again.code == 0, again.err
    assert cron.asked == 32, again.err


@pytest.mark.parametrize("half", range(2))
def test_four_runners_that_are_killed_lose_little(cron, tmp_path, soak_rng, half):
    """Machines vanish at any moment, a tenth of the requests to S3 go wrong: a kill costs a segment
    and what was in flight at most, and the outputs are those of a calm run.
    """
    runners = 4
    in_flight = 2
    segment_calls = 2
    arguments = ("--journal", cron.uri(JOURNAL_PREFIX), "--segment-calls", segment_calls)
    arguments += ("--concurrency", in_flight)

    def start():
        if soak_rng.random() < 0.5:
            cron.move()
        return cron.fork(*arguments)

    for disturbance in DISTURBANCES:
        cron.s3.rule(**disturbance, seed=soak_rng.getrandbits(32))
    cron.judge.behave(latency_s=0.01)
    soak = Soak(
        cron, start, cron.judge, soak_rng, largest=16
    )  # so that losing a dump's verdicts costs more
    for _ in soak.kills(KILLS, runners):
        pass
    cron.s3.clear()
    finished = cron.run(*arguments)
    assert finished.code == 0, finished.err
    stats = cron.judge.stats()
    assert stats["distinct_answered"] == soak.comparisons
    assert stats["repeat_answers"] <= (KILLS + runners) * (segment_calls + in_flight)
    assert soak.look() == soak.outputs()
    assert len({entry["key"] for entry in cron.copied()}) == soak.comparisons
    soak.check_undisturbed(tmp_path / "calm")


def test_a_lease_of_another_machine_is_waited_for_until_it_expires(cron):
    """While a lease is held, a found file waits and a named one fails with 5; after its expiry, it
    is taken over.
    """
    uri = cron.put("run.jsonl", some_rollouts(0))
    cron.put("run.lease-4", lease_of_another_machine(600.0))
    found = cron.run()
    named = cron.run(uri=uri)
    assert found.code == 0, (found, named)
    assert named.code == 5, (found, named)
    assert cron.asked == 0, (found, named)
    for one in (found, named):
        assert (
            "process 7 on far-away has been working on it since 2026-01-01T00:00:00+00:00"
            in one.err
        )
    assert "skipped: " in found.err
    cron.put("run.lease-4", lease_of_another_machine(1.0))
    poll_until(lambda: cron.run().code == 0 and cron.asked)
    assert cron.names() == outputs_of("run")


def test_a_token_that_expires_in_the_middle(cron):
    """From then on S3 refuses everything: 5 and the reason, no output; the next run asks only what
    is missing.
    """
    cron.put("run.jsonl", some_rollouts(0, groups=10))
    cron.judge.behave(latency_s=0.1)
    process = cron.start()
    cron.wait_for_requests(8)
    cron.s3.rule(answer={"code": "ExpiredToken"})
    failed = finish(process)
    assert failed.code == 5, failed.err
    assert "the AWS session token has expired; sign in again" in failed.err
    assert cron.asked == 40
    cron.s3.clear()
    assert not outputs_of("run") & cron.names()
    assert cron.run().code == 0
    assert cron.asked == 40
    assert cron.names() == outputs_of("run")


@pytest.mark.parametrize("is_named", [False, True])
def test_a_version_that_changes_while_it_is_read(cron, is_named):
    """A found file that is no longer the listed version waits for the next run; of a named one, the
    version that is read is scored and recorded. Each run scores a single version whole.
    """
    old = some_rollouts(0, groups=2)
    new = some_rollouts(1, groups=2)
    uri = cron.put("run.jsonl", old)
    first_look = {"method": "HEAD"}
    # The first one tells the format; the reply to the second one gets lost.
    first_read = {"method": "GET", "after": 1, "answer": {"code": "InternalError"}}
    cron.s3.rule(
        **(first_look if is_named else first_read),
        key_contains=f"{PREFIX}run.jsonl",
        times=1,
        replace_after=body_of(new),
    )
    finished = cron.run(uri=uri if is_named else None)
    assert finished.code == 0, finished.err
    if not is_named:
        assert "changed while being read" in finished.err
        assert cron.asked == 0
        assert cron.names() == set()
        assert cron.run().code == 0
    assert prompts_scored(cron) == [line["prompt"] for line in new]
    asked = cron.asked
    assert "1 up to date" in cron.run().err
    assert cron.asked == asked


def test_a_version_that_changes_while_it_is_judged(cron):
    """The version that was read is scored whole and recorded as such; the next run scores the new
    one.
    """
    old = some_rollouts(0, groups=2)
    new = some_rollouts(1, groups=2)
    cron.put("run.jsonl", old)
    cron.judge.behave(latency_s=0.3)
    process = cron.start()
    cron.wait_for_requests(1)
    cron.put("run.jsonl", new)
    assert finish(process).code == 0
    assert prompts_scored(cron) == [line["prompt"] for line in old]
    cron.judge.behave()
    again = cron.run()
    assert again.code == 0, again.err
    assert cron.asked == 16, again.err
    assert "the input has changed" in again.err
    assert prompts_scored(cron) == [line["prompt"] for line in new]


def prompts_scored(cron):
    """Return the prompts of the scored lines."""
    return [
        json.loads(line)["prompt"] for line in cron.get(PREFIX + "run.scored.jsonl").splitlines()
    ]


@pytest.mark.parametrize("is_named", [False, True])
def test_a_lease_that_is_taken_over_in_the_middle(cron, is_named):
    """The run that lost its lease writes nothing; the other's lease
    stays.
    """
    uri = cron.put("run.jsonl", some_rollouts(0, groups=25))
    cron.judge.behave(latency_s=0.2)
    process = cron.start(uri=uri if is_named else None)
    cron.wait_for_requests(4)
    cron.put("run.lease-2", lease_of_another_machine(60.0))
    finished = finish(process)
    assert finished.code == (5 if is_named else 0), finished.err
    assert "another run took over this lease" in finished.err
    assert cron.names() == {"run.lease-2"}


def test_sigterm_while_the_store_is_down(cron):
    """SIGTERM ends a run soon with 130, begins no other file, and loses nothing, though the store
    takes nothing.
    """
    journal = ("--journal", cron.uri(JOURNAL_PREFIX), "--segment-calls", 8)
    for number in range(3):
        cron.put(f"run-{number}.jsonl", some_rollouts(number, groups=5))
    cron.judge.behave(script=[{}] * 3, fault={"hang": True})
    process = cron.start(*journal)
    cron.wait_for_requests(3 + IN_FLIGHT)
    cron.s3.rule(answer={"code": "ExpiredToken"})
    process.send_signal(signal.SIGTERM)
    assert finish(process, limit_s=60).code == 130
    cron.s3.clear()
    cron.judge.reset()
    assert cron.run(*journal).code == 0
    assert cron.asked == 60 - 3
    assert cron.names() == set().union(*(outputs_of(f"run-{number}") for number in range(3)))
