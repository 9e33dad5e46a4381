"""Runs on a real Ray cluster of this machine; every process that a run starts ends with it."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from genrm_process import Finished, Genrm, make_rollouts
from judge_server_fixture import JudgeServer

pytestmark = pytest.mark.slow

LIMIT_S = 300
CONCURRENCY = 8
GROUPS, SIZE = 40, 3
ACTORS = ("ray::Limiter", "ray::Worker")


@pytest.fixture
def needs_ray() -> None:
    """Skip a test where Ray is not installed."""
    pytest.importorskip("ray", reason="needs ray: pip install 'genrm-cli[ray]'")


def arguments(judge: JudgeServer) -> tuple[str, ...]:
    """Return the command and the options of a run."""
    given = ("score", "in.jsonl", "--base-url", judge.base_url, "--model", "m", "--no-probe")
    return (*given, "--profile", "nemotron-plain", "--reask", "0", "--concurrency", str(CONCURRENCY))


def on_ray(judge: JudgeServer, shards: int) -> tuple[str, ...]:
    """Return the same on a local cluster of two workers."""
    return (*arguments(judge), "--ray", "local", "--ray-workers", "2", "--ray-shards", str(shards))


def scored_without_ray(genrm: Genrm, judge: JudgeServer, latency_s: float) -> bytes:
    """Write the input; return the scored lines of an undistributed run, and remove all that it wrote."""
    judge.behave(verdict="hash", latency_s=0.0)
    genrm.write("in.jsonl", make_rollouts(groups=GROUPS, size=SIZE))
    assert genrm.run(*arguments(judge), "-q").code == 0
    scored = (genrm.folder / "in.scored.jsonl").read_bytes()
    for name in genrm.names() - {"in.jsonl"}:
        (genrm.folder / name).unlink()
    judge.reset()
    judge.behave(verdict="hash", latency_s=latency_s)
    return scored


def finish(process: "subprocess.Popen[bytes]") -> Finished:
    """Wait for the end of a run."""
    out, err = process.communicate(timeout=LIMIT_S)
    assert b"Traceback" not in err, err.decode()
    return Finished(process.returncode, out, err.decode())


def iter_descendants(pid: int) -> Iterator[tuple[int, str]]:
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
                yield child, Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def kill_one(pid: int, title: str) -> None:
    """Kill an actor of a run as the kernel would."""
    os.kill(next(child for child, name in iter_descendants(pid) if name.startswith(title)), signal.SIGKILL)


def wait_for_end(pids: list[int]) -> None:
    """Wait until these processes are gone."""
    give_up_at = time.monotonic() + LIMIT_S
    while any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
        assert time.monotonic() < give_up_at, "actors are left"
        time.sleep(0.1)


def test_two_workers_give_the_outputs_of_a_single_run(needs_ray: None, genrm: Genrm, judge_server: JudgeServer) -> None:
    """Scored lines are equal byte by byte; the limit is kept, nothing is asked twice, stdout and stderr are ours."""
    whole = scored_without_ray(genrm, judge_server, 0.02)
    ended = finish(genrm.start(*on_ray(judge_server, 4), "--json"))
    assert ended.code == 0, ended.err
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == whole
    stats = judge_server.stats()
    assert stats["requests"] == GROUPS * SIZE
    assert stats["max_in_flight"] <= CONCURRENCY
    assert ended.out.count(b"\n") == 1
    assert ended.out.startswith(b"{")
    assert "ray" not in ended.err.lower().replace("--ray", "")


@pytest.mark.parametrize(("title", "shards"), [("ray::Limiter", 1), ("ray::Worker", 4)])
def test_a_killed_actor_costs_no_more_than_was_in_flight(
    needs_ray: None, genrm: Genrm, judge_server: JudgeServer, title: str, shards: int
) -> None:
    """Ray starts the limiter again, and a worker's shards go to another; outputs and limit are the same."""
    whole = scored_without_ray(genrm, judge_server, 0.3)
    process = genrm.start(*on_ray(judge_server, shards))
    judge_server.wait_until(lambda stats: stats["requests"] > 2 * CONCURRENCY, LIMIT_S)
    kill_one(process.pid, title)
    ended = finish(process)
    assert ended.code == 0, ended.err
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == whole
    stats = judge_server.stats()
    assert stats["max_in_flight"] <= CONCURRENCY
    assert stats["requests"] <= GROUPS * SIZE + CONCURRENCY
    assert ("died" in ended.err) == (title == "ray::Worker")


def test_a_killed_driver_takes_its_cluster_along_and_continues(
    needs_ray: None, genrm: Genrm, judge_server: JudgeServer
) -> None:
    """No actor outlives it for long, and the same command asks only what was not answered."""
    whole = scored_without_ray(genrm, judge_server, 0.3)
    process = genrm.start(*on_ray(judge_server, 4))
    judge_server.wait_until(lambda stats: stats["requests"] > 2 * CONCURRENCY, LIMIT_S)
    started = [pid for pid, title in iter_descendants(process.pid) if title.startswith(ACTORS)]
    process.kill()
    process.communicate(timeout=LIMIT_S)
    wait_for_end(started)
    assert started
    assert not (genrm.folder / "in.scored.jsonl").exists()
    judge_server.behave(verdict="hash", latency_s=0.0)
    ended = finish(genrm.start(*on_ray(judge_server, 4)))
    assert ended.code == 0, ended.err
    assert (genrm.folder / "in.scored.jsonl").read_bytes() == whole
    assert judge_server.stats()["requests"] <= GROUPS * SIZE + CONCURRENCY


def test_without_ray_the_extra_is_named(call: Callable[..., Finished], genrm: Genrm) -> None:
    """A user without Ray is told what to install, before anything is read."""
    (genrm.folder / "ray.py").write_text("raise ModuleNotFoundError(\"No module named 'ray'\", name='ray')\n")
    genrm.write("in.jsonl", make_rollouts())
    given = ("score", "in.jsonl", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--ray", "local")
    ended = genrm.run(*given, PYTHONPATH=f"{genrm.folder}:{genrm.environment()['PYTHONPATH']}")
    assert ended.code == 2
    assert "pip install 'genrm-cli[ray]'" in ended.err
