"""Strengths of policies from all outcomes: Bradley-Terry with ties and a term for the position.

An outcome is a row of a logistic regression. Its columns are the policies, 1 for the first and -1
for the second; a column of ones for the position, if any pair was shown in both orders; and the
length, on request. The strengths are determined but for their sum, which a prior fixes at 0. They
have no maximum if some policies never lost against the rest: then each ordered pair gets a quarter
of a win each way. Errors are those of prompts, because outcomes on one prompt depend on each other.
"""

from dataclasses import dataclass

import numpy as np

from genrm_cli.products.ranking.newton import ascend
from genrm_cli.products.ranking.outcomes import Outcomes
from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices

# Wins each way per ordered pair, if the maximum does not exist; more would shrink the gaps.
_PSEUDO_WINS = 0.25
# Precision of gamma and beta: finite if the first, or the longer response, always wins.
_WEAK_PRIOR = 0.01
_TOLERANCE = 1e-11  # of the slope, over the number of outcomes


@dataclass(frozen=True, slots=True)
class Strengths:
    """Strengths of K policies; they sum to 0.

    Attributes:
        theta: [K] log strengths: P(first wins) = 1 / (1 + exp(-(theta_first - theta_second + gamma
            + beta z))).
        gamma: advantage of the first position; None if no pair was shown in both orders.
        beta: weight of z = tanh(length difference / its root mean square); None without this term.
        cov: covariance of theta, then gamma, then beta, of those there are; prompts are its unit.
        influence: [P, W] how far each prompt moves each of them.
        separated: whether some policies never lost, or never won, against the rest: then the
            maximum of the likelihood does not exist, and each ordered pair got a quarter of a win
            each way.
    """

    theta: Floats
    gamma: float | None
    beta: float | None
    cov: Floats
    influence: Floats
    separated: bool


def fit_strengths(outcomes: Outcomes, *, with_length: bool = False) -> Strengths | None:
    """Fit the strengths of all policies; None if no chain of comparisons joins them, or no length
    ever differs.

    Outcomes of one pair on one prompt share a weight of 1; ties are half a win each. The covariance
    is a sandwich over n prompts with the factor n / (n - 1), NaN for one.

    Source: R. A. Bradley and M. E. Terry, Biometrika 39 (1952) 324; position: R. R. Davidson and R.
    J. Beaver, Biometrics 33 (1977) 693; existence: L. R. Ford, American Mathematical Monthly 64
    (1957) 28; sandwich over
    clusters: K.-Y. Liang and S. L. Zeger, Biometrika 73 (1986) 13; length: Y. Dubois et al., arXiv
    2404.04475."""
    k = outcomes.k
    first = outcomes.first
    second = outcomes.second
    won = outcomes.won
    scale = float(np.sqrt(np.mean(outcomes.longer**2))) if with_length else 1.0
    shown = np.zeros((k, k), dtype=bool)
    shown[first, second] = True
    beaten = np.zeros((k, k), dtype=bool)
    beaten[first[won > 0], second[won > 0]] = True
    beaten[second[won < 1], first[won < 1]] = True
    if not scale or not _joins_all(beaten | beaten.T):
        return None
    prompts = len(outcomes.chars)
    n = len(np.unique(outcomes.prompt))
    prompt = outcomes.prompt
    weight = outcomes.weights
    lengths = np.tanh(outcomes.longer / scale)
    separated = not _joins_all(beaten)
    if separated:  # a tie of each ordered pair that was shown, each on a prompt of its own
        firsts, seconds = np.nonzero(shown)
        ones = np.ones(len(firsts))
        prompt = np.append(prompt, prompts + np.arange(len(firsts)))
        first = np.append(first, firsts)
        second = np.append(second, seconds)
        won = np.append(won, ones / 2)
        weight = np.append(weight, 2 * _PSEUDO_WINS * ones)
        lengths = np.append(lengths, 0 * ones)
    has_position = bool((shown & shown.T).any())
    columns = [_contrasts(first, second, k)]
    if has_position:
        columns.append(np.ones((len(first), 1)))
    if with_length:
        columns.append(lengths[:, None])
    design = np.hstack(columns)
    prior = _WEAK_PRIOR * np.eye(design.shape[1])
    prior[:k, :k] = 1 / k  # on the sum of the strengths, which no outcome shows
    solution, curvature = _maximise(design, won, weight, prior)
    surprise = weight * (won - _logistic(design @ solution))
    scores = np.zeros((max(prompts, int(prompt.max()) + 1), design.shape[1]))
    np.add.at(scores, prompt, design * surprise[:, None])
    influence = scores @ np.linalg.inv(curvature)
    factor = n / (n - 1) if n > 1 else np.nan
    return Strengths(
        theta=solution[:k],
        gamma=float(solution[k]) if has_position else None,
        beta=float(solution[-1]) if with_length else None,
        cov=factor * influence.T @ influence,
        influence=influence[:prompts],
        separated=separated,
    )


def predicted_shares(fit: Strengths, pairs: Indices, shares: Floats) -> tuple[Floats, Floats]:
    """Return [M] the win rates that strengths predict for pairs, as the mean of both orders, and
    the standard errors of the differences from the win rates that were found.

    Args:
        fit: of the outcomes behind the win rates.
        pairs: of policies, [M, 2].
        shares: what the first policy of each pair won on each prompt, [P, M]; NaN where unknown.

    Source: the delta method over clusters, as for `fit_strengths`.
    """
    known = ~np.isnan(shares)
    counts = np.maximum(1, known.sum(axis=0))
    rates = np.where(known, shares, 0.0).sum(axis=0) / counts
    gaps = fit.theta[pairs[:, 0]] - fit.theta[pairs[:, 1]]
    position = fit.gamma or 0.0
    first = _logistic(gaps + position)
    second = _logistic(gaps - position)
    up = first * (1 - first) / 2
    down = second * (1 - second) / 2
    k = len(fit.theta)
    moves = (up + down)[:, None] * _contrasts(pairs[:, 0], pairs[:, 1], k) @ fit.influence[:, :k].T
    if fit.gamma is not None:
        moves += np.outer(up - down, fit.influence[:, k])
    residuals = np.where(known, shares - rates, 0.0) / counts - moves.T
    n = int(known.any(axis=1).sum())
    return (first + second) / 2, np.sqrt((residuals**2).sum(axis=0) * n / max(1, n - 1))


def _maximise(design: Floats, won: Floats, weight: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Return the solution [W] of a logistic fit with a design [N, W], and its curvature."""

    def surface(solutions: Floats) -> tuple[Floats, Floats, Floats]:
        odds = solutions @ design.T
        expected = _logistic(odds)
        shrinkage = solutions @ prior
        height = (weight * (won * odds - np.logaddexp(0.0, odds))).sum(axis=1)
        height -= (solutions * shrinkage).sum(axis=1) / 2
        slope = (weight * (won - expected)) @ design - shrinkage
        return height, slope, weight * expected * (1 - expected)

    def curvature(spread: Floats) -> Floats:
        weighted = spread[:, :, None] * design
        return np.asarray(weighted.transpose(0, 2, 1) @ design + prior)

    start = np.zeros((1, design.shape[1]))
    tolerance = _TOLERANCE * max(1.0, float(weight.sum()))
    solutions, _ = ascend(surface, curvature, start, tolerance)
    return solutions[0], curvature(surface(solutions)[2])[0]


def _joins_all(edges: Flags) -> bool:
    """Return whether a path leads from each policy to each other one."""
    reached = edges | np.eye(len(edges), dtype=bool)
    for _ in range(len(edges).bit_length()):
        reached = (reached.astype(np.float64) @ reached) > 0
    return bool(reached.all())


def _contrasts(first: Indices, second: Indices, k: int) -> Floats:
    """Return [N, K] rows with 1 for the first policy and -1 for the second."""
    return np.asarray(np.eye(k)[first] - np.eye(k)[second])


def _logistic(odds: Floats) -> Floats:
    return np.asarray((1 + np.tanh(odds / 2)) / 2)
