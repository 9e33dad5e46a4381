"""A judge of lists that fails with every list: the probe finds it, or the first lists do."""

import json
import re

import pytest
from opened_judge import open_judge
from small_server import answering_each, completion

from genrm_cli.errors import JudgeError
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_groups
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.judging.engine import CachedJudge, JudgeSet
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.opening.probe import probe_judge
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rollouts.rollout import Rollout, Text, Turn

PLAN = GroupPlan(PairingPlan(max_extra=1.0), (JudgePlan("m", PROFILES["listwise"]),))
GROUPS = 40
RESPONSE = re.compile(r"BEGIN RESPONSE (\S+) ===\]\n(.*?)\n\[=== END", re.DOTALL)


def answer_lists(most, seen):
    """Return how a judge answers that is cut off in lists of more than so many responses."""

    def answer(body):
        shown = RESPONSE.findall(body["messages"][-1]["content"])
        seen.append(len(shown))
        scores = {name: 5 if "Mercury" in text else 2 for name, text in shown}
        is_cut = len(shown) > most
        content = '{"scores": {' if is_cut else json.dumps({"scores": scores})
        return completion(content, "length" if is_cut else "stop")

    return answer


async def judge_lists(url, most_of_first):
    """Judge groups, of which the first may be smaller; return their number of results."""
    sizes = [most_of_first, *[4] * (GROUPS - 1)]
    groups = [
        Group(
            str(place),
            [Rollout((Turn("user", f"Q{place}?"),), (Text(f"{n}"),)) for n in range(size)],
        )
        for place, size in enumerate(sizes)
    ]
    judged = []
    async with open_judge(url, profile="listwise") as opened:
        judges = JudgeSet([CachedJudge(opened.remote)])
        tagged = ((group.key, group) for group in groups)
        await judge_groups(tagged, PLAN, judges, lambda tag, group: judged.append(group))
    return len(judged)


async def test_lists_that_all_fail_alike_end_the_run():
    """After a few, and the error says why and what to do; 40 groups would take 80 calls."""
    seen = []
    with (
        answering_each(answer_lists(2, seen)) as (url, _),
        pytest.raises(JudgeError, match=r"scored none of 8 lists: truncated: .*judging"),
    ):
        await judge_lists(url, 4)
    assert 8 <= len(seen) <= 40


async def test_one_list_with_scores_is_enough_to_go_on():
    """A judge that can make lists is asked to the end, however many fail."""
    seen = []
    with answering_each(answer_lists(3, seen)) as (url, _):
        assert await judge_lists(url, 3) == GROUPS
    assert len(seen) >= GROUPS


async def test_the_probe_shows_a_list_of_the_planned_size():
    """A judge that scores two responses may still be cut off in a list of eight."""
    seen = []
    with answering_each(answer_lists(4, seen)) as (url, _):
        async with open_judge(url, profile="listwise") as opened:
            await probe_judge(opened.remote, 10.0, responses=4)
            with pytest.raises(JudgeError, match=r"shown 8 responses: truncated: .*list_size"):
                await probe_judge(opened.remote, 10.0, responses=8)
    assert seen[:3] == [4, 4, 8]
