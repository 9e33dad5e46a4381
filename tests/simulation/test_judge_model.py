"""The simulated judge: what its numbers mean, and that the default one is like those that were
measured.
"""

import numpy as np
import pytest
from numpy.random import default_rng
from simulated_pairs import ordered_pairs

from genrm_cli.rewards.estimators.verdict_batch import VerdictBatch
from genrm_cli.simulation.world import JudgeModel, World, draw_world, judge_pairs

PERFECT = JudgeModel(
    position_bias=0,
    position_bias_spread=0,
    misjudgement=0,
    intransitivity=0,
    noise=0,
    score_noise=0,
    ranking_noise=0,
    leniency_spread=0,
    mean_score=3,
    score_spread=0.4,
    ranking_spread=0.3,
    score_step=0,
    ranking_step=0,
)


def verdicts(model: JudgeModel, groups: int = 200, seed: int = 1) -> tuple[VerdictBatch, World]:
    """Let a judge compare all pairs of groups of eight in both orders."""
    generator = default_rng(seed)
    world = draw_world(model, groups, 8, generator)
    return judge_pairs(world, *ordered_pairs(groups, 8), generator), world


def shares_of(model: JudgeModel) -> dict[str, float]:
    """Return the shares of verdicts that are right, prefer position 1 or tie, and of pairs whose
    orders disagree.
    """
    batch, world = verdicts(model, groups=2_000)
    rows = np.arange(2_000)[:, None]
    preferred = np.sign(batch.preferences())
    by_order = np.zeros((2_000, 8, 8))
    by_order[rows, batch.first, batch.second] = preferred
    better = np.sign(world.truth[rows, batch.first] - world.truth[rows, batch.second])
    return {
        "accuracy": float(np.mean(preferred == better)),
        "first_place": float(np.mean(preferred > 0)),
        "flips": float(np.mean(preferred != -by_order[rows, batch.second, batch.first])),
        "ties": float(np.mean(batch.score_1 == batch.score_2)),
    }


def test_the_default_judge_is_like_public_ones() -> None:
    """Right on 77.5 % of the pairs, first place in 58 %, flips 29 %, each to a point; ties 9.6
    %.
    """
    expected = {"accuracy": 0.775, "first_place": 0.58, "flips": 0.29, "ties": 0.096}
    assert shares_of(JudgeModel()) == pytest.approx(expected, abs=0.01)


def test_the_same_seed_says_the_same() -> None:
    """Verdicts depend on the model and the generator only."""
    one, other, third = (verdicts(JudgeModel(), seed=seed)[0] for seed in (4, 4, 5))
    assert np.array_equal(one.score_1, other.score_1)
    assert np.array_equal(one.ranking, other.ranking)
    assert not np.array_equal(one.score_1, third.score_1)


@pytest.mark.parametrize(
    ("name", "value", "figure", "expected"),
    [
        ("position_bias", 4.0, "first_place", 1.0),
        ("position_bias", -4.0, "first_place", 0.0),
        ("ties_broken", 1.0, "ties", 0.0),
    ],
)
def test_a_number_does_what_it_says(name: str, value: float, figure: str, expected: float) -> None:
    """A strong leaning decides every verdict, and a judge may break all its ties."""
    assert shares_of(JudgeModel(**{name: value}))[figure] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("repeating", "same"), [(1.0, True), (0.0, False)])
def test_noise_comes_back_as_often_as_said(repeating: float, same: bool) -> None:
    """A judge at temperature 0 says the same again; one whose noise never repeats does not."""
    world = draw_world(JudgeModel(repeating=repeating), 200, 6, default_rng(1))
    indices = ordered_pairs(200, 6)
    once, again = (judge_pairs(world, *indices, default_rng(seed)).score_1 for seed in (2, 3))
    assert np.array_equal(once, again) is same
