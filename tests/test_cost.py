"""What comparisons and turns cost, counted and not timed: statements, parses and hashes."""

import asyncio
import json
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager

import httpx
import pytest
from served import judge_flags

from genrm_cli.neutralise.forms import fold
from genrm_cli.products.serve.serve_app import build_app
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.products.serve.service import RewardService
from genrm_cli.settings import settings_from

GROUPS = 20
SIZE = 5
TURNS = 10  # at most in each session of the shipped scenarios
SLACK = 1.1
ATTEMPTS = 3  # replies that arrive one by one cost more, and not every run can have that misfortune
PER_COMMIT = 2  # BEGIN and COMMIT: not counted again
COUNTED = (
    "SQL statements",
    "commits",
    "JSON parses",
    "hashes",
    "texts folded",
)
# What 200 comparisons, or the turns of the shipped scenarios, cost now; lower a figure with what it
# counts. Replies that arrive together share a commit, so there are fewer commits on most machines.
COSTS = {
    "score": (245, 80, 641, 616, 140),
    "resume": (33, 0, 665, 616, 140),
    "serve": (462, 80, 241, 421, 140),
    "collect": (450, 120, 210, 601, 0),
}
SLOW = ("resume", "serve")  # what they cost beside `score` is mostly the same
_CODES = {json.loads.__code__: "JSON parses", fold.__code__: "texts folded"}
_BUILTINS = {
    "loads": "JSON parses",
    "digest": "hashes",
    "hexdigest": "hashes",
}
_FILLER = " word" * 500
_CHAT = [
    "I see what you mean. What is it like at night?",
    "That sounds hard. Who in your life knows about it?",
]

Run = Callable[[str, int], None]


@contextmanager
def counting(monkeypatch):
    """Count what all threads of this process do meanwhile."""
    costs = Counter()
    open_file = sqlite3.connect

    def on_statement(statement):
        is_commit = statement.startswith("COMMIT")
        costs["commits"] += is_commit
        costs["SQL statements"] += 1 - PER_COMMIT * is_commit

    def connect(*arguments, **named):
        connection = open_file(*arguments, **named)
        connection.set_trace_callback(on_statement)
        return connection

    def on_call(frame, event, function):
        if event == "call":
            if frame.f_code in _CODES:
                costs[_CODES[frame.f_code]] += 1
        elif event == "c_call" and function.__name__ in _BUILTINS:
            costs[_BUILTINS[function.__name__]] += 1

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connect)
        threading.setprofile(on_call)
        sys.setprofile(on_call)
        try:
            yield costs
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def texts_of(group):
    """Make up the responses of a group."""
    return [f"{group}/{place}{_FILLER}" for place in range(SIZE)]


@pytest.fixture
def runs(call, genrm, judge_server):
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

    def score(name, groups):
        lines = []
        for group in range(groups):
            prompt = f"Question {group}?"
            lines += [{"prompt": prompt, "completion": text} for text in texts_of(group)]
        genrm.write(f"{name}.jsonl", lines)
        journal = ("--journal", f"{name}.sqlite")
        call("score", f"{name}.jsonl", *flags, "--force", "-q", *journal).ended(0)

    async def serve_groups(name, groups):
        settings = settings_from(
            base_url=(judge_server.base_url,),
            model="judge",
            profile="nemotron",
            probe=False,
            strategy="all_pairs",
            concurrency=256,
            journal=f"{name}.sqlite",
        )
        bodies = []
        for group in range(groups):
            responses = [{"text": text} for text in texts_of(group)]
            bodies.append(
                {
                    "id": f"g{group}",
                    "messages": "Which?",
                    "responses": responses,
                }
            )
        async with ServedScorer(settings, {}) as scorer:
            service = RewardService(scorer, settings.serve)
            app = httpx.ASGITransport(build_app(service, settings.serve))
            async with httpx.AsyncClient(
                transport=app, base_url="http://localhost", timeout=60
            ) as client:
                posts = [client.post("/v1/groups", json=body) for body in bodies]
                replies = await asyncio.gather(*posts)
        assert {reply.json()["status"] for reply in replies} == {"scored"}

    def collect(name, turns):
        policy = (
            "--policy-base-url",
            judge_server.base_url,
            "--policy-model",
            "p",
            "--no-probe",
        )
        size = ("--episodes", 1, "--max-turns", turns)
        ended = call("collect", "samples", "-q", "-o", f"{name}.jsonl", *policy, *size)
        assert ended.code in (0, 6), ended.err

    return {
        "score": score,
        "resume": score,
        "serve": lambda name, groups: asyncio.run(serve_groups(name, groups)),
        "collect": collect,
    }


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in COSTS]
)
def test_comparisons_cost_no_more_than_they_did(runs, kind, monkeypatch):
    """Statements, commits, parses, hashes and folds stay within a tenth above the known figures."""
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
        known = dict(zip(COUNTED, COSTS[kind], strict=True))
        exceeded = {name: least[name] for name in COUNTED if least[name] > SLACK * known[name]}
        if not exceeded:
            break
    assert not exceeded, known
