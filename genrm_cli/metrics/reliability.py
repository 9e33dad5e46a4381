"""Predict the reliability of rewards with more comparisons."""


def reliability_with(reliability: float, times: float) -> float:
    """Return the reliability with this many times the comparisons.

    Source: the Spearman-Brown formula; C. Spearman, British Journal of Psychology 3 (1910) 271.
    """
    return times * reliability / (1 + (times - 1) * reliability)
