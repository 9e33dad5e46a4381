"""Strengths of policies from all outcomes: Bradley-Terry with ties and a term for the position.

An outcome is a row of a logistic regression. Its columns are the policies, 1 for the first and -1
for the second, and a column of ones for the position, if any pair was shown in both orders. The
strengths are determined but for their sum, which a prior fixes at 0. They have no maximum if some
policies never lost against the rest: then each ordered pair gets a quarter of a win each way.
Errors are those of prompts, because outcomes on one prompt depend on each other.
"""

import numpy as np
from msgspec import Struct

from genrm_cli.products.ranking.outcomes import Outcomes
from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats

# Wins each way per ordered pair, if the maximum does not exist; more would shrink the gaps.
_PSEUDO_WINS = 0.25
# Precision of gamma: finite if the first response always wins.
_WEAK_PRIOR = 0.01
_TOLERANCE = 1e-11  # of the slope, over the number of outcomes
_MOST_STEPS = 50


class Strengths(Struct, frozen=True):
    """Strengths of K policies; they sum to 0.

    Attributes:
        theta: [K] log strengths: P(first wins) = 1 / (1 + exp(-(theta_first - theta_second +
            gamma))).
        gamma: advantage of the first position; None if no pair was shown in both orders.
        cov: [K, K] covariance of theta; prompts are its unit.
        separated: whether some policies never lost, or never won, against the rest: then the
            maximum of the likelihood does not exist, and each ordered pair got a quarter of a win
            each way.
    """

    theta: Floats
    gamma: float | None
    cov: Floats
    separated: bool


def fit_strengths(outcomes: Outcomes) -> Strengths | None:
    """Fit the strengths of all policies; None if no chain of comparisons joins them.

    Outcomes of one pair on one prompt share a weight of 1; ties are half a win each. The covariance
    is a sandwich over n prompts with the factor n / (n - 1), NaN for one.

    Source: R. A. Bradley and M. E. Terry, Biometrika 39 (1952) 324; position: R. R. Davidson and R.
    J. Beaver, Biometrics 33 (1977) 693; existence: L. R. Ford, American Mathematical Monthly 64
    (1957) 28; sandwich over clusters: K.-Y. Liang and S. L. Zeger, Biometrika 73 (1986) 13.
    """
    k = outcomes.k
    first = outcomes.first
    second = outcomes.second
    won = outcomes.won
    shown = np.zeros((k, k), dtype=bool)
    shown[first, second] = True
    beaten = np.zeros((k, k), dtype=bool)
    beaten[first[won > 0], second[won > 0]] = True
    beaten[second[won < 1], first[won < 1]] = True
    if not _joins_all(beaten | beaten.T):
        return None
    prompts = outcomes.table.prompts
    n = len(np.unique(outcomes.prompt))
    prompt = outcomes.prompt
    weight = outcomes.weights
    separated = not _joins_all(beaten)
    if separated:  # a tie of each ordered pair that was shown, each on a prompt of its own
        firsts, seconds = np.nonzero(shown)
        ones = np.ones(len(firsts))
        prompt = np.append(prompt, prompts + np.arange(len(firsts)))
        first = np.append(first, firsts)
        second = np.append(second, seconds)
        won = np.append(won, ones / 2)
        weight = np.append(weight, 2 * _PSEUDO_WINS * ones)
    has_position = bool((shown & shown.T).any())
    position = np.ones((len(first), int(has_position)))
    design = np.hstack([np.eye(k)[first] - np.eye(k)[second], position])
    prior = _WEAK_PRIOR * np.eye(design.shape[1])
    prior[:k, :k] = 1 / k  # on the sum of the strengths, which no outcome shows
    solution, curvature = _maximise(design, won, weight, prior)
    surprise = weight * (won - _logistic(design @ solution))
    scores = np.zeros((max(prompts, int(prompt.max()) + 1), design.shape[1]))
    np.add.at(scores, prompt, design * surprise[:, None])
    influence = (scores @ np.linalg.inv(curvature))[:, :k]
    factor = n / (n - 1) if n > 1 else np.nan
    return Strengths(
        theta=solution[:k],
        gamma=float(solution[k]) if has_position else None,
        cov=factor * influence.T @ influence,
        separated=separated,
    )


def _maximise(design: Floats, won: Floats, weight: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Return the solution [W] of a logistic fit with a design [N, W], and its curvature, by
    Newton's method; steps are halved while they overshoot.
    """

    def height(solution: Floats) -> float:
        odds = design @ solution
        fit = weight @ (won * odds - np.logaddexp(0.0, odds))
        return float(fit - solution @ prior @ solution / 2)

    tolerance = _TOLERANCE * max(1.0, float(weight.sum()))
    solution: Floats = np.zeros(design.shape[1])
    curvature = prior
    for _ in range(_MOST_STEPS):
        expected = _logistic(design @ solution)
        slope = (weight * (won - expected)) @ design - prior @ solution
        curvature = (design.T * (weight * expected * (1 - expected))) @ design + prior
        if np.abs(slope).max() <= tolerance:
            break
        step = np.linalg.solve(curvature, slope)
        least = height(solution) - _TOLERANCE
        for _ in range(_MOST_STEPS):
            if height(solution + step) >= least:
                break
            step = step / 2
        solution = solution + step
    return solution, curvature


def _joins_all(edges: Flags) -> bool:
    """Return whether a path leads from each policy to each other one."""
    reached = edges | np.eye(len(edges), dtype=bool)
    for _ in range(len(edges).bit_length()):
        reached = (reached.astype(np.float64) @ reached) > 0
    return bool(reached.all())


def _logistic(odds: Floats) -> Floats:
    return np.asarray((1 + np.tanh(odds / 2)) / 2)
