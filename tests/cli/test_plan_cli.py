"""`genrm plan`: calls, cost and time of a run for fleets of workers."""

import heapq
import json
import math
import random
from statistics import mean

import pytest
from genrm_process import Call, Genrm, make_rollouts
from judge_server_fixture import JudgeServer

JUDGE = ("--base-url", "http://127.0.0.1:1/v1", "--model", "m")
MEAN_S, SPREAD = 3.0, 0.6


def simulated_s(calls: int, slots: int, rng: random.Random) -> float:
    """Return when a worker's last call is answered; each slot takes the next call when it is free."""
    free_at_s = [0.0] * slots
    for _ in range(calls):
        latency_s = rng.lognormvariate(math.log(MEAN_S) - SPREAD**2 / 2, SPREAD)
        heapq.heapreplace(free_at_s, free_at_s[0] + latency_s)
    return max(free_at_s)


@pytest.mark.parametrize(
    ("workers", "slots", "groups"),
    [
        (1, 16, 60),
        (4, 64, 60),
        pytest.param(8, 16, 200, marks=pytest.mark.slow),
        pytest.param(32, 128, 120, marks=pytest.mark.slow),
    ],
)
def test_the_time_is_that_of_a_simulated_fleet(call: Call, genrm: Genrm, workers: int, slots: int, groups: int) -> None:
    """Workers with the calls of their shards and their share of the slots take as long as planned, within 15 %."""
    genrm.write("in.jsonl", make_rollouts(groups=groups, size=3))
    metrics = {"latency": {"mean_s": MEAN_S, "median_s": MEAN_S * math.exp(-(SPREAD**2) / 2)}, "calls_per_s": 1.0}
    (genrm.folder / "last.metrics.json").write_text(json.dumps(metrics))
    given = ("in.jsonl", *JUDGE, "--concurrency", slots, "--json", "--strategy", "all_pairs")
    (fleet,) = json.loads(call("plan", *given, "--measured", "last.metrics.json", "--workers", workers).out)["fleets"]
    calls = [
        json.loads(call("score", *given, "--dry-run", "--shard", f"{number}/{workers}", "-q").out)["plan"]["calls"]
        for number in range(workers)
    ]
    assert max(calls) == fleet["largest_shard_calls"]
    rng = random.Random(7)
    run_s = mean(max(simulated_s(each, slots // workers, rng) for each in calls) for _ in range(20))
    assert fleet["ask_s"] == pytest.approx(run_s, rel=0.15)


def test_what_the_journal_knows_costs_nothing(call: Call, genrm: Genrm, judge_server: JudgeServer) -> None:
    """Calls are those that remain; with an unknown concurrency, slots are those of the measured run."""
    genrm.write("in.jsonl", make_rollouts(groups=8, size=3))
    given = ("in.jsonl", "--base-url", judge_server.base_url, "--model", "m", "--profile", "nemotron-plain")
    assert call("score", *given, "--limit", "3").code == 0
    plan = json.loads(call("plan", *given, "--measured", "in.metrics.json", "--json").out)
    assert (plan["planned"], plan["known"], plan["calls"]) == (24, 9, 15)
    assert plan["slots"] >= 1
    assert [fleet["workers"] for fleet in plan["fleets"]] == [1, 2, 4, 8]
    assert call("score", *given).code == 0
    assert json.loads(call("plan", *given, "--measured", "in.metrics.json", "--json").out)["calls"] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "the latency of a call is not known"),
        (("--latency", "soon"), "is not a duration"),
        (("--latency", "2s"), "--concurrency auto finds the number of slots"),
        (("--latency", "2s", "--workers", "0"), "a fleet has 1 to"),
        (("--measured", "in.jsonl"), "not the metrics of a run"),
    ],
    ids=str,
)
def test_what_is_not_known_is_asked_for(call: Call, genrm: Genrm, options: tuple[str, ...], said: str) -> None:
    """An estimate without a latency or slots would be a guess: the error says what to pass."""
    genrm.write("in.jsonl", make_rollouts(groups=1, size=2)[:1])
    finished = call("plan", "in.jsonl", *JUDGE, *options)
    assert finished.code == 2
    assert said in finished.err
