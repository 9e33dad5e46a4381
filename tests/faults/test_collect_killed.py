"""Collecting, killed again and again: no turn is paid twice beyond those in flight, and nothing is
lost.
"""

import json

from disturbed_scoring import count_verdicts
from genrm_process import Genrm, read_lines

IN_FLIGHT = 8
KILLS = 5
CHAT = [
    "That sounds hard, and I see what you mean about the evenings.",
    "Who else knows about it, and what do they say?",
    "It makes sense that you are tired after all that.",
    "What would you like to be different by next week?",
    "I would like to hear more about how it began.",
]


def without_time(path):
    """Read records without the time at which their run began."""
    return [
        line | {"metadata": line["metadata"] | {"created_at": None}} for line in read_lines(path)
    ]


def test_kills_cost_only_what_was_in_flight(tmp_path, judge_server):
    """Killed at five moments, a run goes on in mid-session; its records equal those of an
    undisturbed run.
    """
    judge_server.behave(chat=CHAT, latency_s=0.02)
    genrm = Genrm(tmp_path)
    command = (
        f"collect samples --policy-base-url {judge_server.base_url} --policy-model p --no-probe "
        f"--concurrency {IN_FLIGHT} --episodes 2 --max-turns 6 --run-id one",
        "-o",
    )
    genrm.run(*command, "calm.jsonl").ended(0)
    calls = judge_server.stats()["requests"]
    judge_server.behave(chat=CHAT, latency_s=0.02)
    before = judge_server.stats()["requests"]
    journal = tmp_path / "killed.turns.sqlite"
    lost = 0
    for kill in range(1, KILLS + 1):
        goal = before + lost + calls * kill // (KILLS + 4)
        answered = goal - judge_server.stats()["requests"]
        # After them, silence: however late the kill comes, the run is in the middle.
        judge_server.behave(chat=CHAT, latency_s=0.02, script=[{}] * answered, fault={"hang": True})
        process = genrm.start(*command, "killed.jsonl")
        judge_server.wait_until(lambda stats, goal=goal: stats["requests"] >= goal, limit_s=300)
        process.kill()
        process.communicate()
        asked = judge_server.wait_until(lambda stats: stats["in_flight"] == 0)["requests"] - before
        lost_now = asked - count_verdicts(journal)
        # In flight, or answered within one turn of the event loop, at whose end it is committed;
        # other sessions have asked in the meantime.
        assert 0 <= lost_now - lost <= 2 * IN_FLIGHT
        lost = lost_now
        assert not (tmp_path / "killed.jsonl").exists()
    judge_server.behave(chat=CHAT, latency_s=0.02)
    genrm.run(*command, "killed.jsonl").ended(0)
    assert judge_server.stats()["requests"] - before == calls + lost
    assert without_time(tmp_path / "killed.jsonl") == without_time(tmp_path / "calm.jsonl")
    summary = json.loads((tmp_path / "killed.collect.json").read_bytes())
    assert summary["partial"] is False
    assert summary["episodes_written"] == 24
