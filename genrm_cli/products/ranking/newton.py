"""Newton's method for many concave functions of one shape at once: the maximum of a likelihood."""

from collections.abc import Callable

import numpy as np

from genrm_cli.rewards.estimators.verdict_batch import Floats

_MAX_STEPS = 50
_MAX_HALVINGS = 30
# Near the top heights differ by rounding only; a step that loses no more than that is good.
_ROUNDING = 1e-12


def ascend(
    surface: Callable[[Floats], tuple[Floats, Floats, Floats]],
    curvature: Callable[[Floats], Floats],
    start: Floats,
    tolerance: float,
) -> tuple[Floats, Floats]:
    """Return where B functions of W numbers are highest, [B, W], and their slopes there, [B, W].

    Steps are halved while they overshoot.

    Args:
        surface: returns for any [B, W] the heights [B], the slopes [B, W] and what the curvature
            needs.
        curvature: returns the negative second derivatives [B, W, W].
        start: where to begin, [B, W].
        tolerance: of a slope; functions that are flatter than this stay where they are.
    """
    solution = start
    height, slope, bend = surface(solution)
    for _ in range(_MAX_STEPS):
        moving = np.abs(slope).max(axis=1, initial=0.0) > tolerance
        if not moving.any():
            break
        step = np.linalg.solve(curvature(bend), slope[..., None])[..., 0] * moving[:, None]
        for _ in range(_MAX_HALVINGS):
            reached, new_slope, new_bend = surface(solution + step)
            lower = reached < height - _ROUNDING * (1 + np.abs(height))
            if not lower.any():
                break
            step[lower] /= 2
        solution = solution + step
        height = reached
        slope = new_slope
        bend = new_bend
    return solution, slope
