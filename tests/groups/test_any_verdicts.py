"""Whatever a judge answers: rewards are finite, and no figure that describes a run prevents it."""

import math
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genrm_cli.catalog import ESTIMATORS
from genrm_cli.groups.count_group import count_served_group
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, JudgePlan, RewardPlan
from genrm_cli.groups.reward_group import reward_verdicts, verdicts_of
from genrm_cli.judging.requests import RequestId
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.run_summary import summarise
from genrm_cli.pairing import STRATEGIES, PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Verdict

SHAPE = measure_text("", "x", with_style=False, as_gym=False)
LOST = Outcome(Failure(FailureKind.TIMEOUT, "none"))
SIZES = [
    (2,),
    (3, 5),
    (6,),
    (6,),
    (6,),
    (8, 4),
    (8, 2, 1),
    (16, 2, 3, 2),
    (64, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
]
ADVANTAGES = ("unit", "pooled", "reliability", "raw")


def judge_of(kind: str, lean: float) -> Any:
    """Return a judge: two indices and a random number give a verdict."""

    def decide(i: int, j: int, chance: float) -> Verdict:
        if kind == "ties":
            return Verdict(3.0, 3.0, 3.5)
        if kind == "first":
            # Decimals leave rounding of 1e-17 where differences are all alike.
            second = round(1 + 3 * chance, 1)
            return Verdict(second + lean, second, 3.5 - lean)
        if kind == "quality":
            gap = (7 * i % 5 - 7 * j % 5) / 2 + chance - 0.5
            return Verdict(3 + gap / 2, 3 - gap / 2, 3.5 - gap)
        if kind == "cycle":
            return Verdict(4.0, 2.0, 2.0) if (j - i) % 3 == 1 else Verdict(2.0, 4.0, 5.0)
        if kind == "decimal":
            return Verdict(1 + 4 * chance, 5 - 4 * chance, 6 - 5 * chance)
        if kind == "inverted":
            return Verdict(1.0, 5.0, 6.0) if i > j else Verdict(5.0, 1.0, 1.0)
        if kind == "one":
            return Verdict(5.0, 1.0, 1.0) if (i, j) == (0, 1) else Verdict(3.0, 3.0, 3.5)
        return Verdict(4.0, 3.0, 2.0) if chance < 0.5 else Verdict(3.0, 4.0, 5.0)

    return decide


def check_run(data: st.DataObject) -> None:
    """Draw a run of groups, and require finite rewards, and a summary of finite figures."""
    random = Random(data.draw(st.integers(0, 2**32)))
    kinds = (
        "ties",
        "first",
        "cycle",
        "decimal",
        "inverted",
        "one",
        "quality",
        "random",
    )
    judge_count = data.draw(st.sampled_from((1, 1, 1, 3)))
    judges = [
        judge_of(data.draw(st.sampled_from(kinds)), data.draw(st.sampled_from((0.1, 0.7, 1.0))))
        for _ in range(judge_count)
    ]
    lost_share = data.draw(st.sampled_from((0.0, 0.25)))
    pairing = PairingPlan(
        data.draw(st.sampled_from(STRATEGIES)),
        ring_k=data.draw(st.sampled_from((0.5, 1.0, 2.0, 3.0))),
        both_orders=data.draw(st.booleans()),
        repeats=data.draw(st.integers(1, 2)),
    )
    plan = GroupPlan(
        pairing=pairing,
        judges=tuple(JudgePlan(f"judge {number}") for number in range(judge_count)),
        rewards=RewardPlan(
            estimator=data.draw(st.sampled_from(sorted(ESTIMATORS))),
            advantage=data.draw(st.sampled_from(ADVANTAGES)),
            min_reliability=data.draw(st.sampled_from((None, 0.5))),
        ),
    )
    sizes = data.draw(st.sampled_from(SIZES))
    groups = []
    for number in range(data.draw(st.sampled_from((12, 1, 2, 8)))):
        n = sizes[number % len(sizes)]
        results = [
            (
                RequestId(judge, repeat, (i, j)),
                LOST if random.random() < lost_share else Outcome(decide(i, j, random.random())),
            )
            for i, j, repeat in pairing.iter_pairs(n, str(number))
            for judge, decide in enumerate(judges)
        ]
        shapes = [SHAPE] * n
        whole = (True,) * n
        group = JudgedGroup(
            str(number), n, False, tuple(range(n)), whole, (None,) * n, "answer", shapes, results
        )
        group.sort()
        groups.append(group)
    judged = [verdicts_of(group, plan) for group in groups]
    statistics = CalibrationStatistics()
    for group, verdicts in zip(groups, judged, strict=True):
        statistics.add_group(group.size, verdicts.used)
    metrics = RunMetrics()
    rewarded = reward_verdicts(judged, plan, statistics.fit())
    for group, rewards in zip(groups, rewarded, strict=True):
        for score in rewards.scores:
            assert score.reward is None or math.isfinite(score.reward)
            assert score.reason is not None or score.reward is not None
        count_served_group(metrics, group, rewards, plan)
    summary = summarise(metrics, 1.0)
    low, high = summary.reliability_interval or (0.0, 1.0)
    assert 0 <= low <= high <= 1


ANY_HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=300, deadline=None, suppress_health_check=ANY_HEALTH)
@given(st.data())
def test_any_verdicts_give_a_run_that_ends(data):
    """Ties, cycles, decimals, useless judges and lost verdicts, under every plan and estimator."""
    check_run(data)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, suppress_health_check=ANY_HEALTH)
@given(st.data())
def test_ten_thousand_runs_end(data):
    """The same claim, on more draws than a minute allows."""
    check_run(data)
