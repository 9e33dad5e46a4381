"""Strengths of policies from all outcomes: Bradley-Terry with ties and a term for the position."""

from dataclasses import dataclass

import numpy as np

from genrm_cli.ranking.outcomes import Outcomes
from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices

_PSEUDO_WINS = (
    0.25  # each way per ordered pair, if the maximum does not exist; more would shrink the gaps
)
_WEAK_PRIOR = (
    0.01  # precision of gamma and beta: finite if the first, or the longer response, always wins
)
_STEPS = 60
_TOLERANCE = 1e-9
_MOST_STEP = 2.0  # longer Newton steps overshoot
_RIDGE = 1e-3  # of refits: in a resample, a policy may never lose


@dataclass(frozen=True, slots=True)
class Strengths:
    """Strengths of K policies; they sum to 0.

    Attributes:
        theta: [K] log strengths: P(first wins) = 1 / (1 + exp(-(theta_first - theta_second + gamma
            + beta z))).
        gamma: advantage of the first position; None if no pair was shown in both orders.
        beta: weight of z = tanh(length difference / its root mean square); None without this term.
        cov: covariance of theta, then gamma, then beta, of those there are; prompts are its unit.
        separated: whether some policies never lost, or never won, against the rest: then the
            maximum of the likelihood does not exist, and each ordered pair got a quarter of a win
            each way.
    """

    theta: Floats
    gamma: float | None
    beta: float | None
    cov: Floats
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
    prompt = outcomes.prompt
    first = outcomes.first
    second = outcomes.second
    won = outcomes.won
    weight = outcomes.weights
    longer = outcomes.longer
    scale = float(np.sqrt(np.mean(longer**2))) if with_length else 1.0
    wins, shown = np.zeros((2, k, k), dtype=bool)
    wins[first[won > 0], second[won > 0]] = wins[second[won < 1], first[won < 1]] = shown[
        first, second
    ] = True
    if not scale or not _joins_all(wins | wins.T):
        return None
    n = len(np.unique(prompt))
    separated = not _joins_all(wins)
    swapped = bool((shown & shown.T).any())
    if separated:
        a, b = np.nonzero(shown)
        prompt = np.concatenate(
            [prompt, len(outcomes.chars) + np.arange(len(a))]
        )  # each on a prompt of its own
        first, second, longer = (
            np.concatenate(each) for each in ((first, a), (second, b), (longer, 0.0 * a))
        )
        won, weight = (np.append(each, np.full(len(a), 2 * _PSEUDO_WINS)) for each in (won, weight))
    terms = [np.ones(len(first))] * swapped + [np.tanh(longer / scale)] * with_length
    design = np.column_stack([_contrasts(first, second, k), *terms])
    centre = _WEAK_PRIOR * np.eye(design.shape[1])
    centre[:k, :k] = 1 / k
    (solution,), (curvature,) = _maximise(design, won[None], weight[None], centre)
    by_prompt = np.zeros((int(prompt.max()) + 1, design.shape[1]))
    inverse = np.linalg.inv(curvature)
    np.add.at(by_prompt, prompt, design * (weight * (won - _logistic(design @ solution)))[:, None])
    factor = n / (n - 1) if n > 1 else np.nan
    return Strengths(
        theta=solution[:k],
        gamma=float(solution[k]) if swapped else None,
        beta=float(solution[-1]) if with_length else None,
        cov=inverse @ (factor * by_prompt.T @ by_prompt) @ inverse,
        separated=separated,
    )


def predicted_wins(theta: Floats, gamma: Floats | float, pairs: Indices) -> Floats:
    """Return the win rates that strengths [..., K] predict for pairs [M, 2], as the mean of both
    orders.
    """
    gaps = theta[..., pairs[:, 0]] - theta[..., pairs[:, 1]]
    return (_logistic(gaps + gamma) + _logistic(gaps - gamma)) / 2


def resample(outcomes: Outcomes, rounds: int, seed: int) -> tuple[Floats, Floats]:
    """Return strengths [B, K], and observed minus predicted win rates [B, M], of B draws of the
    prompts.

    Source: B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap (1993), of clusters.
    """
    (pairs, shares), k, prompts = outcomes.win_shares(), outcomes.k, len(outcomes.chars)
    shown, place = np.unique(outcomes.first * k + outcomes.second, return_inverse=True)
    totals = np.zeros((2, prompts, len(shown)))
    np.add.at(totals[0], (outcomes.prompt, place), outcomes.weights * outcomes.won)
    np.add.at(totals[1], (outcomes.prompt, place), outcomes.weights)
    drawn = np.random.default_rng(seed).multinomial(
        prompts, np.full(prompts, 1 / prompts), size=rounds
    )
    won = drawn @ totals[0]
    weight = drawn @ totals[1]
    design = np.column_stack([_contrasts(shown // k, shown % k, k), np.ones(len(shown))])
    solution, _ = _maximise(design, won / np.maximum(weight, 1e-9), weight, _RIDGE * np.eye(k + 1))
    known = ~np.isnan(shares)
    observed = (drawn @ np.where(known, shares, 0.0)) / np.maximum(
        drawn @ known.astype(np.float64), 1e-9
    )
    return solution[:, :k], observed - predicted_wins(solution[:, :k], solution[:, k:], pairs)


def _maximise(design: Floats, won: Floats, weight: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Return the solutions [B, W] of B logistic fits with a common design [N, W], and their
    curvatures.
    """
    solution = np.zeros((len(won), design.shape[1]))
    for _ in range(_STEPS):
        expected = _logistic(solution @ design.T)
        slope = (weight * (won - expected)) @ design - solution @ prior
        weighted = (weight * expected * (1 - expected))[:, :, None] * design
        curvature = weighted.transpose(0, 2, 1) @ design + prior
        step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        if longest.max() < _TOLERANCE:
            break
        solution = solution + step * np.minimum(1.0, _MOST_STEP / np.maximum(longest, _MOST_STEP))
    return solution, curvature


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
