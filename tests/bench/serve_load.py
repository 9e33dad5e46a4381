"""Measure `genrm serve` and print the figures as JSON: run by `run.py`, as `serve_load.py cpu` and
`asgi`.
"""

import asyncio
import json
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from genrm_process import Genrm
from judge_server_fixture import JudgeServer
from pyreqwest.client import ClientBuilder
from served import Served, judge_flags

from genrm_cli.serve.app import build_app
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.service import RewardService
from genrm_cli.settings import Settings, settings_from

GROUPS = 300
COHORTS = 2_000
SIZE = 16
AT_ONCE = 32
COHORTS_PER_S = 40
_PROMPT = "Which is better?"
_FILLER = "word " * 580


def text_of(group: int, place: int) -> str:
    """Return a response of 2.9 KB; all differ in their beginnings."""
    return f"{group}/{place} {_FILLER}"


def member_of(group: int, place: int) -> dict[str, Any]:
    """Return the request of a member."""
    return {"size": SIZE, "messages": _PROMPT, "text": text_of(group, place)}


async def post_groups(url: str, first: int, groups: int, *, whole: bool) -> None:
    """Post groups, so many at once: whole, or member by member."""
    numbers = iter(range(first, first + groups))
    # httpx goes through the list of all connections at each request: minutes for the hundreds of
    # members at once.
    async with ClientBuilder().pool_idle_timeout(timedelta(hours=1)).build() as client:

        async def post(path: str, body: dict[str, Any]) -> None:
            reply = (
                await client.post(url + path).body_bytes(json.dumps(body).encode()).build().send()
            )
            assert (await reply.json())["status"] == "scored", await reply.text()

        async def work() -> None:
            for group in numbers:
                if whole:
                    responses = [{"text": text_of(group, place)} for place in range(SIZE)]
                    await post(
                        "/v1/groups",
                        {"id": f"g{group}", "messages": _PROMPT, "responses": responses},
                    )
                else:
                    path = f"/v1/cohorts/c{group}/members"
                    await asyncio.gather(
                        *(post(f"{path}/{place}", member_of(group, place)) for place in range(SIZE))
                    )

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def measure_cpu(judge: JudgeServer, folder: Path) -> dict[str, float]:
    """Return the CPU time a comparison of both endpoints, relative to that of `genrm score`."""
    genrm = Genrm(folder / "work")
    genrm.folder.mkdir()
    flags = [*judge_flags(judge.base_url), "--no-probe"]
    fewer_s, more_s = (_score_cpu_s(genrm, count, flags) for count in (GROUPS // 4, GROUPS))
    score_ms = 1e3 * (more_s - fewer_s) / ((GROUPS - GROUPS // 4) * SIZE)
    figures = {"score_ms": score_ms}
    for name in ("groups", "cohorts"):
        served = Served(genrm, *flags, "--journal", f"{name}.sqlite")
        try:
            asyncio.run(post_groups(served.url, 0, 20, whole=name == "groups"))  # warm
            begun_s = _cpu_s(served.pid)
            asyncio.run(post_groups(served.url, 20, GROUPS, whole=name == "groups"))
            figures[name] = 1e3 * (_cpu_s(served.pid) - begun_s) / (GROUPS * SIZE) / score_ms
        finally:
            served.kill()
    return figures


def _score_cpu_s(genrm: Genrm, groups: int, flags: list[Any]) -> float:
    lines = [
        {"prompt": _PROMPT, "completion": text_of(group, place), "prompt_id": f"g{group}"}
        for group in range(groups)
        for place in range(SIZE)
    ]
    genrm.write("rollouts.jsonl", lines)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = genrm.run(
        "score", "rollouts.jsonl", *flags, "--force", "--journal", f"score-{groups}.sqlite"
    )
    assert ended.code == 0, ended.err
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def post_here(app: Any, path: str, body: bytes) -> int:
    """Make a request without a socket: what uvicorn would hand to the application; return its
    status.
    """
    statuses: list[int] = []
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        message = next(messages, None)
        return message if message is not None else await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
    }
    scope |= {"headers": [], "root_path": "", "scheme": "http", "http_version": "1.1"}
    await app(scope, receive, send)
    return statuses[0]


def measure_asgi(judge: JudgeServer, folder: Path) -> dict[str, float]:
    """Return how soon members are answered of whom 30,000 wait in one process without sockets, and
    its memory.
    """
    settings = settings_from(
        base_url=(judge.base_url,),
        model="judge",
        profile="nemotron",
        probe=False,
        journal=f"{folder}/journal.sqlite",
    )
    delays_s = asyncio.run(_hold_here(settings))
    quantiles = statistics.quantiles(delays_s, n=100)
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+)", status)
    assert peak is not None
    return {
        "median_ms": 1e3 * quantiles[49],
        "p99_ms": 1e3 * quantiles[98],
        "peak_mb": int(peak[1]) / 1e3,
    }


async def _hold_here(settings: Settings) -> list[float]:
    delays_s: list[float] = []
    async with ServedScorer(settings, {}) as scorer:
        app = build_app(RewardService(scorer, settings.serve), scorer, settings.serve)

        def post(cohort: int, place: int) -> asyncio.Task[int]:
            body = json.dumps(member_of(cohort, place)).encode()
            return asyncio.ensure_future(
                post_here(app, f"/v1/cohorts/w{cohort}/members/{place}", body)
            )

        async def complete(cohort: int) -> None:
            started_s = time.perf_counter()
            for each in [*waiting[cohort], post(cohort, SIZE - 1)]:
                assert await each == 200
                delays_s.append(time.perf_counter() - started_s)

        waiting = []
        for cohort in range(COHORTS):
            waiting.append([post(cohort, place) for place in range(SIZE - 1)])
            await asyncio.sleep(0)
        while scorer.metrics.verdicts < COHORTS * (SIZE - 2):
            await asyncio.sleep(0.5)
        tasks = []
        for cohort in range(COHORTS):
            tasks.append(asyncio.ensure_future(complete(cohort)))
            await asyncio.sleep(1 / COHORTS_PER_S)
        await asyncio.gather(*tasks)
    return delays_s


def main() -> None:
    """Run one of the measurements."""
    judge = JudgeServer()
    judge.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure = {"cpu": measure_cpu, "asgi": measure_asgi}[sys.argv[1]]
            print(json.dumps(measure(judge, Path(folder))))
    finally:
        judge.stop()


if __name__ == "__main__":
    main()
