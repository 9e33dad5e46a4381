"""Base scores of one group from its lists, with their errors and reliability."""

import math
from collections.abc import Sequence

import numpy as np

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.running_stats import LEAST_SPREAD
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimate_errors import signal_share
from genrm_cli.rewards.estimators.estimates import Estimate
from genrm_cli.rewards.estimators.list_scores import ListScores, design_of
from genrm_cli.rewards.estimators.verdict_batch import Floats


def estimate_lists(n: int, lists: Sequence[ListScores], judge: Calibration) -> Estimate:
    """Turn the lists of a group of n rollouts into base scores, on the scale of the scores.

    Rollouts without a score have no base score. If lists do not connect all rollouts that have
    one, nothing is known about differences between the parts: no rollout has a base score.
    """
    calibration = judge.lists
    design = design_of(n, lists)
    nothing = Estimate([None] * n, [None] * n)
    if design is None:
        return nothing
    graph = design.rollouts.T @ design.rollouts
    seen = np.flatnonzero(np.diagonal(graph) > LEAST_SPREAD)
    information = graph[np.ix_(seen, seen)]
    strengths, directions = np.linalg.eigh(information)
    if strengths[1] <= LEAST_SPREAD * strengths[-1]:
        return nothing
    inverse = (directions[:, 1:] / strengths[1:]) @ directions[:, 1:].T
    corrected = design.scores - design.positions @ np.array(calibration.positions)
    qualities = inverse @ (design.rollouts.T @ corrected)[seen]
    base_scores: list[float | None] = [None] * n
    errors: list[float | None] = [None] * n
    noise = calibration.noise
    for place, index in enumerate(seen.tolist()):
        base_scores[index] = rounded(design.level + float(qualities[place]))
        if noise is not None:
            errors[index] = rounded(math.sqrt(noise * float(inverse[place, place])))
    reliability = None
    if noise is not None and calibration.signal is not None:
        reliability = rounded(
            _reliability(directions[:, 1:].T @ qualities, strengths[1:], noise, calibration.signal)
        )
    return Estimate(
        base_scores,
        errors,
        reliability=reliability,
        expected=None if reliability is None else judge.expects,
    )


def _reliability(qualities: Floats, strengths: Floats, noise: float, signal: float) -> float:
    """Return the share of signal, from the qualities along the directions of the information."""
    if signal <= 0:
        return 0.0
    kept = signal / (signal + noise / strengths)
    spread = np.array(((kept * qualities) ** 2).sum())
    missed = np.array((signal * (1 - kept)).sum())
    return float(signal_share(spread, missed))
