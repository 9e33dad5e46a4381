"""The estimator that adapts to the judge: from few groups, whatever the judge is good at."""

import math

import numpy as np
import pytest
from bench.simulation.plan_metrics import correlations, indices_of, plan_within
from bench.simulation.world import JudgeModel, draw_world, judge_pairs
from drawn_verdicts import fit_of
from label_judges import label_pairs
from msgspec.structs import replace
from numpy.random import default_rng
from verdict_rows import verdicts_of

from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import ESTIMATORS, estimate
from genrm_cli.rewards.estimators.judge_noise import Weights
from genrm_cli.rewards.estimators.verdict_batch import VerdictBatch

N = 8
WRITES_ANYTHING = {
    "ties_broken": 0.0,
    "contradictions": 1.0,
}  # scores and ranking each for themselves
THREE = {"tie": 0.4}
FIVE = {"tie": 0.4, "much": 2.0}


def judged(groups, seed=0, labels=None, **numbers):
    """Return a simulated judge's verdicts, or labels, on rings of groups of 8, and the true
    qualities.
    """
    world = draw_world(JudgeModel(**numbers), groups, N, default_rng(seed))
    shown = (
        world,
        *indices_of(plan_within("ring", N, N), N, range(groups), seed),
        default_rng(seed + 1),
    )
    return judge_pairs(*shown) if labels is None else label_pairs(*shown, **labels), world.truth


def part_of(batch, groups):
    """Return some groups of a batch."""
    columns = (
        batch.first,
        batch.second,
        batch.score_1,
        batch.score_2,
        batch.ranking,
        batch.valid,
    )
    return VerdictBatch(batch.n, *(column[groups] for column in columns))


def correlation(name, batch, truth, at_once):
    """Return the mean correlation with the truth, where so many groups at once are all that is
    known of the judge.
    """
    parts = [
        part_of(batch, slice(start, start + at_once)) for start in range(0, batch.groups, at_once)
    ]
    scores = np.concatenate([ESTIMATORS[name](part, fit_of(part)).base_scores for part in parts])
    return correlations(scores, truth, np.ones(truth.shape, dtype=np.bool_)).mean()


def fixed_weight(batch, truth):
    """Return the mean correlation with the truth by the typical weights."""
    fit = replace(fit_of(batch), weights=Weights())
    scores = ESTIMATORS["adaptive"](batch, fit).base_scores
    return correlations(scores, truth, np.ones(truth.shape, dtype=np.bool_)).mean()


USELESS = [
    {"ranking_noise": 6.0},
    {"score_noise": 6.0},
    {"ranking_noise": 50.0, "ranking_spread": 0.3},
]


@pytest.mark.parametrize(
    "useless", [USELESS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in USELESS[1:])]
)
def test_a_useless_ranking_or_useless_scores_cost_little(useless):
    """From 16 groups on, at most .08 less than from 640 on, and from 64 groups on .04; a fixed
    weight loses more.
    """
    batch, truth = judged(640, **useless, **WRITES_ANYTHING)
    known = correlation("adaptive", batch, truth, 640)
    of_64 = correlation("adaptive", batch, truth, 64)
    assert correlation("adaptive", batch, truth, 16) > known - 0.08
    assert of_64 > known - 0.04
    assert of_64 > fixed_weight(batch, truth) + 0.05


def test_half_useless_rankings_and_scores_are_weighed():
    """A judge whose ranking has ten times the usual noise counts by its scores, without a threshold
    in between; likewise one whose scores have.
    """
    for useless, gain in (({"ranking_noise": 4.0}, 0.03), ({"score_noise": 3.5}, 0.1)):
        batch, truth = judged(320, **useless)
        assert correlation("adaptive", batch, truth, 320) > fixed_weight(batch, truth) + gain


@pytest.mark.parametrize("numbers", [{}, {"labels": THREE}, {"labels": FIVE}])
def test_opponents_and_positions_count(numbers):
    """Least squares beat the mean of the scores, with a judge of scores and judges of labels."""
    batch, truth = judged(192, **numbers)
    mean = correlation("simple_tiebreaker", batch, truth, 192)
    assert correlation("adaptive", batch, truth, 192) > mean + 0.01


def test_scores_count_where_the_ranking_contradicts_them():
    """A judge that reads the ranking the wrong way round is followed in its scores."""
    batch, truth = judged(32, ranking_noise=1.0, **WRITES_ANYTHING)
    wrong = VerdictBatch(
        N, batch.first, batch.second, batch.score_1, batch.score_2, 7 - batch.ranking, batch.valid
    )
    assert correlation("adaptive", wrong, truth, 32) > fixed_weight(wrong, truth) + 0.1


@pytest.mark.parametrize(
    "numbers",
    [
        {},
        {"noise": 1.3},
        {"labels": THREE},
        {"labels": FIVE},
        *({**each, **WRITES_ANYTHING} for each in USELESS),
    ],
)
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_thousand_comparisons_settle_the_rewards(numbers, half):
    """The rewards after 1,000 comparisons of any part of a file are nearly those of the whole
    file.
    """
    batch, _ = judged(750, **numbers)
    start = half * 375
    few = fit_of(part_of(batch, slice(start, start + 125)))
    all_ = fit_of(batch)
    some = part_of(batch, slice(0, 50))
    settled, final = (ESTIMATORS["adaptive"](some, fit).base_scores for fit in (few, all_))
    apart = np.sqrt(((settled - final) ** 2).mean() / final.var())
    assert apart < 0.1


def test_a_tie_is_information():
    """Between rollouts that are otherwise alike a tie brings the better one's opponent up, and a
    loss down.
    """
    plan = [(i, j) for i, j, _ in PairingPlan("ring", ring_k=2.0).iter_pairs(4)]
    results = [(4, 2, 2), (3, 3, 3.5), (2, 4, 5)]
    others = [(i, j, 4, 2, 2) for i, j in plan[1:]]
    by_result = [
        estimate("adaptive", 4, verdicts_of([(*plan[0], *result), *others]), Calibration())
        for result in results
    ]
    second = [made.base_scores[plan[0][1]] for made in by_result]
    assert second == sorted(second)
    assert len(set(second)) == 3
    assert all(math.isfinite(score) for made in by_result for score in made.base_scores)


def test_much_better_counts_more_than_better():
    """A judge of five labels is followed in how much it prefers a response."""
    batch, truth = judged(192, labels=FIVE)
    three = np.clip(batch.ranking, 2, 5)
    cut = VerdictBatch(N, batch.first, batch.second, 6.5 - three, three - 0.5, three, batch.valid)
    assert (
        correlation("adaptive", batch, truth, 192) > correlation("adaptive", cut, truth, 192) + 0.02
    )
