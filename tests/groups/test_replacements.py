"""Failed requests are replaced within a limit, and rollouts are complete or unscored."""

import asyncio
import math
from collections import Counter
from random import Random

import pytest
from answering_judge import AnsweringJudge
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.settings.table import settings_from
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Reason, TooLong, Verdict

TOO_LONG = Failure(FailureKind.REFUSED, "exceeds the context", too_long=TooLong())
NO_VERDICT = Failure(FailureKind.NO_VERDICT, "no verdict")
MODEL = {"base_url": ("http://127.0.0.1:9/v1",), "model": "m"}


class FailingJudge(AnsweringJudge):
    """Fails at random, at some texts always, and where a rule of a test says so; may take a second
    call for an answer.
    """

    def __init__(self, share=0.0, hopeless=(), *, second_calls=0.0, seed=1, known=None, fails=None):
        super().__init__(lambda request: verdict_on(request.prompt))
        self.calls = 0
        self.outcomes = {}
        self._share = share
        self._hopeless = [f"<{index}>" for index in hopeless]
        self._second_calls = second_calls
        self._random = Random(seed)
        self._known = known or {}
        self._fails = fails or (lambda request, calls: None)

    def recall(self, requests):
        """Return what is known of an earlier run."""
        return [self._known.get((request.prompt, request.repeat)) for request in requests]

    async def ask(self, request, slot):
        """Answer, or fail."""
        self.calls += 1
        reasks = 0
        if self._random.random() < self._second_calls and request.extra.take():
            self.calls += 1
            reasks = 1
        shown = request.prompt.responses
        result = NO_VERDICT if self._random.random() < self._share else self._answer(request)
        if any(text in response for text in self._hopeless for response in shown):
            result = TOO_LONG
        result = self._fails(request, self.calls) or result
        if isinstance(result, Grades) and len(shown) > 2 and self._random.random() < self._share:
            result = Grades(result.values[1:], places=tuple(range(1, len(shown))))
        outcome = Outcome(result, attempts=1 + reasks, reasks=reasks)
        self.outcomes[request.prompt, request.repeat] = outcome
        return outcome


def verdict_on(prompt):
    """Prefer the longer response."""
    lengths = [len(response) for response in prompt.responses]
    if isinstance(prompt, PairwisePrompt):
        return Verdict(4.0, 2.0, 2.0) if lengths[0] > lengths[1] else Verdict(2.0, 4.0, 5.0)
    return Grades(tuple(1.0 + length % 5 for length in lengths))


def judged_by(judge, size, **settings):
    """Judge one group with this judge in every place; return it with its plan."""
    plan = compile_plan(settings_from(**MODEL, **settings))
    texts = [f"<{index}>" + " word" * index for index in range(size)]
    group = Group.of("Why?", texts, key="k")
    judges = JudgeSet([judge] * len(plan.asked))
    judged = asyncio.run(judge_group(group, plan, judges))
    return judged, plan


def rewards_of(judged, plan):
    """Return the rewards of a group."""
    return reward_verdicts([verdicts_of(judged, plan)], plan, Calibration())[0]


PLANS = st.sampled_from(
    [
        {"ring_k": 1.0},
        {"ring_k": 2.0},
        {"ring_k": 1.5, "both_orders": True},
        {"strategy": "all_pairs", "repeats": 2},
        {"goal": "best"},
        {"judging": "listwise"},
        {"judging": "listwise", "list_size": 3, "repeats": 2},
        {"profile": "nemotron-principle"},
        {"profile": "nemotron-principle", "repeats": 2},
        {"component": ("rubric:safety",)},
    ]
)


@given(
    settings=PLANS,
    size=st.integers(2, 9),
    max_extra=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    second_calls=st.sampled_from([0.0, 0.3, 1.0]),
    hopeless=st.sets(st.integers(0, 8), max_size=3),
    seed=st.integers(0, 1000),
)
def test_a_bill_has_a_ceiling(settings, size, max_extra, share, second_calls, hopeless, seed):
    """In every mixture of failures, the calls stay within 1 + `max_extra` times the planned ones; a
    rollout with a reward has three quarters of its verdicts.
    """
    judge = FailingJudge(share, hopeless, second_calls=second_calls, seed=seed)
    judged, plan = judged_by(judge, size, max_extra=max_extra, **settings)
    planned = plan.count_requests(size)
    assert judge.calls <= planned + math.floor(max_extra * planned)
    ids = [id_ for id_, _ in judged.results]
    assert len(ids) == len(set(ids)) <= judge.calls
    planned_of = Counter[int]()
    given_of = Counter[int]()
    for id_, outcome in judged.results:
        if id_.judge < len(plan.judges):
            result = outcome.result
            planned_of.update(id_.shown if id_.repeat < plan.planned_repeats(id_.judge) else ())
            places = range(len(id_.shown))
            if isinstance(result, Failure):
                places = ()
            elif isinstance(result, Grades):
                places = result.places or places
            given_of.update(id_.shown[place] for place in places)
    for score in rewards_of(judged, plan).scores:
        least = math.ceil(0.75 * planned_of[score.index])
        assert score.reward is None or given_of[score.index] >= least


@given(PLANS, st.integers(3, 8), st.integers(0, 1000))
def test_a_resumed_run_plans_the_same(settings, size, seed):
    """Stages depend on the results of the group alone."""
    judge = FailingJudge(0.4, seed=seed, second_calls=0.2)
    judged, _ = judged_by(judge, size, **settings)
    resumed = FailingJudge(known=judge.outcomes)
    again, _ = judged_by(resumed, size, **settings)
    assert resumed.calls == 0
    assert [id_ for id_, _ in again.results] == [id_ for id_, _ in judged.results]


def test_nothing_is_planned_where_nothing_failed():
    """A judge that answers everything is asked what the plan has."""
    for size in (2, 5, 8):
        judge = FailingJudge()
        judged, plan = judged_by(judge, size)
        assert len(judged.results) == judge.calls == plan.count_requests(size)
        assert None not in rewards_of(judged, plan).rewards


@pytest.mark.parametrize("size", [3, 4, 8])
def test_a_response_that_is_refused_costs_nobody_else(size):
    """The judge never takes the last response, the best: it alone has no reward, and says why."""
    judge = FailingJudge(hopeless=[size - 1])
    judged, plan = judged_by(judge, size)
    *others, last = rewards_of(judged, plan).scores
    assert None not in [score.reward for score in others]
    assert last.reason is Reason.INCOMPLETE
    failed = sum(isinstance(outcome.result, Failure) for _, outcome in judged.results)
    assert last.reason_text == (
        f"too few verdicts: 0 of 2 verdicts; {failed} requests failed: {failed} refused as too long"
    )
    lowest, plan = judged_by(FailingJudge(hopeless=[size - 1]), size, unscored="lowest")
    rewards = rewards_of(lowest, plan).rewards
    assert rewards[-1] == min(rewards)


def test_a_failed_pair_is_asked_in_the_other_order_first():
    """Then the rollout that lacks a verdict meets another opponent, and at last a known one."""

    first = FailingJudge(fails=lambda request, calls: NO_VERDICT if calls == 1 else None)
    judged, plan = judged_by(first, 6)
    (failed,) = [id_.shown for id_, each in judged.results if isinstance(each.result, Failure)]
    assert further_of(judged) == [(0, 1, failed[::-1])]
    both = FailingJudge(fails=lambda request, calls: NO_VERDICT if calls <= 2 else None)
    judged, plan = judged_by(both, 2)
    assert further_of(judged) == [(0, 1, (0, 1)), (0, 1, (1, 0))]
    assert None not in rewards_of(judged, plan).rewards


def further_of(judged):
    """Return the requests beyond the plan."""
    return [id_ for id_, _ in judged.results if id_.repeat]


def test_the_rollout_that_lacks_most_is_served_first():
    """Both orders of a pair failed, and one of another: the only further call is for the former."""

    def fails(request, calls):
        names = [text.partition(" ")[0] for text in request.prompt.responses]
        failing = (["<0>", "<1>"], ["<2>", "<3>"], ["<3>", "<2>"])
        return NO_VERDICT if not request.repeat and names in failing else None

    judge = FailingJudge(fails=fails)
    judged, _ = judged_by(judge, 4, strategy="all_pairs", both_orders=True, max_extra=1 / 12)
    (further,) = further_of(judged)
    assert set(further.shown) == {2, 3}


def test_a_server_that_answers_nothing_is_asked_once():
    """Replacements would fail alike."""

    judge = FailingJudge(fails=lambda request, calls: Failure(FailureKind.HTTP, "HTTP 503"))
    judged, plan = judged_by(judge, 8)
    assert judge.calls == plan.count_requests(8)
    assert set(rewards_of(judged, plan).reasons) == {Reason.INCOMPLETE}


def test_a_defaulted_comparison_is_not_replaced():
    """Under `compat` a failed comparison has the score of NeMo Gym."""
    judge = FailingJudge(1.0)
    judged, plan = judged_by(judge, 4, compat="nemo-gym")
    assert judge.calls == plan.count_requests(4)
    assert rewards_of(judged, plan).rewards == [3.0] * 4
