"""Large groups: work grows with the comparisons, not with the square of the rollouts."""

import asyncio
import sys
import threading
from collections import Counter

from genrm_cli.groups.asking.begin import begin_group
from genrm_cli.groups.asking.stages import prepared
from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.count_group import count_group
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.plan import GroupPlan, JudgePlan, RewardPlan
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.engine import JudgeSet, LexicalJudge
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.scored.write_lines import comparison_json, line_json
from genrm_cli.settings.reward_settings import RewardSettings


def plan_of(strategy):
    """Make a plan with one lexical judge."""
    return GroupPlan(
        PairingPlan(strategy),
        (JudgePlan("lexical"),),
        rewards=RewardPlan(RewardSettings()),
    )


def finish_group(size, plan):
    """Take a group all the way from rollouts to records; return its rewards."""
    rollouts = [
        Rollout((Turn("user", "Why?"),), (Text(f"Because {index}. " + "word " * (index % 7)),))
        for index in range(size)
    ]
    judged = asyncio.run(judge_group(Group("key", rollouts), plan, JudgeSet([LexicalJudge()])))
    (rewards,) = reward_verdicts([verdicts_of(judged, plan)], plan, Calibration())
    count_group(RunMetrics(), judged, rewards, plan)
    assert len([line_json(line, plan.rewards) for line in rewards.scores]) == size
    assert len([comparison_json(each, with_reply=False) for each in rewards.comparisons]) == len(
        judged.results
    )
    return rewards.rewards


def count_lines(size, plan):
    """Count the lines of the package's Python that a group takes."""
    counts = Counter()

    def trace(frame, event, arg):
        if "genrm_cli" not in frame.f_code.co_filename:
            return None
        counts[True] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        finish_group(size, plan)
    finally:
        sys.settrace(before)
    return counts[True]


def test_work_grows_with_the_comparisons():
    """From rollouts to records, as many more lines of Python run as there are more comparisons."""
    for strategy, sizes, times_the_comparisons in [
        ("ring", (25, 100), 4),
        ("all_pairs", (12, 24), 4.18),
    ]:
        plan = plan_of(strategy)
        finish_group(4, plan)  # fills caches
        small, large = (count_lines(size, plan) for size in sizes)
        assert large / small < 1.15 * times_the_comparisons


async def test_long_texts_are_prepared_in_a_thread():
    """The event loop of a server answers others meanwhile; a short group is not worth a thread."""
    threads = []

    def stage():
        threads.append(threading.get_ident())
        yield from ()

    for text in ("short", "x" * 600_000):
        group = Group.of("Question?", [text, "Another."])
        judged = begin_group(group, plan_of("ring"))
        assert list(await prepared(stage(), judged)) == []
    assert threads[0] == threading.get_ident() != threads[1]
