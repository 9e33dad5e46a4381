"""Measure `genrm serve`: CPU a comparison against `genrm score`, and thousands of cohorts that wait at once.

python tests/bench/serve_load.py cpu|asgi; never run by the test suite.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serve"))

import httpx
from genrm_process import Genrm
from judge_server_fixture import JudgeServer
from served import Served, judge_flags

from genrm_cli.serve.http.endpoints import build_app
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.service import RewardService
from genrm_cli.settings import Settings, settings_from

RESPONSE_CHARS = 2_900
_FILLER = "word " * (RESPONSE_CHARS // 5)


def text_of(group: int, place: int) -> str:
    """Return a response; all differ in their beginnings."""
    return f"{group}/{place} {_FILLER}"


class Connection(asyncio.Protocol):
    """One keep-alive connection: a request, its reply."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._reply: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if found and length and len(body) >= int(length[1]) and self._reply is not None:
            self._received.clear()
            self._reply.set_result((int(head[9:12]), bytes(body)))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionError(str(exc)))

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request and wait for its reply."""
        self._reply = asyncio.get_running_loop().create_future()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)
        return await self._reply


async def connect(port: int, number: int) -> Connection:
    """Open a connection; 20,000 of each of many loopback addresses, as ports of one are too few."""
    source = (f"127.0.1.{1 + number // 20_000}", 0)
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port, local_addr=source)
    return connection


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """Return the largest memory of a process so far."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1e3 if found else 0.0


def member_body(group: int, place: int, size: int) -> bytes:
    """Return the request of a member."""
    return json.dumps({"size": size, "messages": "Which is better?", "text": text_of(group, place)}).encode()


async def post_groups(port: int, groups: int, size: int, at_once: int) -> None:
    """Post whole groups, so many at once."""
    numbers = iter(range(groups))

    async def work(number: int) -> None:
        connection = await connect(port, number)
        for group in numbers:
            responses = [{"text": text_of(group, place)} for place in range(size)]
            body = json.dumps({"id": f"g{group}", "messages": "Which is better?", "responses": responses}).encode()
            status, reply = await connection.post("/v1/groups", body)
            assert status == 200, reply
            assert json.loads(reply)["status"] == "scored", reply[:500]

    await asyncio.gather(*(work(number) for number in range(at_once)))


async def post_members(port: int, groups: int, size: int, at_once: int) -> None:
    """Post members one by one, so many cohorts at once."""
    numbers = iter(range(groups))

    async def work(number: int) -> None:
        connections = [await connect(port, number * size + place) for place in range(size)]
        for group in numbers:
            posts = [
                connection.post(f"/v1/cohorts/c{group}/members/{place}", member_body(group, place, size))
                for place, connection in enumerate(connections)
            ]
            for status, reply in await asyncio.gather(*posts):
                assert status == 200, reply
                assert json.loads(reply)["reward"] is not None, reply[:500]

    await asyncio.gather(*(work(number) for number in range(at_once)))


def bench_cpu(groups: int, size: int) -> None:
    """Print the CPU time a comparison of `genrm score` and of both endpoints."""
    with tempfile.TemporaryDirectory() as folder, judging() as judge:
        genrm = Genrm(Path(folder) / "work")
        genrm.folder.mkdir()
        flags = [*judge_flags(judge.base_url), "--no-probe"]
        fewer, more = (_score_cpu_s(genrm, count, size, flags) for count in (groups // 4, groups))
        score_ms = 1e3 * (more - fewer) / ((groups - groups // 4) * size)
        print(f"genrm score               {score_ms:.3f} ms of CPU time a comparison, start and end left out")
        for name, post in (("/v1/groups", post_groups), ("/v1/cohorts", post_members)):
            journal = f"{name[4:]}.sqlite"
            with serving_here(genrm, *flags, "--journal", journal) as served:
                port = httpx.URL(served.url).port
                assert port is not None
                asyncio.run(post(port, 20, size, 4))  # warm
                begun = cpu_of(served.pid)
                shifted = asyncio.run(timed(post, port, groups, size))
                cpu_ms = 1e3 * (cpu_of(served.pid) - begun) / ((groups - 20) * size)
                print(
                    f"genrm serve, {name:<12} {cpu_ms:.3f} ms, {cpu_ms / score_ms:.2f} times score's, {shifted:.1f} s"
                )


def _score_cpu_s(genrm: Genrm, groups: int, size: int, flags: list[str]) -> float:
    lines = [
        {"prompt": "Which is better?", "completion": text_of(group, place), "prompt_id": f"g{group}"}
        for group in range(groups)
        for place in range(size)
    ]
    genrm.write("rollouts.jsonl", lines)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = genrm.run("score", "rollouts.jsonl", *flags, "--force", "--journal", f"score-{groups}.sqlite")
    assert ended.code == 0, ended.err
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def timed(post: Any, port: int, groups: int, size: int) -> float:
    """Run a load; the seconds it took."""
    started = time.perf_counter()
    await post(port, groups, size, 32)
    return time.perf_counter() - started


async def post_here(app: Any, path: str, body: bytes) -> tuple[int, bytes]:
    """Make a request without a socket: what uvicorn would hand to the application."""
    status, parts, has_sent = 0, [], False

    async def receive() -> dict[str, Any]:
        nonlocal has_sent
        if has_sent:
            await asyncio.Event().wait()
        has_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    await app(scope | {"root_path": "", "scheme": "http", "http_version": "1.1"}, receive, send)
    return status, b"".join(parts)


def bench_asgi(cohorts: int, size: int, rate: float) -> None:
    """Print what cohorts cost that are open at once, and how soon each is answered, in one process without sockets."""
    with tempfile.TemporaryDirectory() as folder, judging() as judge:
        settings = settings_from(
            base_url=(judge.base_url,),
            model="judge",
            profile="nemotron",
            probe=False,
            journal=f"{folder}/journal.sqlite",
        )
        asyncio.run(_hold_here(settings, cohorts, size, rate))


async def _hold_here(settings: Settings, cohorts: int, size: int, rate: float) -> None:
    pauses: list[float] = []
    begun = 0.0

    def watch(phase: str, info: dict[str, int]) -> None:
        nonlocal begun
        if phase == "start":
            begun = time.perf_counter()
        elif info["generation"] == 2:
            pauses.append(time.perf_counter() - begun)

    gc.callbacks.append(watch)
    async with ServedScorer(settings, {}) as scorer:
        app = build_app(RewardService(scorer, settings.serve), scorer, settings.serve)

        def post(cohort: int, place: int) -> asyncio.Task[tuple[int, bytes]]:
            path = f"/v1/cohorts/w{cohort}/members/{place}"
            return asyncio.ensure_future(post_here(app, path, member_body(cohort, place, size)))

        waiting = []
        for cohort in range(cohorts):
            waiting.append([post(cohort, place) for place in range(size - 1)])
            await asyncio.sleep(0)
        while scorer.metrics.verdicts < cohorts * (size - 2):
            await asyncio.sleep(0.5)
        print(f"{cohorts * (size - 1)} requests wait, peak memory {peak_mb(os.getpid()):.0f} MB, clients included")
        overheads: list[float] = []

        async def complete(cohort: int) -> None:
            started = time.perf_counter()
            for each in [*waiting[cohort], post(cohort, size - 1)]:
                status, reply = await each
                assert status == 200, reply
                overheads.append(time.perf_counter() - started)

        tasks = []
        for cohort in range(cohorts):
            tasks.append(asyncio.ensure_future(complete(cohort)))
            await asyncio.sleep(1 / rate)
        await asyncio.gather(*tasks)
        quantiles = statistics.quantiles(overheads, n=100)
        print(f"collections of the oldest generation: {len(pauses)}, longest {1e3 * max(pauses, default=0):.0f} ms")
        print(f"{len(overheads)} answered; median {1e3 * quantiles[49]:.0f} ms, p99 {1e3 * quantiles[98]:.0f} ms")
        print(f"peak memory {peak_mb(os.getpid()):.0f} MB, clients included")


@contextlib.contextmanager
def judging() -> Iterator[JudgeServer]:
    """Keep a judge that answers at once."""
    judge = JudgeServer()
    judge.start()
    try:
        yield judge
    finally:
        judge.stop()


@contextlib.contextmanager
def serving_here(genrm: Genrm, *flags: str) -> Iterator[Served]:
    """Keep a server."""
    served = Served(genrm, *flags)
    try:
        yield served
    finally:
        served.kill()


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cpu", "asgi"])
    parser.add_argument("--cohorts", type=int, default=2_000)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--rate", type=float, default=20.0, help="cohorts completed a second")
    given = parser.parse_args()
    if given.what == "asgi":
        bench_asgi(given.cohorts, given.size, given.rate)
    else:
        bench_cpu(min(given.cohorts, 400), given.size)


if __name__ == "__main__":
    main()
