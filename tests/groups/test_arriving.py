"""Groups that arrive: what is asked early, and that nothing depends on the order of arrival."""

import asyncio

from answering_judge import AnsweringJudge
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.groups.asking.arriving import ArrivingGroup
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.judging.engine import JudgeSet, LexicalJudge
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.verdicts import Verdict

TEXTS = [
    "Paris.",
    "Paris is the capital of France.",
    "I think Paris.",
    "Lyon.",
    "It is Paris, of course.",
    "",
]


def group_of(size, texts=TEXTS):
    """Make a group; its texts differ."""
    return Group.of(
        "What is the capital of France?",
        [texts[place % len(texts)] for place in range(size)],
        key="g",
    )


def plan_of(strategy="ring", **fields):
    """Make a plan for one judge of pairs."""
    return GroupPlan(PairingPlan(strategy, **fields), (JudgePlan("lexical"),))


class CountingJudge(AnsweringJudge):
    """Answers when it is told to."""

    def __init__(self):
        super().__init__(lambda request: Verdict(4, 2, 2))
        self.may_answer = asyncio.Event()

    async def ask(self, request, slot):
        """Answer once it may."""
        outcome = await super().ask(request, slot)
        await self.may_answer.wait()
        return outcome


async def arrive(group, order, plan, judges):
    """Add the rollouts in this order, then judge the group."""
    arriving = ArrivingGroup(group.key, plan, judges, len(group.rollouts))
    for index in order:
        arriving.add(index, group.rollouts[index])
        await asyncio.sleep(0)
    return await arriving.judge(group), arriving


@given(
    st.permutations(range(6)),
    st.sampled_from(
        [
            plan_of(),
            plan_of(ring_k=2.0),
            plan_of("all_pairs"),
            plan_of(both_orders=True, repeats=2),
        ]
    ),
    st.sampled_from(
        [
            TEXTS,
            TEXTS[:3],
            TEXTS[4:],
            [TEXTS[0], *TEXTS],
        ]
    ),
)
def test_a_group_that_arrives_is_judged_as_a_whole_group_is(order, plan, texts):
    """In any order of arrival, with a blank response or copies among them: the same requests with
    the same results.
    """

    async def both():
        judges = JudgeSet([LexicalJudge()])
        group = group_of(6, texts)
        arrived, _ = await arrive(group, order, plan, judges)
        return arrived, await judge_group(group, plan, judges)

    arrived, whole = asyncio.run(both())
    assert arrived == whole


async def turns():
    """Let everything that can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_comparisons_start_when_both_responses_are_there():
    """With all but one member, every comparison without it has been asked."""
    judge = CountingJudge()
    group = group_of(5)
    plan = plan_of("all_pairs")
    arriving = ArrivingGroup("g", plan, JudgeSet([judge]), 5)
    counts = []
    for index in range(5):
        arriving.add(index, group.rollouts[index])
        await turns()
        counts.append(len(judge.asked))
    judge.may_answer.set()
    await arriving.judge(group)
    assert counts == [0, 1, 3, 6, 10]
    assert len(judge.asked) == 10


async def test_a_deadline_leaves_failures_and_cancels_nothing():
    """What has no answer in time is a failure of the kind timeout; the request goes on."""
    judge = CountingJudge()
    group = group_of(3)
    arriving = ArrivingGroup("g", plan_of(), JudgeSet([judge]), 3)
    judged = await arriving.judge(group, timeout_s=0.01)
    kinds = [outcome.result.kind for _, outcome in judged.results]
    judge.may_answer.set()
    again = await arriving.judge(group)
    assert kinds == ["timeout"] * 3
    assert len(judge.asked) == 3
    assert [type(outcome.result) for _, outcome in again.results] == [Verdict] * 3


async def test_a_late_rollout_is_compared_with_the_stored_group_only():
    """The requests about the others are not asked again, and their results stay."""
    for late in range(5):
        judge = CountingJudge()
        texts = [f"text {n}" for n in range(5)]
        judge.may_answer.set()
        group = group_of(5, texts)
        stored_group = Group(
            "g", [rollout for place, rollout in enumerate(group.rollouts) if place != late]
        )
        arriving = ArrivingGroup("g", plan_of(), JudgeSet([judge]), 5)
        stored = await arriving.judge(stored_group)
        before = len(judge.asked)
        judged = await arriving.judge_late(stored, group, late)
        asked = judge.asked[before:]
        assert asked
        assert all(f"text {late}" in each.prompt.responses for each in asked)
        about_others = [id_ for id_, _ in judged.results if late not in id_.shown]
        moved = [tuple(index + (index >= late) for index in id_.shown) for id_, _ in stored.results]
        assert sorted(id_.shown for id_ in about_others) == sorted(moved)
        assert len(judged.results) == len(moved) + len(asked)


async def test_a_late_copy_asks_nothing():
    """It stands for the rollout that came in time, or that one for it."""
    for late in [0, 4]:
        judge = CountingJudge()
        group = group_of(5, ["same", "text 1", "text 2", "text 3", "same"])
        judge.may_answer.set()
        arriving = ArrivingGroup("g", plan_of(), JudgeSet([judge]), 5)
        stored = await arriving.judge(
            Group("g", [each for place, each in enumerate(group.rollouts) if place != late])
        )
        before = len(judge.asked)
        judged = await arriving.judge_late(stored, group, late)
        asked = len(judge.asked) - before
        assert asked == 0
        assert judged.copies == {4: 0}
        assert len(judged.results) == len(stored.results) == 4
        assert not any(4 in id_.shown for id_, _ in judged.results)
