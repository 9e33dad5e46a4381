"""The calibration from a run's verdicts, against the definitions written pair by pair."""

import math
from itertools import product

import numpy as np
import pytest
from drawn_verdicts import (
    BIAS,
    LEVEL_NOISE,
    LEVEL_SLOPE,
    NOISE,
    PROMPT_BIAS,
    SLOPES,
    fit_of,
    linear_judge,
    pairs_of,
)
from verdict_rows import verdicts_of

from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import (
    UNBIASED_VERDICTS,
    Calibration,
    CalibrationStatistics,
)
from genrm_cli.rewards.estimators.estimates import ESTIMATORS, estimate

PLAN = [(i, j) for i, j, _ in PairingPlan("ring", ring_k=2).iter_pairs(8)]
# With repeats and reversed orders, so that some verdicts share both rollouts.
TANGLED = [*PLAN, *PLAN[:5], *((j, i) for i, j in PLAN[3:9])]


def naive_moments(groups):
    """Return share and disjoint moments of centred d, r and m, pair of verdicts by pair of
    verdicts.
    """
    rows = [[(i, j, a - b, 3.5 - r, (a + b) / 2) for i, j, a, b, r in group] for group in groups]
    means = np.mean([row[2:] for group in rows for row in group], axis=0)
    share_hh = []
    share_h = []
    share = []
    disjoint = []
    signs = []
    for group in rows:
        for one, other in product(group, group):
            common = {one[0], one[1]} & {other[0], other[1]}
            u = np.array(one[2:]) - means
            v = np.array(other[2:]) - means
            if not common:
                disjoint.append(np.outer(u, v))
            elif len(common) == 1:
                h, k = (1 if row[0] in common else -1 for row in (one, other))
                signs.append(h * k)
                share_hh.append(h * k * np.outer(u, v))
                share_h.append(h * np.outer(u, v))
                share.append(np.outer(u, v))
    own = np.mean(
        [np.outer(np.array(r[2:]) - means, np.array(r[2:]) - means) for g in rows for r in g],
        axis=0,
    )
    return (
        own,
        np.mean(signs),
        *(np.mean(each, axis=0) for each in (share_hh, share_h, share, disjoint)),
    )


def test_the_moments_are_those_of_the_definition():
    """Signal, prompt and noise from running sums are those from all pairs of verdicts, one by
    one.
    """
    batch, _ = linear_judge(48, 8, TANGLED, failures=0.2)
    groups = [pairs_of(batch, group) for group in range(48)]
    own, sign, share_hh, share_h, share, disjoint = naive_moments(groups)
    signal = np.empty((3, 3))
    signal[:2, :2] = share_hh[:2, :2] - sign * disjoint[:2, :2]
    signal[:2, 2] = signal[2, :2] = share_h[:2, 2]
    signal[2, 2] = share[2, 2] - disjoint[2, 2]
    fit = fit_of(batch)
    lead = np.array([1 - fit.weights.ranking, fit.weights.ranking])
    within = lead @ (own - disjoint)[:2, :2] @ lead
    slope = math.sqrt(lead @ signal[:2, :2] @ lead)
    level_slope = lead @ signal[:2, 2] / slope
    assert fit.noise.slope == pytest.approx(slope)
    assert fit.noise.level_slope == pytest.approx(level_slope)
    assert fit.noise.noise == pytest.approx(within - 2 * slope**2)
    level_noise = own[2, 2] - disjoint[2, 2] - 2 * level_slope**2
    assert fit.noise.level_noise == pytest.approx(level_noise)
    assert fit.noise.prompt == pytest.approx(lead @ disjoint[:2, :2] @ lead)
    assert fit.score_noise.slope == pytest.approx(math.sqrt(signal[0, 0]))


def test_a_known_judge_is_found():
    """From 6,000 groups of a linear judge its slopes, noise and biases come out to a few
    hundredths.
    """
    batch, _ = linear_judge(6000, 8, PLAN)
    fit = fit_of(batch)
    best = np.linalg.solve(NOISE + 2 * np.outer(SLOPES, SLOPES), SLOPES)
    assert fit.weights.ranking == pytest.approx(best[1] / best.sum(), abs=0.03)
    lead = np.array([1 - fit.weights.ranking, fit.weights.ranking])
    assert fit.noise.slope == pytest.approx(lead @ SLOPES, abs=0.03)
    assert fit.noise.level_slope == pytest.approx(LEVEL_SLOPE, abs=0.02)
    assert fit.noise.noise == pytest.approx(lead @ NOISE @ lead, abs=0.04)
    assert fit.noise.level_noise == pytest.approx(LEVEL_NOISE, abs=0.02)
    assert fit.noise.prompt == pytest.approx(lead @ PROMPT_BIAS @ lead, abs=0.04)
    assert (fit.gap_bias, fit.ranking_bias) == pytest.approx(tuple(BIAS), abs=0.03)


@pytest.mark.parametrize("plan", [PLAN[:8], pytest.param(TANGLED, marks=pytest.mark.slow)])
def test_the_error_of_the_reliability_is_that_of_leaving_out_groups(plan):
    """The expected reliability has the standard error of the jackknife, which fits again without
    each group in turn.
    """
    batch, _ = linear_judge(40, 8, plan, failures=0.1)
    groups = [verdicts_of(pairs_of(batch, group)) for group in range(40)]

    def fit_without(left_out):
        statistics = CalibrationStatistics()
        for verdicts in (each for number, each in enumerate(groups) if number != left_out):
            statistics.add_group(8, verdicts)
        return statistics.fit()

    expected = [fit_without(each).expected for each in range(40)]
    jackknife = math.sqrt(39 / 40 * sum((each - sum(expected) / 40) ** 2 for each in expected))
    assert fit_without(None).expected_error == pytest.approx(jackknife, rel=0.15)


def test_parts_of_a_run_add_up():
    """Group by group, in batches, in another order, with the sums of parts added: the same fit."""
    batch, _ = linear_judge(130, 8, TANGLED, failures=0.1)
    whole = fit_of(batch)
    parts = [CalibrationStatistics(), CalibrationStatistics()]
    for group in reversed(range(130)):
        parts[group % 2].add_group(8, verdicts_of(pairs_of(batch, group)))
    parts[0].add_group(8, {})
    numbers = (part.numbers() for part in parts)
    merged = CalibrationStatistics.of_numbers(list(map(sum, zip(*numbers, strict=True)))).fit()
    assert merged.groups == whole.groups == 130
    for name in ("slope", "noise", "level_slope", "level_noise"):
        assert getattr(merged.noise, name) == pytest.approx(getattr(whole.noise, name))
    assert merged.expected == pytest.approx(whole.expected)
    assert merged.expected_error == pytest.approx(whole.expected_error)
    assert merged.gap_bias == pytest.approx(whole.gap_bias)


def test_one_verdict_is_opinion_not_bias():
    """A run of one verdict does not explain it away."""
    statistics = CalibrationStatistics()
    statistics.add_group(2, verdicts_of([(0, 1, 5, 1, 1)]))
    fit = statistics.fit()
    assert fit.gap_bias == 4 / (1 + UNBIASED_VERDICTS)
    assert fit.noise is None
    assert fit.expected is None
    better, worse = estimate("adaptive", 2, verdicts_of([(0, 1, 5, 1, 1)]), fit).base_scores
    assert better - worse > 2
    assert CalibrationStatistics().fit() == Calibration()


def test_groups_too_small_to_tell_rollouts_from_prompts():
    """Without verdicts that share no rollout there is no fit, however many groups."""
    for n in [2, 3]:
        batch, _ = linear_judge(300, n, [(i, (i + 1) % n) for i in range(n)])
        fit = fit_of(batch)
        assert fit.noise is None


def test_a_judge_that_always_says_the_same_has_no_signal():
    """No weights, no errors, no division by zero; and no differences where the order is
    balanced.
    """
    for score_1, score_2, ranking in [(3.0, 3.0, 3.5), (3.0, 2.0, 2.0), (4.0, 2.0, 2.0)]:
        batch, _ = linear_judge(200, 8, PLAN)
        batch.score_1[:] = score_1
        batch.score_2[:] = score_2
        batch.ranking[:] = ranking
        fit = fit_of(batch)
        for name in ESTIMATORS:
            made = estimate(name, 8, verdicts_of(pairs_of(batch, 0)), fit)
            assert max(made.base_scores) - min(made.base_scores) < 1e-9
            assert made.reliability is None or made.reliability < 1e-9


@pytest.mark.parametrize("estimator", ["adaptive", "simple_tiebreaker"])
def test_equal_responses_spread_by_chance(estimator):
    """Of groups whose qualities are equal, one in ten has a chance below .1, and so on; of groups
    whose qualities differ, most do. The judge's noise is known from a run.
    """
    fit = fit_of(linear_judge(2_000, 8, PLAN)[0])
    batches = (linear_judge(2_000, 8, PLAN, seed=1, spread=spread)[0] for spread in (0.0, 1.0))
    equal, varied = (ESTIMATORS[estimator](batch, fit).errors.chances for batch in batches)
    for level in (0.05, 0.1, 0.2, 0.5):
        assert np.mean(equal < level) == pytest.approx(level, abs=0.04)
    assert np.mean(varied < 0.1) > 0.5
