"""Confidence intervals and significance tests."""

import math

_Z_95 = 1.959963984540054  # the normal distribution's 97.5 % point


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """Return the 95 % interval of a share of `count` independent observations (more than 0).

    It stays within 0 and 1, and has a positive width even at shares of 0 and 1 and for few observations. With ties
    that count half, or averages of two orders, it is conservative: of all observations between 0 and 1 with the same
    mean, those that are 0 or 1 vary most.

    Source: E. B. Wilson, Journal of the American Statistical Association 22 (1927) 209.
    """
    squared = _Z_95 * _Z_95 / count
    middle = (share + squared / 2) / (1 + squared)
    half = _Z_95 / (1 + squared) * math.sqrt(share * (1 - share) / count + squared / (4 * count))
    # Rounding must not leave a share of 0 or 1 outside its own interval.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def mcnemar_p_value(a_only: int, b_only: int) -> float:
    """Return the exact two-sided p of McNemar's test; 1 without discordant pairs.

    It is the probability that a fair coin, tossed once per discordant pair, splits at least as unevenly.
    `a_only` are the pairs that only the first judge got right, `b_only` those that only the second did.

    Source: Q. McNemar, Psychometrika 12 (1947) 153, with the exact binomial distribution.
    """
    thrown, fewer = a_only + b_only, min(a_only, b_only)
    term = tail = 1  # integers of any size: nothing is rounded before the division
    for k in range(fewer):
        term = term * (thrown - k) // (k + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << thrown))
