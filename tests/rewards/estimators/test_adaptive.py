"""The estimator that adapts to the judge: from few groups, whatever the judge is good at."""

import math

import numpy as np
import pytest
from bench.simulation.plan_metrics import correlations, indices_of, plan_within
from bench.simulation.world import JudgeModel, draw_world, judge_pairs
from drawn_verdicts import fit_of
from label_judges import label_pairs
from numpy.random import default_rng
from verdict_rows import verdicts_of

from genrm_cli.judging.profiles.answer import MEANINGS
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import ESTIMATORS, estimate, estimate_many
from genrm_cli.rewards.estimators.judge_noise import SCORING, TYPICAL
from genrm_cli.rewards.estimators.labels import FIVE_LABELS, LABELS, THREE_LABELS
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


USELESS = [
    {"ranking_noise": 6.0},
    {"score_noise": 6.0},
    {"ranking_noise": 50.0, "ranking_spread": 0.3},
]


def test_a_useless_ranking_or_useless_scores_cost_little():
    """From 16 groups on, at most .01 less than from 640 on; `combined` loses far more."""
    for useless in USELESS:
        batch, truth = judged(640, **useless, **WRITES_ANYTHING)
        known = correlation("adaptive", batch, truth, 640)
        assert correlation("adaptive", batch, truth, 16) > known - 0.01
        assert correlation("adaptive", batch, truth, 64) > known - 0.005
        assert correlation("combined", batch, truth, 64) < known - 0.05


@pytest.mark.parametrize(
    "at_once",
    [pytest.param(1, marks=pytest.mark.slow), 8, pytest.param(64, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("numbers", [{}, {"labels": THREE}, {"labels": FIVE}])
def test_the_gain_comes_from_the_first_group_on(at_once, numbers):
    """With the simulated default judge and with judges of labels, the weights for their kind beat
    those of combined.
    """
    batch, truth = judged(192, **numbers)
    assert (
        correlation("adaptive", batch, truth, at_once)
        > correlation("combined", batch, truth, at_once) + 0.005
    )


def test_scores_count_where_the_ranking_contradicts_them():
    """A judge that reads the ranking the wrong way round is followed in its scores."""
    batch, truth = judged(32, ranking_noise=1.0, **WRITES_ANYTHING)
    wrong = VerdictBatch(
        N, batch.first, batch.second, batch.score_1, batch.score_2, 7 - batch.ranking, batch.valid
    )
    assert (
        correlation("adaptive", wrong, truth, 32) > correlation("combined", wrong, truth, 32) + 0.1
    )


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
    """In whole rings, the rewards after 1,000 comparisons of any part of a file are those of the
    whole file.
    """
    batch, _ = judged(750, **numbers)
    start = half * 375
    few = fit_of(part_of(batch, slice(start, start + 125)))
    all_ = fit_of(batch)
    some = part_of(batch, slice(0, 50))
    settled, final = (ESTIMATORS["adaptive"](some, fit).base_scores for fit in (few, all_))
    # The position preference that labels show does not cancel out in a model that is not linear.
    assert settled == pytest.approx(final, abs=0.02 if "labels" in numbers else 1e-9)


def test_noise_settles_as_scores():
    """Where neither scores nor rankings follow the rollouts, scores count, and rewards do not move
    either.
    """
    generator = default_rng(5)
    (batch, _) = judged(750)
    columns = (
        generator.permutation(each.ravel()).reshape(each.shape)
        for each in (batch.score_1, batch.score_2, batch.ranking)
    )
    noise = VerdictBatch(N, batch.first, batch.second, *columns, batch.valid)
    kinds = [fit_of(part_of(noise, slice(start, start + 125))).kind for start in range(0, 750, 125)]
    assert kinds == [SCORING] * 6


def test_without_a_calibration_each_group_shows_its_kind():
    """Groups of three labels, of five and of scores in one batch are treated as the judges that
    write them.
    """
    three = verdicts_of(
        [
            (0, 1, 4, 2, 2),
            (1, 2, 3, 3, 3.5),
            (2, 0, 2, 4, 5),
        ]
    )
    five = verdicts_of(
        [
            (0, 1, 5, 1, 1),
            (1, 2, 3, 3, 3.5),
            (2, 0, 2, 4, 5),
        ]
    )
    scores = verdicts_of(
        [
            (0, 1, 4, 3, 2),
            (1, 2, 3, 3, 3),
            (2, 0, 2, 5, 5),
        ]
    )
    found = estimate_many("adaptive", [(3, three), (3, five), (3, scores)], Calibration())
    kinds = ({"labels": THREE_LABELS}, {"labels": FIVE_LABELS}, {"kind": TYPICAL})
    assert found == [
        estimate("adaptive", 3, each, Calibration(groups=1, **kind))
        for each, kind in zip((three, five, scores), kinds, strict=True)
    ]


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


def test_labels_are_the_verdicts_that_profiles_make_of_them():
    """A tie, slightly better, better and much better, on both sides."""
    makes = [MEANINGS[name] for name in ("tie", "slightly_better", "better", "much_better")]
    assert tuple((v.score_1 - v.score_2, 3.5 - v.ranking) for v in makes) == LABELS


def test_the_judge_of_labels_has_a_prior_of_its_own():
    """Over pairs of its prior it ties 12 %, or 9 % where it writes much better too, which it does
    in two fifths.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    for (values, log_weights), ties, much in ((THREE_LABELS, 0.12, 0), (FIVE_LABELS, 0.08, 0.4)):
        odds = np.exp(math.sqrt(2) * 2 * nodes[:, None] * np.array(values) + log_weights)
        shares = dict(
            zip(
                values,
                weights @ (odds / odds.sum(axis=1, keepdims=True)) / weights.sum(),
                strict=True,
            )
        )
        assert shares[0.0] == pytest.approx(ties, abs=0.005)
        assert sum(share for value, share in shares.items() if abs(value) > 0.5) == pytest.approx(
            much, abs=0.02
        )


def test_much_better_counts_more_than_better():
    """A judge of five labels is followed in how much it prefers a response."""
    batch, truth = judged(192, labels=FIVE)
    three = np.clip(batch.ranking, 2, 5)
    cut = VerdictBatch(N, batch.first, batch.second, 6.5 - three, three - 0.5, three, batch.valid)
    assert (
        correlation("adaptive", batch, truth, 192) > correlation("adaptive", cut, truth, 192) + 0.02
    )
