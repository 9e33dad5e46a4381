"""Measure what a trainer sees of `genrm serve` and of NeMo Gym's own server, through sockets and in
turn: run by `run.py`, it prints the figures as JSON. Cohorts of 8 are judged in one ring.

It needs an environment with nemo-gym, whose python NEMO_GYM_PYTHON names.
"""

import asyncio
import contextlib
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import ConnectError, ConnectTimeoutError
from pyreqwest.response import Response
from served import judge_flags, verify_row

COHORTS_PER_S = 40
SIZE = 8  # rollouts of a cohort, as trainers sample
IDLE_TURNS = 10
IDLE_COHORTS = 20  # one after another, of a turn
IN_FLIGHT = (64, 128, 256, 512)  # cohorts
EXTRA_COHORTS = 128  # beyond those that are in flight at first
RATED_COHORTS = 300
GYM_PYTHON = os.environ.get("NEMO_GYM_PYTHON", ".venv-loaders/bin/python")
_JSON = ("Content-Type", "application/json")
_FILLER = "word " * 580


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: str) -> dict[str, float]:
    """Start both servers in a folder, and return the figures of each."""
    judge_port, genrm_port, gym_port = _free_ports(3)
    here = Path(__file__).parent
    judge = [sys.executable, here / "instant_judge.py", judge_port]
    gym = [GYM_PYTHON, here / "gym_server.py", gym_port, judge_port, SIZE]
    flags = ("--strategy", "circular", "--cohort-size", SIZE, "--max-cohorts", 1_000_000)
    genrm = [sys.executable, "-m", "genrm_cli", "serve", "--listen", f"127.0.0.1:{genrm_port}"]
    genrm += [*judge_flags(f"http://127.0.0.1:{judge_port}/v1"), "--no-probe", *flags, "-q"]
    genrm += ["--journal", "served.sqlite"]  # that of another run would know the answers
    with contextlib.ExitStack() as started:

        def start(command: list[Any]) -> int:
            # What a server prints is not to stand beside the figures.
            process = subprocess.Popen(list(map(str, command)), cwd=folder, stdout=sys.stderr)
            started.callback(process.wait)
            started.callback(process.kill)
            return process.pid

        start(judge)
        servers = {"genrm": (genrm_port, start(genrm)), "gym": (gym_port, start(gym))}
        return asyncio.run(_load(servers))


def _free_ports(count: int) -> list[int]:
    """Return ports that no connection gets by chance before a server listens on them."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    free = []
    for port in range(first - 1, 1_024, -1):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            free.append(port)
        if len(free) == count:
            break
    return free


async def _load(servers: dict[str, tuple[int, int]]) -> dict[str, float]:
    """Load servers, given with their ports and process ids, in turn."""
    figures: dict[str, float] = {}
    cpu_s = dict.fromkeys(servers, 0.0)
    errors = dict.fromkeys(servers, 0)
    serial = itertools.count()
    # NeMo Gym's server closes a connection that was idle for five seconds, as all are while the
    # other server is loaded. One that is closed while it is being used again would be an error.
    async with ClientBuilder().pool_idle_timeout(timedelta(seconds=2)).build() as client:

        async def send(url: str, body: bytes) -> Response:
            while True:
                try:
                    return await client.post(url).body_bytes(body).header(*_JSON).build().send()
                except (ConnectError, ConnectTimeoutError):  # as NeMo Gym's client does
                    await asyncio.sleep(0.5)

        async def send_cohort(port: int) -> float:
            task = next(serial)
            name = next(name for name, (own, _) in servers.items() if own == port)
            url = f"http://127.0.0.1:{port}/verify"
            asked = f"Question {task}?"
            rows = [
                # 2.9 KB; all differ in their beginnings.
                verify_row(place, f"{task}/{place} {_FILLER}", asked, _ng_task_index=task)
                for place in range(SIZE)
            ]
            bodies = [json.dumps(row).encode() for row in rows]
            begun_s = time.perf_counter()
            for reply in await asyncio.gather(*(send(url, body) for body in bodies)):
                # A server that cannot bear the load is a result, not the end of the measurement.
                errors[name] += reply.status != 200 or "reward" not in await reply.json()
            return time.perf_counter() - begun_s

        async def send_many(port: int, cohorts: int, at_once: int) -> None:
            numbers = iter(range(cohorts))

            async def work() -> None:
                for _ in numbers:
                    await send_cohort(port)

            await asyncio.gather(*(work() for _ in range(at_once)))

        for port, _ in servers.values():
            await send_many(port, 32, 8)  # once it listens, and warm from then on
        idle_s: dict[str, list[float]] = {name: [] for name in servers}
        idle_cpu_s = dict.fromkeys(servers, 0.0)
        for _ in range(IDLE_TURNS):
            for name, (port, pid) in servers.items():
                idle_cpu_s[name] -= _cpu_s(pid)
                idle_s[name] += [await send_cohort(port) for _ in range(IDLE_COHORTS)]
                idle_cpu_s[name] += _cpu_s(pid)
        for name, took_s in idle_s.items():
            figures[f"{name}_idle_ms"] = 1e3 * statistics.median(took_s)
            figures[f"{name}_idle_cpu_ms"] = 1e3 * idle_cpu_s[name] / len(took_s)
        for at_once in IN_FLIGHT:
            for name, (port, pid) in servers.items():
                cohorts = at_once + EXTRA_COHORTS
                begun_s = time.perf_counter()
                cpu_s[name] -= _cpu_s(pid)
                await send_many(port, cohorts, at_once)
                cpu_s[name] += _cpu_s(pid)
                rate = SIZE * cohorts / (time.perf_counter() - begun_s)
                figures[f"{name}_rate_{at_once}"] = rate
        rollouts = SIZE * (sum(IN_FLIGHT) + len(IN_FLIGHT) * EXTRA_COHORTS)
        figures |= {f"{name}_cpu_ms": 1e3 * spent_s / rollouts for name, spent_s in cpu_s.items()}
        for name, (port, _) in servers.items():
            tasks = []
            for _ in range(RATED_COHORTS):
                tasks.append(asyncio.ensure_future(send_cohort(port)))
                await asyncio.sleep(1 / COHORTS_PER_S)
            quantiles = statistics.quantiles(await asyncio.gather(*tasks), n=100)
            figures[f"{name}_median_ms"] = 1e3 * quantiles[49]
            figures[f"{name}_p99_ms"] = 1e3 * quantiles[98]
    return figures | {f"{name}_errors": float(count) for name, count in errors.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(folder)))
