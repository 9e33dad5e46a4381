"""Faults around a server: its judge, its clients and itself end in the middle of things."""

import os
import random
import re
import statistics
import time

import pytest
from served import judge_flags, serving, texts

SOAK_S = float(os.environ.get("GENRM_SOAK_S", "0"))


def verdicts(served):
    """Return the comparisons that have a verdict."""
    found = re.search(r'^genrm_comparisons_total\{result="verdict"\} (\S+)', served.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def members(served, group, places, size, **fields):
    """Send members of a cohort, each in a thread of its own."""
    given = texts(size, group)
    return [
        served.begin_member(group, place, **{"size": size, "messages": "Why?", "text": given[place], **fields})
        for place in places
    ]


@pytest.mark.slow
def test_a_killed_server_pays_for_nothing_twice(genrm, judge_server):
    """In mid-cohort, with verdicts in its journal: all clients retry, and the judge is asked once a comparison."""
    flags = [*judge_flags(judge_server.base_url), "--no-probe", "--strategy", "all_pairs", "--drain", "1s"]
    with serving(genrm, *flags) as served:
        members(served, "g", range(5), 6)
        while verdicts(served) < 10:
            time.sleep(0.01)
        served.kill()
    with serving(genrm, *flags) as served:
        replies = [each.json() for each in members(served, "g", range(6), 6)]
    assert [reply["group_status"] for reply in replies] == ["scored"] * 6
    assert replies[0]["metrics"]["from_journal"] == 10
    assert judge_server.stats()["requests"] == 15


@pytest.mark.slow
def test_a_judge_that_restarts_in_mid_cohort_costs_no_reward(genrm, start_judge):
    """Comparisons that were in flight or come while it is down are retried until it is back."""
    judge = start_judge()
    judge.behave(latency_s=0.5)
    flags = [*judge_flags(judge.base_url), "--no-probe", "--strategy", "all_pairs", "--drain", "1s"]
    with serving(genrm, *flags) as served:
        first = members(served, "g", range(4), 8)
        judge.wait_until(lambda stats: stats["requests"] >= 1, 300)
        judge.kill()
        rest = members(served, "g", range(4, 8), 8)
        judge.restart()
        replies = [each.json() for each in (*first, *rest)]
    assert [reply["group_status"] for reply in replies] == ["scored"] * 8


@pytest.mark.slow
def test_disorder_changes_no_reward(genrm, judge_server):
    """Members in any order, some twice, some of whose clients leave first: the rewards of a cohort in good order.

    Padding copies repeat a member, as verl's do; one cohort lacks a member, which comes late.
    """
    generator = random.Random(5)
    flags = [*judge_flags(judge_server.base_url), "--no-probe", "--drain", "1s"]
    with serving(genrm, *flags, "--journal", "orderly.sqlite") as served:
        orderly = [[each.json()["reward"] for each in members(served, f"g{n}", range(6), 6)] for n in range(4)]
    with serving(genrm, *flags, "--journal", "disorderly.sqlite") as served:
        for number, rewards in enumerate(orderly):
            places = [*range(6), generator.randrange(6), generator.randrange(6)]
            generator.shuffle(places)
            waiting = []
            for place in places:
                waiting += members(served, f"g{number}", [place], 6)
                time.sleep(generator.random() / 50)
            found = {each.json()["id"]: each.json()["reward"] for each in waiting}
            assert [found[str(place)] for place in range(6)] == pytest.approx(rewards)
        partial = members(served, "late", range(5), 6, deadline_s=0.5)
        assert {each.json()["group_status"] for each in partial} == {"partial"}
        assert members(served, "late", [5], 6)[0].json()["reward"] is not None


@pytest.mark.slow
@pytest.mark.skipif(not SOAK_S, reason="set GENRM_SOAK_S to the seconds of the soak, for example 600")
@pytest.mark.timeout(0)
def test_a_long_run_does_not_grow(genrm, judge_server):
    """Cohorts whole, partial and late, groups and repeats, without end: memory and descriptors stay as they are."""
    flags = [*judge_flags(judge_server.base_url), "--no-probe", "--record", "served", "--record-every", "2s"]
    generator, memory, number = random.Random(1), [], 0
    with serving(genrm, *flags, "--keep", "4s", "--drain", "1s") as served:
        ends_s = time.monotonic() + SOAK_S
        while time.monotonic() < ends_s:
            number += 1
            size = generator.choice([2, 4, 8])
            served.group(id=f"g{number}", messages=f"Why {number}?", responses=[{"text": t} for t in texts(size)])
            missing = generator.random() < 0.1
            waiting = members(served, f"c{number}", range(size - missing), size, deadline_s=0.3 if missing else 60)
            assert [each.reply().status_code for each in waiting] == [200] * len(waiting)
            if number % 50 == 0:
                page = served.get("/metrics").text
                memory.append(float(re.search(r"^process_resident_memory_bytes (\S+)", page, re.MULTILINE)[1]))
    quarter = len(memory) // 4
    early, late = statistics.median(memory[quarter : 2 * quarter]), statistics.median(memory[-quarter:])
    print(f"{number} rounds; resident memory {early / 1e6:.0f} MB, at the end {late / 1e6:.0f} MB")
    assert late < 1.1 * early
