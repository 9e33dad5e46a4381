"""Comparisons of judges on the same pairs."""

import math
from collections.abc import Mapping
from statistics import fmean

from genrm_cli.evaluation.accuracy import Estimated, PairRecord
from genrm_cli.metrics.running_stats import joint_z_95, sample_variance, student_95
from genrm_cli.verdicts import MIDDLE_RANKING, Verdict


def leads_of(pair: PairRecord) -> list[float]:
    """Return how strongly each verdict on a pair prefers the chosen response."""
    first, second = (order.verdict for order in pair.orders)
    leads = [_lead_of(first)] if first is not None else []
    return leads + ([-_lead_of(second)] if second is not None else [])


def _lead_of(verdict: Verdict) -> float:
    """Return how strongly a verdict prefers the response shown first."""
    return verdict.score_1 - verdict.score_2 + MIDDLE_RANKING - verdict.ranking


def paired_difference(
    one: Mapping[str, float], other: Mapping[str, float], comparisons: int
) -> Estimated:
    """Return the mean over lines of one less the other, with an interval that all of so many
    comparisons hold together in 95 % of cases; None for fewer than two lines in common.

    Source: Student's t for the mean of paired differences, with Bonferroni's correction.
    """
    gaps = [value - other[item] for item, value in one.items() if item in other]
    if len(gaps) < 2:
        return Estimated(None, None, None)
    mean = fmean(gaps)
    error = math.sqrt(sample_variance(gaps) / len(gaps))
    half = student_95(len(gaps) - 1, joint_z_95(comparisons)) * error
    return Estimated(mean, mean - half, mean + half)
