"""Runs on a real Ray cluster of this machine; every process that a run starts ends with it."""

import asyncio
import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest
from genrm_process import Finished, make_rollouts

from genrm_cli.errors import StorageError
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings.judge_settings import LimitSettings

pytestmark = pytest.mark.slow

LIMIT_S = 300
CONCURRENCY = 8
GROUPS = 40
SIZE = 3
ACTOR = "ray::Worker"


@pytest.fixture
def needs_ray():
    """Skip a test where Ray is not installed."""
    pytest.importorskip("ray", reason="needs ray: pip install '.[ray]'")


def arguments(judge):
    """Return the command and the options of a run."""
    options = f"--no-probe --profile nemotron-plain --concurrency {CONCURRENCY}"
    return ("score", "in.jsonl", *judge.flags, *options.split())


def on_ray(judge, workers=2):
    """Return the same on a local cluster."""
    return (*arguments(judge), *f"--ray local --ray-workers {workers}".split())


def scored_without_ray(genrm, judge, latency_s):
    """Write the input; return the scored lines of an undistributed run, and remove all that it
    wrote.
    """
    judge.behave(verdict="hash", latency_s=0.0)
    genrm.write("in.jsonl", make_rollouts(groups=GROUPS, size=SIZE))
    assert genrm.run(*arguments(judge), "-q").code == 0
    scored = (genrm.folder / "in.scored.jsonl").read_bytes()
    for name in genrm.names() - {"in.jsonl"}:
        (genrm.folder / name).unlink()
    judge.reset()
    judge.behave(verdict="hash", latency_s=latency_s)
    return scored


def finish(process):
    """Wait for the end of a run."""
    out, err = process.communicate(timeout=LIMIT_S)
    assert b"Traceback" not in err, err.decode()
    return Finished(process.returncode, out, err.decode())


def iter_descendants(pid):
    """Yield the processes below a process, with their titles."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    for child in parents:
        ancestor = child
        while ancestor in parents and ancestor != pid:
            ancestor = parents[ancestor]
        if ancestor == pid and child != pid:
            with contextlib.suppress(OSError):
                yield (
                    child,
                    Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(),
                )


def kill_one(pid, title):
    """Kill an actor of a run as the kernel would."""
    os.kill(
        next(child for child, name in iter_descendants(pid) if name.startswith(title)),
        signal.SIGKILL,
    )


def wait_for_end(pids):
    """Wait until these processes are gone."""
    give_up_at = time.monotonic() + LIMIT_S
    while any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
        assert time.monotonic() < give_up_at, "actors are left"
        time.sleep(0.1)


def test_two_workers_give_the_outputs_of_a_single_run(needs_ray, genrm, judge_server):
    """Scored lines are equal byte by byte; the limit is kept, nothing is asked twice, stdout and
    stderr are ours.
    """
    whole = scored_without_ray(genrm, judge_server, 0.02)
    ended = finish(genrm.start(*on_ray(judge_server), "--json"))
    assert ended.code == 0, ended.err
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == whole
    stats = judge_server.stats()
    assert stats["requests"] == GROUPS * SIZE
    assert stats["max_in_flight"] <= CONCURRENCY
    assert ended.out.count(b"\n") == 1
    assert ended.out.startswith(b"{")
    assert "ray" not in ended.err.lower().replace("--ray", "")


def test_a_killed_worker_costs_no_more_than_was_in_flight(needs_ray, genrm, judge_server):
    """A worker's shards go to another; outputs and limit are the same."""
    whole = scored_without_ray(genrm, judge_server, 0.3)
    process = genrm.start(*on_ray(judge_server))
    judge_server.wait_until(lambda stats: stats["requests"] > 5 * CONCURRENCY, LIMIT_S)
    kill_one(process.pid, "ray::Worker")
    ended = finish(process)
    assert ended.code == 0, ended.err
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == whole
    stats = judge_server.stats()
    assert stats["max_in_flight"] <= CONCURRENCY
    assert stats["requests"] <= GROUPS * SIZE + CONCURRENCY
    assert ended.err.count("was lost") == 1


def test_a_cluster_without_nodes_ends_the_run(needs_ray, genrm, judge_server):
    """Exit code 5 half a minute after the only node is gone; the same command then asks only what
    has no answer.
    """
    whole = scored_without_ray(genrm, judge_server, 0.3)
    process = genrm.start(*on_ray(judge_server))
    judge_server.wait_until(lambda stats: stats["requests"] > CONCURRENCY, LIMIT_S)
    kill_one(process.pid, "ray::DashboardAgent")  # its node follows it
    ended = finish(process)
    assert ended.code == 5, ended.err
    assert "same command again" in ended.err
    judge_server.behave(verdict="hash", latency_s=0.0)
    assert finish(genrm.start(*on_ray(judge_server))).code == 0
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == whole
    assert judge_server.stats()["requests"] <= GROUPS * SIZE + CONCURRENCY


def test_the_deadline_ends_a_run_with_partial_outputs(needs_ray, genrm, judge_server):
    """The summary names it, the exit code is 6, and nothing is asked after it."""
    scored_without_ray(genrm, judge_server, 5.0)
    ended = finish(genrm.start(*on_ray(judge_server), "--deadline", "12s"))
    assert ended.code == 6, ended.err
    assert "--deadline stopped the run" in ended.err
    metrics = json.loads((genrm.folder / "in.metrics.json").read_bytes())
    assert metrics["stopped_by"] == "deadline"
    assert (
        judge_server.stats()["requests"] + metrics["failures_by_kind"]["not_asked"] == GROUPS * SIZE
    )


def test_a_killed_run_takes_its_cluster_along_and_another_continues(needs_ray, genrm, judge_server):
    """With another number of workers, only the rest is asked."""
    whole = scored_without_ray(genrm, judge_server, 0.3)
    process = genrm.start(*on_ray(judge_server))
    judge_server.wait_until(lambda stats: stats["requests"] > 2 * CONCURRENCY, LIMIT_S)
    judge_server.behave(verdict="hash", latency_s=LIMIT_S)
    started = [pid for pid, title in iter_descendants(process.pid) if title.startswith(ACTOR)]
    process.kill()
    process.communicate(timeout=LIMIT_S)
    wait_for_end(started)
    assert started
    assert not (genrm.folder / "in.scored.jsonl").exists()
    judge_server.behave(verdict="hash", latency_s=0.0)
    ended = finish(genrm.start(*on_ray(judge_server, 3)))
    assert ended.code == 0, ended.err
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == whole
    assert judge_server.stats()["requests"] <= GROUPS * SIZE + CONCURRENCY


@pytest.mark.parametrize("what", ["head", "nodes"])
def test_a_cluster_that_stays_away_ends_the_run(needs_ray, what):
    """While its head accepts connections and has a node, the watch goes on; then the error says
    what to do.
    """
    from genrm_cli.products.cluster.start import watch_cluster

    async def lose_it():
        came = asyncio.Semaphore(0)
        nodes = ["a"]
        server = await asyncio.start_server(
            lambda reader, writer: (writer.close(), came.release()), "127.0.0.1", 0
        )
        async with server:
            host, port = server.sockets[0].getsockname()
            watch = watch_cluster(f"{host}:{port}", nodes.copy, absence_limit_s=0.5, every_s=0.01)
            watching = asyncio.create_task(watch)
            for _ in range(10):
                await came.acquire()
            assert not watching.done()
            if what == "head":
                server.close()
                await server.wait_closed()
            nodes.clear()
            await watching

    with pytest.raises(StorageError, match="run the same command again"):
        asyncio.run(lose_it())


def test_a_worker_that_takes_over_gets_what_is_left(needs_ray):
    """Calls, tokens and cost of the lost worker count against the same part of the limits, which
    never goes below 0.
    """
    from genrm_cli.products.cluster.worker import limits_left

    limits = LimitSettings(max_calls=10, max_total_tokens=100, max_cost=1.0, price_in=1e4)
    lost = [RunMetrics(calls=1, prompt_tokens=60), RunMetrics(calls=3, completion_tokens=50)]
    left = limits_left(limits, lost)
    assert left.max_calls == 6
    assert left.max_total_tokens == 0
    assert left.max_cost == pytest.approx(0.4)
    assert limits_left(LimitSettings(), lost) == LimitSettings()


def test_without_ray_the_extra_is_named(call, genrm):
    """A user without Ray is told what to install, before anything is read."""
    (genrm.folder / "ray.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'ray'\", name='ray')\n"
    )
    genrm.write("in.jsonl", make_rollouts())
    given = "score in.jsonl --base-url http://127.0.0.1:9/v1 --model m --ray local"
    path = f"{genrm.folder}:{genrm.environment()['PYTHONPATH']}"
    ended = genrm.run(*given.split(), PYTHONPATH=path).ended(2)
    assert "pip install '.[ray]'" in ended.err
