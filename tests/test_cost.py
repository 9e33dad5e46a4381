"""What 200 comparisons cost, counted and not timed, so that a machine's speed and load do not
matter.
"""

import asyncio
import gc
import json
import sqlite3
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
from genrm_process import Call, Genrm
from judge_server_fixture import JudgeServer
from served import judge_flags

import genrm_cli
from genrm_cli.neutralise import fold
from genrm_cli.serve.app import build_app
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.service import RewardService
from genrm_cli.settings import settings_from

GROUPS, SIZE = 20, 5  # 10 comparisons each
TURNS = 10  # at most in each session of the shipped scenarios
SLACK = 1.1
ATTEMPTS = 3  # replies that arrive one by one cost more, and not every run can have that misfortune
# how much of a run lies in memory at once depends on the machine's load; other counts hardly do
PEAK_SLACK = 1.5
PER_COMMIT = 4  # BEGIN, whether others wrote, own claims, COMMIT: not counted again
COUNTED = (
    "function calls",
    "SQL statements",
    "commits",
    "JSON parses",
    "hashes",
    "texts folded",
    "peak KB",
)
# Only calls of our own functions count: how often a library is called depends on how many replies
# arrive at once.
OWN_CODE = str(Path(genrm_cli.__file__).parent)
# What each kind of run costs now; lower a figure with what it counts. Replies that arrive together
# share a commit, so there are fewer commits than here on most machines; the peak is the largest of
# several runs.
COSTS = {
    "score": (104_800, 245, 80, 641, 616, 140, 4_900),
    "resume": (79_000, 33, 0, 443, 616, 140, 2_650),
    "serve": (96_000, 462, 80, 241, 421, 140, 10_700),
    "collect": (196_000, 450, 120, 210, 601, 0, 1_180),
}
_CODES = {json.loads.__code__: "JSON parses", fold.__code__: "texts folded"}
_BUILTINS = {"loads": "JSON parses", "digest": "hashes", "hexdigest": "hashes"}
_FILLER = " word" * 500
_CHAT = [
    "I see what you mean. What is it like at night?",
    "That sounds hard. Who in your life knows about it?",
]

Run = Callable[[str, int], None]


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count what all threads of this process do meanwhile."""
    costs: Counter[str] = Counter()
    open_file = sqlite3.connect

    def on_statement(statement: str) -> None:
        is_commit = statement.startswith("COMMIT")
        costs["commits"] += is_commit
        costs["SQL statements"] += 1 - PER_COMMIT * is_commit

    def connect(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection = open_file(*arguments, **named)
        connection.set_trace_callback(on_statement)
        return connection

    def on_call(frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            costs["function calls"] += frame.f_code.co_filename.startswith(OWN_CODE)
            if frame.f_code in _CODES:
                costs[_CODES[frame.f_code]] += 1
        elif event == "c_call" and function.__name__ in _BUILTINS:
            costs[_BUILTINS[function.__name__]] += 1

    gc.collect()
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connect)
        tracemalloc.start()
        threading.setprofile(on_call)
        sys.setprofile(on_call)
        try:
            yield costs
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            costs["peak KB"] = tracemalloc.get_traced_memory()[1] // 1_000
            tracemalloc.stop()


@pytest.fixture
def runs(call: Call, genrm: Genrm, judge_server: JudgeServer) -> dict[str, Run]:
    """Give a test the kinds of runs, each with a name for its files and a number of groups or
    turns.
    """
    judge_server.behave(analysis_chars=1_250, chat=_CHAT)
    flags = [
        *judge_flags(judge_server.base_url),
        "--no-probe",
        "--strategy",
        "all_pairs",
        "--concurrency",
        256,
    ]

    def score(name: str, groups: int) -> None:
        texts = [
            (group, f"{group}/{place}{_FILLER}") for group in range(groups) for place in range(SIZE)
        ]
        genrm.write(
            f"{name}.jsonl",
            [{"prompt": f"Question {group}?", "completion": text} for group, text in texts],
        )
        call(
            "score", f"{name}.jsonl", *flags, "--force", "-q", "--journal", f"{name}.sqlite"
        ).ended(0)

    async def serve_groups(name: str, groups: int) -> None:
        settings = settings_from(
            base_url=(judge_server.base_url,), model="judge", profile="nemotron", probe=False, strategy="all_pairs",  # noqa: E501
            concurrency=256, journal=f"{name}.sqlite",
        )  # fmt: skip
        async with ServedScorer(settings, {}) as scorer:
            app = httpx.ASGITransport(
                build_app(RewardService(scorer, settings.serve), scorer, settings.serve)
            )
            async with httpx.AsyncClient(
                transport=app, base_url="http://served", timeout=60
            ) as client:
                texts = (
                    [{"text": f"{group}/{place}{_FILLER}"} for place in range(SIZE)]
                    for group in range(groups)
                )
                bodies = [
                    {"id": f"g{n}", "messages": "Which?", "responses": each}
                    for n, each in enumerate(texts)
                ]
                replies = await asyncio.gather(
                    *(client.post("/v1/groups", json=body) for body in bodies)
                )
        assert {reply.json()["status"] for reply in replies} == {"scored"}

    def collect(name: str, turns: int) -> None:
        policy = ("--policy-base-url", judge_server.base_url, "--policy-model", "p", "--no-probe")
        ended = call(
            "collect",
            "samples",
            "-q",
            "-o",
            f"{name}.jsonl",
            *policy,
            "--episodes",
            1,
            "--max-turns",
            turns,
        )
        assert ended.code in (0, 6), ended.err

    return {
        "score": score,
        "resume": score,
        "serve": lambda name, groups: asyncio.run(serve_groups(name, groups)),
        "collect": collect,
    }


@pytest.mark.parametrize("kind", COSTS)
def test_200_comparisons_cost_no_more_than_they_did(runs, kind, monkeypatch):
    """Calls, statements, commits, parses, hashes and folds stay within a tenth above the known
    figures.
    """
    size = GROUPS if kind != "collect" else TURNS
    runs[kind]("warm", 2)  # what a process does once is not counted
    least = dict.fromkeys(COUNTED, sys.maxsize)
    for attempt in range(ATTEMPTS):
        name = f"counted {attempt}"
        if kind == "resume":
            runs[kind](name, size)
        with counting(monkeypatch) as costs:
            runs[kind](name, size)
        print(f'    "{kind}": {tuple(costs[name] for name in COUNTED)},')
        least = {name: min(costs[name], least[name]) for name in COUNTED}
        exceeded = {
            name: (least[name], known)
            for name, known in zip(COUNTED, COSTS[kind], strict=True)
            if least[name] > (PEAK_SLACK if name == "peak KB" else SLACK) * known
        }
        if not exceeded:
            break
    assert not exceeded
