"""Critical values of a ranking's intervals, which hold however often you look.

A ranking invites more looks: a few more prompts might tell. An interval for one look, looked at
again and again until it excludes one half, calls two equal policies different in 42 to 44
of 100 cases by 1,000 prompts. A confidence sequence holds at all numbers of prompts together, in
any order of looking and stopping, and is 1.6 to 1.9 times as wide.
"""

import math

from genrm_cli.metrics.running_stats import (
    LEAST_SPREAD,
    clustered_interval,
    student_95,
)

LEAST_PROMPTS = 20  # fewer describe these prompts only: the sequence is asymptotic
# Prompts at which the sequence is narrowest. It must be fixed before the data are seen; with 100,
# sequences are 1.6 times as wide as an interval for one look from 50 to 1,000 prompts.
_NARROWEST_AT = 100
_ALPHA = 0.05  # of 95 % intervals
_NEWTON_STEPS = 4  # from a start that is right to 2 %
# Win rates whose interval is Student's, from this number of prompts on. At a share of .95 on 20
# prompts, Student's interval holds it in 81 % of cases, Wilson's in 97 %.
_USUAL = (0.1, 0.9)
_USUAL_PROMPTS = 50


def critical_z(prompts: int, comparisons: int = 1) -> float:
    """Return the critical value of a 95 % interval in normal standard errors, before
    `student_95` widens it for few prompts.

    Args:
        prompts: number of prompts of the comparison, 1 or more.
        comparisons: that are accounted for together, by Bonferroni.

    Source: I. Waudby-Smith et al., Annals of Statistics 52 (2024) 2613, theorem 2.2 and its
    proposition on the tuning parameter; the mapping to Student's quantile is simulated.
    """
    alpha = _ALPHA / max(1, comparisons)
    mixed = prompts * _tuning(alpha) + 1
    return math.sqrt(mixed / (mixed - 1) * math.log(mixed / alpha**2))


def _tuning(alpha: float) -> float:
    """Return rho squared, (-W(-alpha^2 / e) - 1) / t with the branch W of Lambert's function below
    -1, by Newton's method: u = -W - 1 solves u - log(1 + u) = -2 log(alpha).
    """
    target = -2 * math.log(alpha)
    u = target + math.log(1 + target)
    for _ in range(_NEWTON_STEPS):
        u -= (u - math.log1p(u) - target) * (1 + u) / u
    return u / _NARROWEST_AT


def share_interval(
    share: float, error: float, n: int, verdicts: int, z: float
) -> tuple[float, float]:
    """Return the interval of a mean of shares over n > 1 prompts.

    It is Student's, but Wilson's near 0 and 1, on few prompts, and where prompts do not differ: an
    error of 0 says nothing.

    Args:
        error: standard error of the mean.
        verdicts: see `clustered_interval`.
        z: see `clustered_interval`.
    """
    is_usual = _USUAL[0] <= share <= _USUAL[1] and error > LEAST_SPREAD
    if n < _USUAL_PROMPTS or not is_usual:
        return clustered_interval(share, error, n, verdicts, z)
    half = student_95(n - 1, z) * error
    return max(0.0, share - half), min(1.0, share + half)
