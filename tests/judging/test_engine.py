"""Judging groups: how requests reach a judge and outcomes come back, whatever the judge is."""

import asyncio
from itertools import pairwise

import pytest
from answering_judge import AnsweringJudge
from opened_judge import PLAN, judge_pairs, open_judge, pair

from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.engine import CachedJudge, JudgeSet, LexicalJudge
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.limit import Limit
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.requests import PairwisePrompt, Prompt
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Verdict

MIDDLING = Outcome(Verdict(3, 3, 3.5))
NOWHERE = JudgeClient("http://127.0.0.1:9/v1", None, 1, 1)
ALL_PAIRS = GroupPlan(PairingPlan("all_pairs"), (JudgePlan("m"),))


class SlowJudge(AnsweringJudge):
    """A judge that admits a limited number of requests, in all and at a time, and knows some
    answers.
    """

    def __init__(self, at_once, *, admits=10**6, knows=()):
        super().__init__(lambda request: MIDDLING.result)
        self.prepared = self.at_once = self.most_at_once = 0
        self.order: list[Prompt] = []
        self._slots = asyncio.Semaphore(at_once)
        self._slot = Slot(Endpoint("nowhere", NOWHERE, Limit(1)), 0.0, on_trial=False)
        self._admits = admits
        self._known = {f"Question {number}?" for number in knows}

    def prepare(self, prompt, judge_idx):
        """Count the requests."""
        self.prepared += 1
        return super().prepare(prompt, judge_idx)

    def recall(self, requests):
        """Return an answer to the questions that it knows."""
        return [MIDDLING if question_of(each) in self._known else None for each in requests]

    async def admit(self, lane=None, since_s=0.0):
        """Admit when there is room, until enough were admitted."""
        await self._slots.acquire()
        if len(self.asked) + self.at_once >= self._admits:
            self.stopped_by = "max_calls"
            self._slots.release()
            return None
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        return self._slot

    async def ask(self, request, slot):
        """Take a few turns of the event loop."""
        assert slot is self._slot
        self.order.append(request.prompt)
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            return await super().ask(request, slot)
        finally:
            self.at_once -= 1
            self._slots.release()


def question_of(request):
    """Return the question of a request."""
    return request.prompt.conversation[0][1]


def group_of(size, prompt="Why?"):
    """Make a group whose responses name their index."""
    return Group(
        prompt,
        [Rollout((Turn("user", prompt),), (Text(f"Answer {index}"),)) for index in range(size)],
    )


def test_requests_are_made_only_when_there_is_room():
    """Few more requests are prepared than are in flight: memory does not grow with the
    comparisons.
    """
    judge = SlowJudge(7)
    done = ahead = 0

    def on_outcome(outcome):
        nonlocal done, ahead
        ahead = max(ahead, judge.prepared - done)
        done += 1

    asyncio.run(judge_group(group_of(15), ALL_PAIRS, JudgeSet([judge], on_outcome)))
    assert judge.prepared == 105
    assert done == 105
    assert judge.most_at_once == 7
    assert ahead <= 7 + 16  # those that are looked up together


def test_every_comparison_gets_one_outcome():
    """Groups of any size, empty ones too, get each comparison judged once, in the order of the
    request ids.
    """
    for size in [0, 1, 2, 25]:
        for case_1, make_judge in {
            "lexical": LexicalJudge,
            "slow": lambda: SlowJudge(16),
        }.items():
            results = asyncio.run(
                judge_group(group_of(size), ALL_PAIRS, JudgeSet([make_judge()]))
            ).results
            assert [request.shown for request, _ in results] == [
                (i, j) for i in range(size) for j in range(i + 1, size)
            ], case_1
            assert all(isinstance(outcome.result, Verdict) for _, outcome in results), case_1


async def test_groups_are_asked_about_in_order():
    """Groups judged at once share the limit and make their requests one group after the other."""
    judge = SlowJudge(3)
    judges = JudgeSet([judge])
    groups = [group_of(4, f"Question {number}?") for number in range(5)]
    judged = await asyncio.gather(*(judge_group(group, ALL_PAIRS, judges) for group in groups))
    assert [one.key for one in judged] == [group.key for group in groups]
    assert [len(one.results) for one in judged] == [6] * 5
    assert judge.most_at_once == 3
    assert [shown.conversation[0][1] for shown in judge.order] == [
        f"Question {number}?" for number in range(5) for _ in range(6)
    ]


def test_known_answers_are_not_asked():
    """A comparison that the judge recalls needs no slot; all others are asked once."""
    judge = SlowJudge(4, knows=tuple(range(0, 20, 2)))
    assert len(asyncio.run(judge_pairs(range(20), judge))) == 20
    assert sorted(map(question_of, judge.asked)) == sorted(
        f"Question {number}?" for number in range(1, 20, 2)
    )


def test_after_a_stop_the_rest_is_recalled_or_fails_as_not_asked():
    """When the judge admits no more, known answers still count, and the failures name what stopped
    the run.
    """
    judge = SlowJudge(2, admits=5, knows=(18, 19))
    outcomes = asyncio.run(judge_pairs(range(20), judge))
    assert len(judge.asked) == 5
    assert {
        number for number, outcome in enumerate(outcomes) if outcome.result == MIDDLING.result
    } == {
        *range(5),
        18,
        19,
    }
    rest = [outcome.result for outcome in outcomes[5:18]]
    assert rest == [Failure(FailureKind.NOT_ASKED, "stopped by max_calls")] * 13


async def test_a_cancelled_group_leaves_no_task(judge_server):
    """Cancelling one of two groups ends its calls and gives up its turn; the other group gets all
    its verdicts.
    """
    judge_server.behave(latency_s=0.01)
    async with open_judge(judge_server.base_url, concurrency=2) as opened:
        judges = JudgeSet([CachedJudge(opened.remote)])
        first = asyncio.create_task(judge_group(group_of(10, "One?"), ALL_PAIRS, judges))
        second = asyncio.create_task(judge_group(pair(), PLAN, judges))
        await asyncio.to_thread(judge_server.wait_until, lambda stats: stats["requests"] >= 2)
        first.cancel()
        assert isinstance((await second).results[0][1].result, Verdict)
        with pytest.raises(asyncio.CancelledError):
            await first
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert opened.pool.in_flight == 0
        assert not judges.turns.locked()


def test_comparisons_that_share_a_first_response_are_neighbours():
    """A server with prefix caching reads each first response once: a judge is shown all its
    comparisons in a row.
    """
    judge = SlowJudge(1)
    plan = GroupPlan(PairingPlan("all_pairs", repeats=2, order_balanced=True), (JudgePlan("m"),))
    judged = asyncio.run(judge_group(group_of(7), plan, JudgeSet([judge])))
    shown = [
        (prompt.response_1, prompt.response_2)
        for prompt in judge.order
        if isinstance(prompt, PairwisePrompt)
    ]
    firsts = [first for first, _ in shown]
    indices = [request.shown for request, _ in judged.results]
    assert sorted(shown) == sorted((f"Answer {i}", f"Answer {j}") for i, j in indices)
    assert len(shown) == 42
    assert sum(one != other for one, other in pairwise(firsts)) == len(set(firsts)) - 1
