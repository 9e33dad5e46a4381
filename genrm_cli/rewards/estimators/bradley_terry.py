"""Fit strengths to preferences, with a prior that keeps them finite and a term for the position in the prompt."""

import math

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration, WinNoise
from genrm_cli.rewards.estimators.least_squares import laplacian_of, linear_reliabilities
from genrm_cli.rewards.estimators.sparse import EXACT, MAX_DENSE, ROUGH, PairMatrix, iter_probes, probed
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, Flags, Floats, VerdictBatch, inverse_of

MAX_STEPS = 50
TOLERANCE = 1e-10  # of the gradient, in verdicts
PRIOR_VARIANCE = 4.0  # of a log strength
_MAX_HALVINGS = 30


def fit_bradley_terry(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Return 3 + x / 2 with the log strengths x, for which P(first wins) = 1 / (1 + exp(-(x_i - x_j + position))).

    Log strengths have a normal prior with a standard deviation of 2, so that a perfect order or a disconnected graph
    has a finite solution; halved, their spread is about that of scores. An even verdict is half a win for both.
    Standard errors come from the normal approximation of the posterior at its maximum (Laplace). `position` is the
    run's: a position term per group would explain a rollout's wins by where it was shown.

    Source: R. A. Bradley and M. E. Terry, Biometrika 39 (1952) 324; position term: R. R. Davidson and R. J. Beaver,
    Biometrics 33 (1977) 693; normal prior: T. Leonard, Biometrics 33 (1977) 121.
    """
    wins, position = (np.sign(batch.preferences()) + 1) / 2, position_log_odds(calibration.first_share)
    strengths, converged = _maximise(batch, wins, position)
    scored = batch.counts() > 0
    spread = _spread_of(_advantages(batch, strengths, position))
    variances = (_dense_variances if batch.n <= MAX_DENSE else _probed_variances)(batch, spread, scored) / 4
    reliabilities = np.zeros(batch.groups)
    if calibration.win_noise is not None:
        reliabilities = _reliabilities(batch, wins, position, calibration.win_noise)
    return BatchEstimate(
        base_scores=3.0 + strengths / 2,
        scored=scored,
        variances=variances,
        known=np.ones(batch.groups, dtype=np.bool_),
        reliabilities=reliabilities,
        assessed=np.full(batch.groups, calibration.win_noise is not None),
        converged=converged,
    )


def position_log_odds(first_share: float) -> float:
    """Return the log odds that the first of two equal rollouts wins, if the first of any two wins in this share.

    Rollouts differ as the prior says, which brings the share nearer to a half than it is for equal ones.

    Args:
        first_share: more than 0 and less than 1.

    Source: S. L. Zeger, K.-Y. Liang, P. S. Albert, Biometrics 44 (1988) 1049, for the mean of a logistic curve over a
    normal distribution.
    """
    flattening = (16 * math.sqrt(3) / (15 * math.pi)) ** 2
    return math.log(first_share / (1 - first_share)) * math.sqrt(1 + flattening * 2 * PRIOR_VARIANCE)


def _maximise(batch: VerdictBatch, wins: Floats, position: float) -> tuple[Floats, Flags]:
    """Maximise the posterior by Newton steps, halved while they overshoot; return strengths [G, n], converged [G]."""
    solution = np.zeros((batch.groups, batch.n))
    height, slope = _height(batch, wins, position, solution), _slope(batch, wins, position, solution)
    for _ in range(MAX_STEPS):
        moving = np.abs(slope).max(axis=1, initial=0.0) > TOLERANCE
        if not moving.any():
            break
        spread = _spread_of(_advantages(batch, solution, position))
        step = _newton_step(batch, spread, slope) * moving[:, None]
        for _ in range(_MAX_HALVINGS):
            reached = _height(batch, wins, position, solution + step)
            # Near the top heights differ by rounding only; a step that loses no more than that is good.
            lower = reached < height - 1e-12 * (1 + np.abs(height))
            if not lower.any():
                break
            step[lower] /= 2
        solution, height = solution + step, reached
        slope = _slope(batch, wins, position, solution)
    return solution, np.abs(slope).max(axis=1, initial=0.0) <= TOLERANCE


def _reliabilities(batch: VerdictBatch, wins: Floats, position: float, noise: WinNoise) -> Floats:
    """Return [G] the reliabilities of Newton's first step, in which strengths follow wins linearly."""
    even = np.full_like(wins, position)
    surprise = wins - _chances(even)
    respond = _dense_response if batch.n <= MAX_DENSE else _probed_response
    slopes = (math.sqrt(noise.signal) / 2, noise.noise / 4)
    right = batch.sum_by_rollout(surprise, -surprise)
    return linear_reliabilities(*respond(batch, _spread_of(even), right, *slopes), batch.counts() > 0)


def _advantages(batch: VerdictBatch, strengths: Floats, position: float) -> Floats:
    """Return [G, M] the log odds that the first wins."""
    of_first = np.take_along_axis(strengths, batch.first, axis=1)
    return of_first - np.take_along_axis(strengths, batch.second, axis=1) + position


def _chances(advantages: Floats) -> Floats:
    chances: Floats = np.exp(-np.logaddexp(0.0, -advantages))
    return chances


def _height(batch: VerdictBatch, wins: Floats, position: float, strengths: Floats) -> Floats:
    """Return [G] the logarithm of the posterior, but for a constant."""
    advantages = _advantages(batch, strengths, position)
    likelihood = wins * advantages - np.logaddexp(0.0, advantages)
    height: Floats = (likelihood * batch.valid).sum(axis=1) - (strengths**2).sum(axis=1) / (2 * PRIOR_VARIANCE)
    return height


def _slope(batch: VerdictBatch, wins: Floats, position: float, strengths: Floats) -> Floats:
    surprise = wins - _chances(_advantages(batch, strengths, position))
    return batch.sum_by_rollout(surprise, -surprise) - strengths / PRIOR_VARIANCE


def _spread_of(advantages: Floats) -> Floats:
    """Return [G, M] the variance of each win."""
    chances = _chances(advantages)
    return chances * (1 - chances)


def _newton_step(batch: VerdictBatch, spread: Floats, slope: Floats) -> Floats:
    """Divide the slope [G, n] by the curvature."""
    if batch.n <= MAX_DENSE:
        return np.asarray(np.linalg.solve(_curvature(batch, spread), slope[..., None])[..., 0], dtype=np.float64)
    matrices = _sparse_curvatures(batch, spread)
    return np.stack([m.solve(side[:, None], EXACT)[:, 0] for m, side in zip(matrices, slope, strict=True)])


# Small groups: dense inverses


def _curvature(batch: VerdictBatch, spread: Floats) -> Floats:
    """Return [G, n, n] the negative second derivative of the logarithm of the posterior."""
    own = batch.sum_by_rollout(spread, spread) + 1 / PRIOR_VARIANCE
    return own[:, :, None] * np.eye(batch.n) - batch.sum_by_pair(spread)


def _dense_variances(batch: VerdictBatch, spread: Floats, scored: Flags) -> Floats:
    """Return [G, n] the variance of each strength less the mean of the scored ones."""
    covariances = inverse_of(_curvature(batch, spread))
    n = np.maximum(scored.sum(axis=1), 1)[:, None]
    with_mean = np.where(scored[:, None, :], covariances, 0.0).sum(axis=2) / n
    of_mean = np.where(scored, with_mean, 0.0).sum(axis=1, keepdims=True) / n
    variances: Floats = np.diagonal(covariances, axis1=1, axis2=2) - 2 * with_mean + of_mean
    return variances


def _dense_response(
    batch: VerdictBatch, spread: Floats, right: Floats, slope: float, variance: float
) -> tuple[Floats, Floats, Floats]:
    """Return the solution, `shared` and `total` of `linear_reliabilities` for a linear system with this curvature."""
    inverse = inverse_of(_curvature(batch, spread))
    solution = (inverse @ right[..., None])[..., 0]
    passed_on = inverse @ laplacian_of(batch)
    seen, noisy = slope * passed_on, variance * (passed_on * inverse).sum(axis=2)
    return solution, np.trace(seen, axis1=1, axis2=2), (seen**2).sum(axis=(1, 2)) + noisy.sum(axis=1)


# Large groups: conjugate gradients, and probing as in `least_squares`


def _sparse_curvatures(batch: VerdictBatch, spread: Floats) -> list[PairMatrix]:
    """Return `_curvature` of each group."""
    own, none = batch.sum_by_rollout(spread, spread) + 1 / PRIOR_VARIANCE, np.zeros(batch.n)
    pairs = zip(own, spread, batch.iter_pairs(), strict=True)
    return [PairMatrix(mine, first, second, -of_pair[valid], none) for mine, of_pair, (first, second, valid) in pairs]


def _probed_variances(batch: VerdictBatch, spread: Floats, scored: Flags) -> Floats:
    """Estimate `_dense_variances`; see `iter_probes` for the accuracy."""
    variances = np.zeros(scored.shape)
    for group, matrix in enumerate(_sparse_curvatures(batch, spread)):
        share = scored[group] / max(1, int(scored[group].sum()))
        for probes in iter_probes(batch.n, matrix.first, matrix.second):
            solved = matrix.solve(probes - np.outer(share, probes.sum(axis=0)), ROUGH)
            variances[group] += probed(probes, solved - share @ solved)
    return np.maximum(variances, 0.0)


def _probed_response(
    batch: VerdictBatch, spread: Floats, right: Floats, slope: float, variance: float
) -> tuple[Floats, Floats, Floats]:
    """Estimate `_dense_response`, with an exact solution."""
    shared, total = np.zeros(batch.groups), np.zeros(batch.groups)
    for group, (matrix, counts) in enumerate(zip(_sparse_curvatures(batch, spread), batch.counts(), strict=True)):
        laplacian = PairMatrix(counts, matrix.first, matrix.second, -np.ones(len(matrix.first)), np.zeros(batch.n))
        for probes in iter_probes(batch.n, matrix.first, matrix.second):
            solved = matrix.solve(probes, ROUGH)
            passed_on = laplacian @ solved
            shared[group] += slope * probed(probes, passed_on).sum()
            total[group] += slope**2 * probed(passed_on, passed_on).sum() + variance * probed(solved, passed_on).sum()
    return _newton_step(batch, spread, right), shared, total
