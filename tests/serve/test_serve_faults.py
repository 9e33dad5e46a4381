"""Faults around a server: its judge, its clients and itself end in the middle of things."""

import random
import re
import time

import pytest
from served import judge_flags, serving, texts


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
