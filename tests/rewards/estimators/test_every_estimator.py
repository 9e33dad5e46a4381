"""Properties of every estimator, for any verdicts."""

import math

import numpy as np
import pytest
from drawn_verdicts import LISTS, MAX_N, VERDICTS, approx, fit_of, linear_judge, pairs_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from verdict_rows import Row, verdicts_of

from genrm_cli.judging.profiles.answer import MEANINGS
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import ESTIMATORS, estimate, estimate_many
from genrm_cli.rewards.estimators.judge_noise import NOISE as TYPICAL_NOISE
from genrm_cli.rewards.estimators.judge_noise import SLOPES, JudgeNoise, LeadMoments
from genrm_cli.rewards.estimators.verdict_batch import batches_of, verdict_array

KNOWN = Calibration(
    groups=500,
    noise=JudgeNoise(0.6, 0.35, 0.5, 0.3, 0.1),
    score_noise=JudgeNoise(0.8, 0.35, 1.2, 0.3, 0.25),
    expected=0.4,
)
NAMES = sorted(ESTIMATORS)
every_estimator = pytest.mark.parametrize("name", NAMES)
RINGS_OF_16 = {
    k: [(i, j) for i, j, _ in PairingPlan("ring", ring_k=k).iter_pairs(16)] for k in (1, 2)
}
GOLDEN = [
    Row(*v)
    for v in [
        (0, 1, 4, 3, 2),
        (1, 2, 3, 3, 4),
        (2, 3, 4, 2, 1),
        (3, 0, 2, 5, 6),
    ]
]


def squared_correlations(scores, quality):
    """Return them group by group, 0 where the scores have no spread."""
    a, b = (values - values.mean(axis=1, keepdims=True) for values in (scores, quality))
    squares = (a**2).sum(axis=1) * (b**2).sum(axis=1)
    return np.divide(
        (a * b).sum(axis=1) ** 2, squares, out=np.zeros_like(squares), where=squares > 1e-12
    )


def naive_qualities(n, rows, gap_bias=0.0, ranking_bias=0.0, weight=2 / 3, level=1.0):
    """Return the base scores written as a regression: one row for each lead, level and quality."""
    slope = (1 - weight) * SLOPES[0] + weight * SLOPES[1]
    shares = np.array([1 - weight, weight])
    noise = shares @ TYPICAL_NOISE @ shares
    levels = np.array([(row.score_1 + row.score_2) / 2 for row in rows])
    has_levels = np.ptp(levels) > 0
    decided = np.mean([row.score_1 != row.score_2 or row.ranking != 3.5 for row in rows])
    close = np.ones(len(rows))
    for _ in range(2):
        design = list(np.eye(n))
        values = [0.0] * n
        mean = np.mean([np.eye(n)[row.i] + np.eye(n)[row.j] for row in rows], axis=0)
        for row, nearness, of_level in zip(rows, close / close.mean(), levels, strict=True):
            is_tie = row.score_1 == row.score_2 and row.ranking == 3.5
            share = nearness * (decided if is_tie else 1)
            d = row.score_1 - row.score_2 - gap_bias * share
            r = 3.5 - row.ranking - ranking_bias * share
            design.append((np.eye(n)[row.i] - np.eye(n)[row.j]) * slope / noise**0.5)
            values.append(((1 - weight) * d + weight * r) / noise**0.5)
            if has_levels:
                root = (level / 0.23) ** 0.5
                design.append((np.eye(n)[row.i] + np.eye(n)[row.j] - mean) * 0.35 * root)
                values.append((of_level - levels.mean()) * root)
        qualities = np.linalg.lstsq(np.array(design), np.array(values), rcond=None)[0]
        apart = np.array([qualities[row.i] - qualities[row.j] for row in rows])
        close = 1 / np.cosh(0.4 * apart) ** 2
    judged = {index for row in rows for index in (row.i, row.j)}
    scores = (levels.mean() + 0.7 * qualities).tolist()
    return [score if index in judged else None for index, score in enumerate(scores)]


@given(verdicts=LISTS.filter(len), biases=st.tuples(st.floats(-1, 1), st.floats(-1, 1)))
def test_base_scores_are_those_of_the_regression(verdicts, biases):
    """Each lead, level and quality is a row of it, and close leads carry the position."""
    judge = Calibration(groups=9, gap_bias=biases[0], ranking_bias=biases[1])
    made = estimate("adaptive", MAX_N, verdicts_of(verdicts), judge)
    assert made.base_scores == approx(naive_qualities(MAX_N, verdicts, *biases))


@every_estimator
@given(verdicts=LISTS, order=st.permutations(range(MAX_N)))
def test_names_do_not_matter(name, verdicts, order):
    """Numbering the rollouts otherwise numbers scores and errors otherwise, and nothing else."""
    renamed = [Row(order[v.i], order[v.j], *v[2:]) for v in verdicts]
    here = estimate(name, MAX_N, verdicts_of(verdicts), KNOWN)
    there = estimate(name, MAX_N, verdicts_of(renamed), KNOWN)
    assert [there.base_scores[place] for place in order] == approx(here.base_scores)
    assert [there.standard_errors[place] for place in order] == approx(here.standard_errors)
    assert approx([here.reliability]) == [there.reliability]


@every_estimator
@given(verdicts=LISTS)
def test_places_do_not_matter_to_an_unbiased_judge(name, verdicts):
    """The same opinions with the responses shown in the other order give the same numbers."""
    swapped = [Row(v.j, v.i, v.score_2, v.score_1, 7 - v.ranking) for v in verdicts]
    here = estimate(name, MAX_N, verdicts_of(verdicts), KNOWN)
    there = estimate(name, MAX_N, verdicts_of(swapped), KNOWN)
    assert there.base_scores == approx(here.base_scores)
    assert there.standard_errors == approx(here.standard_errors)


@every_estimator
@given(
    verdicts=st.lists(VERDICTS, min_size=1, max_size=20), better=st.floats(0.01, 4), data=st.data()
)
def test_a_better_verdict_never_lowers_a_score(name, verdicts, better, data):
    """A higher score, or a ranking nearer to the rollout, of any verdict leaves its base score at
    least as high.

    But for the reference's: there a score that rises past a tie loses what the tie's ranking gave.
    """
    which = data.draw(st.integers(0, len(verdicts) - 1))
    of_score = data.draw(st.booleans()) and name != "simple_tiebreaker"
    verdict = verdicts[which]
    raised = verdict._replace(score_1=verdict.score_1 + better) if of_score else None
    raised = raised or verdict._replace(ranking=verdict.ranking - better)
    after = estimate(
        name, MAX_N, verdicts_of([*verdicts[:which], raised, *verdicts[which + 1 :]]), KNOWN
    )
    before = estimate(name, MAX_N, verdicts_of(verdicts), KNOWN)
    assert after.base_scores[verdict.i] >= before.base_scores[verdict.i] - 1e-7


@every_estimator
@given(verdicts=LISTS)
def test_every_rollout_with_a_verdict_has_a_finite_number(name, verdicts):
    """On any graph, connected or not; none without a verdict, and no error where there is no other
    to compare with.
    """
    made = estimate(name, MAX_N, verdicts_of(verdicts), KNOWN)
    judged = {place for v in verdicts for place in (v.i, v.j)}
    for place in range(MAX_N):
        score = made.base_scores[place]
        error = made.standard_errors[place]
        assert (score is not None) == (error is not None) == (place in judged)
        assert score is None or (math.isfinite(score) and math.isfinite(error) and error >= 0)
    assert made.reliability is None if not verdicts else 0 <= made.reliability <= 1


@every_estimator
def test_the_smallest_groups(name):
    """Nobody, one, two without a verdict: no numbers. Two with one verdict: two numbers, the better
    one higher.
    """
    for n in (0, 1, 2):
        empty = estimate(name, n, verdicts_of([]), KNOWN)
        assert empty.base_scores == [None] * n
        assert empty.standard_errors == [None] * n
        assert empty.reliability is None
    better, worse = estimate(name, 2, verdicts_of([Row(0, 1, 4, 2, 2)]), Calibration()).base_scores
    assert better > worse


@every_estimator
def test_many_groups_get_the_numbers_that_each_gets_alone(name):
    """To the last bit, whatever the sizes and the order of the groups beside them."""
    groups = []
    for n, ring_k, failures in ((6, 1, 0.3), (8, 2, 0.3), (6, 1, 0.0), (1, 1, 0.0)):
        plan = [(i, j) for i, j, _ in PairingPlan("ring", ring_k=ring_k).iter_pairs(n)] or [(0, 0)]
        batch, _ = linear_judge(12, n, plan, seed=n, failures=failures)
        groups += [(n, verdicts_of(pairs_of(batch, group) if n > 1 else [])) for group in range(12)]
    alone = [estimate(name, *group, KNOWN) for group in groups]
    assert estimate_many(name, groups, KNOWN) == alone
    assert estimate_many(name, groups[::-5], KNOWN) == alone[::-5]
    assert estimate_many(name, [], KNOWN) == []


@every_estimator
@given(verdicts=LISTS.filter(len))
def test_verdicts_that_prefer_nobody_make_no_difference(name, verdicts):
    """Neither do the judge's position preference and where the rollouts were shown; the reliability
    is 0.
    """
    leaning = replace(KNOWN, gap_bias=0.4, ranking_bias=0.3)
    ties = verdicts_of(row._replace(score_1=3.0, score_2=3.0, ranking=3.5) for row in verdicts)
    made = estimate(name, MAX_N, ties, leaning)
    assert {score for score in made.base_scores if score is not None} == {3.0}
    assert not made.reliability


@every_estimator
@given(data=st.data())
def test_one_preference_does_not_decide_among_rollouts_that_only_tied(name, data):
    """In a group of ties with one other verdict, they stay nearer to the middle than its two
    rollouts, however often the judge prefers the first.
    """
    judge = Calibration(50, gap_bias=0.5, ranking_bias=0.4)
    n = data.draw(st.integers(4, 16))
    pairs = [*PairingPlan("ring", ring_k=data.draw(st.sampled_from([0.5, 1, 2.5]))).iter_pairs(n)]
    i, j, _ = decided = data.draw(st.sampled_from(pairs))
    verdicts = dict.fromkeys(pairs, MEANINGS["tie"])
    verdicts[decided] = MEANINGS[data.draw(st.sampled_from(["better", "worse"]))]
    scores = estimate(name, n, verdicts, judge).base_scores
    leads = {index: abs(score - 3) for index, score in enumerate(scores) if score is not None}
    half = (leads.pop(i) + leads.pop(j)) / 4
    assert max(leads.values()) < half


@every_estimator
def test_little_known_of_the_judge_is_no_error(name):
    """Without a run there is neither reliability nor standard error."""
    made = estimate(name, 4, verdicts_of(GOLDEN), Calibration())
    assert made.reliability is None
    assert made.standard_errors == [None] * 4


@every_estimator
@pytest.mark.parametrize(
    "ring_k", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(5, marks=pytest.mark.slow)]
)
def test_reliability_foretells_the_squared_correlation(name, ring_k):
    """Over 1,500 groups, and over the least and the most reliable fifth of them, to less than a
    tenth.
    """
    plan = [(i, j) for i, j, _ in PairingPlan("ring", ring_k=ring_k).iter_pairs(12)]
    batch, quality = linear_judge(1500, 12, plan)
    made = ESTIMATORS[name](batch, fit_of(batch))
    reliabilities = made.errors.reliabilities
    squared = squared_correlations(made.base_scores, quality)
    order = np.argsort(reliabilities)
    for some in (order, order[:300], order[-300:]):
        assert reliabilities[some].mean() == pytest.approx(squared[some].mean(), abs=0.1)


@every_estimator
@pytest.mark.parametrize("ring_k", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_pure_noise_is_not_reliable(name, ring_k):
    """Where verdicts have nothing to do with the rollouts, less than a fifth is said to be signal,
    and never None.
    """
    batch, _ = linear_judge(500, 16, RINGS_OF_16[ring_k])
    generator = np.random.default_rng(3)
    for column in (batch.score_1, batch.score_2, batch.ranking):
        generator.shuffle(column.reshape(-1))
    made = ESTIMATORS[name](batch, fit_of(batch))
    assert made.errors.reliabilities.mean() < 0.2


@pytest.mark.parametrize(
    ("n", "ring_k"),
    [
        pytest.param(12, 1, marks=pytest.mark.slow),
        pytest.param(12, 4, marks=pytest.mark.slow),
        (5, 1),
    ],
)
def test_standard_errors_are_those_made(n, ring_k):
    """The mean squared error of the base scores, known here, is the mean of the squared standard
    errors.
    """
    plan = [(i, j) for i, j, _ in PairingPlan("ring", ring_k=ring_k).iter_pairs(n)]
    batch, quality = linear_judge(4000, n, plan)
    fit = fit_of(batch)
    made = ESTIMATORS["adaptive"](batch, fit)
    centred = [
        values - values.mean(axis=1, keepdims=True) for values in (made.base_scores, quality)
    ]
    shares = np.array([1 - fit.weights.ranking, fit.weights.ranking])
    scale = 0.7 * fit.noise.slope / (shares @ SLOPES)
    actual = ((centred[0] - scale * centred[1]) ** 2).mean()
    assert made.errors.variances.mean() == pytest.approx(actual, rel=0.05)


@every_estimator
def test_a_standard_error_is_the_root_of_its_variance(name):
    """It has the unit of the base scores."""
    verdicts = verdicts_of(GOLDEN)
    ((_, batch),) = batches_of([(4, verdict_array(verdicts))])
    variances = ESTIMATORS[name](batch, KNOWN).errors.variances[0]
    errors = estimate(name, 4, verdicts, KNOWN).standard_errors
    assert [error**2 for error in errors] == approx(list(variances))


def test_a_negative_variance_of_prompts_gives_errors_all_the_same():
    """All pairs show the first rollout first in every comparison, which multiplies the moment."""
    pairs = PairingPlan("all_pairs").iter_pairs(16)
    verdicts = dict.fromkeys(pairs, MEANINGS["better"])
    noise = LeadMoments(0.3, 0.1, 0.1, 1.5, 0.5).noise(prompt=-0.5)
    made = estimate("adaptive", 16, verdicts, replace(KNOWN, noise=noise))
    assert all(math.isfinite(error) for error in made.standard_errors)
