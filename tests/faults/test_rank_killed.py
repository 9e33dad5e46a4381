"""Ranking, killed again and again: the leaderboard is that of an undisturbed run."""

import json

from genrm_process import Genrm

IN_FLIGHT = 8
KILLS = 3
PROMPTS = 24
PLANNED = 3 * PROMPTS * 2


def without_calls(out):
    """Return a leaderboard without the counts of what each run has asked."""
    ranking = json.loads(out)
    assert ranking.pop("calls") + ranking.pop("known") == PLANNED
    return ranking


def test_kills_cost_only_what_was_in_flight(tmp_path, judge_server):
    """Killed at three moments, the same command asks what has no verdict, and ranks alike."""
    for folder in ("calm", "killed"):
        (tmp_path / folder).mkdir()
        for name in ("weak", "middle", "strong"):
            lines = [{"prompt": f"Q{n}?", "response": f"{name} answer {n}"} for n in range(PROMPTS)]
            Genrm(tmp_path / folder).write(f"{name}.jsonl", lines)
    judge_server.behave(verdict="hash", latency_s=0.05)
    command = ("rank", "weak.jsonl", "middle.jsonl", "strong.jsonl", *judge_server.flags)
    command += ("--no-probe", "--concurrency", IN_FLIGHT, "--json")
    calm = Genrm(tmp_path / "calm").run(*command).ended(0)
    before = judge_server.stats()["requests"]
    assert before == PLANNED
    genrm = Genrm(tmp_path / "killed")
    for kill in range(1, KILLS + 1):
        process = genrm.start(*command)
        goal = before + PLANNED * kill // (KILLS + 1)
        judge_server.wait_until(lambda stats, goal=goal: stats["requests"] >= goal, limit_s=300)
        process.kill()
        process.communicate()
    ended = genrm.run(*command).ended(0)
    assert without_calls(ended.out) == without_calls(calm.out)
    assert judge_server.stats()["requests"] - before <= PLANNED + KILLS * IN_FLIGHT
