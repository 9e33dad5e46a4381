"""Verdicts for the tests of the estimators: drawn by hypothesis, and from a judge whose truth is
known.
"""

import numpy as np
import pytest
from hypothesis import strategies as st
from verdict_rows import Row

from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.estimators.verdict_batch import VerdictBatch

MAX_N = 6
SCORES = st.sampled_from([1.0, 1.5, 2.0, 3.0, 4.0, 5.0])
RANKINGS = st.sampled_from([1.0, 2.0, 3.0, 3.5, 4.0, 5.0, 6.0])
PAIRS = st.tuples(st.integers(0, MAX_N - 1), st.integers(0, MAX_N - 1)).filter(
    lambda pair: pair[0] != pair[1]
)
VERDICTS = st.builds(lambda pair, a, b, r: Row(*pair, a, b, r), PAIRS, SCORES, SCORES, RANKINGS)
LISTS = st.lists(VERDICTS, max_size=20)

# A linear judge: what the moments of its verdicts must be found to be.
SLOPES = np.array([0.8, 0.5])
LEVEL_SLOPE = 0.35
NOISE = np.array([[1.2, 0.3], [0.3, 0.5]])
LEVEL_NOISE = 0.3
PROMPT_BIAS = np.array([[0.25, 0.1], [0.1, 0.09]])
BIAS = np.array([0.3, 0.2])


def approx(numbers):
    """Compare up to rounding, None only with None."""
    return [number if number is None else pytest.approx(number, abs=2e-8) for number in numbers]


def fit_of(*batches):
    """Return the calibration from batches that are taken in together."""
    statistics = CalibrationStatistics()
    for batch in batches:
        statistics.add_batch(batch)
    return statistics.fit()


def pairs_of(batch, group):
    """Return the verdicts of one group of a batch as rows."""
    columns = (
        batch.first,
        batch.second,
        batch.score_1,
        batch.score_2,
        batch.ranking,
        batch.valid,
    )
    rows = zip(*(column[group].tolist() for column in columns), strict=True)
    return [Row(*row[:5]) for row in rows if row[5]]


def linear_judge(groups, n, plan, *, seed=0, failures=0.0, spread=1.0):
    """Return a batch of verdicts on one plan, and the qualities [G, n] behind them."""
    generator = np.random.default_rng(seed)
    quality = spread * generator.standard_normal((groups, n))
    first, second = (
        np.broadcast_to(np.array(column), (groups, len(plan))) for column in zip(*plan, strict=True)
    )
    rows = np.arange(groups)[:, None]
    one = quality[rows, first]
    two = quality[rows, second]

    def normal(covariance, *shape):
        return generator.standard_normal((*shape, 2)) @ np.linalg.cholesky(covariance).T

    gaps = (one - two)[..., None] * SLOPES + BIAS
    gaps = gaps + normal(PROMPT_BIAS, groups, 1) + normal(NOISE, groups, len(plan))
    levels = 3 + LEVEL_SLOPE * (one + two) + 0.4 * generator.standard_normal((groups, 1))
    levels = levels + LEVEL_NOISE**0.5 * generator.standard_normal(one.shape)
    valid = generator.random(one.shape) >= failures
    gap = gaps[..., 0]
    ranking = 3.5 - gaps[..., 1]
    return VerdictBatch(
        n, first, second, levels + gap / 2, levels - gap / 2, ranking, valid
    ), quality
