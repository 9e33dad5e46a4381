"""The weight of a judge's rankings beside its score differences, and the noise of its verdicts.

A verdict has a score difference d = score_1 - score_2, a ranking difference r = 3.5 - ranking and a
level m = (score_1 + score_2) / 2. Its lead is (1 - w) d + w r, with one weight w for a whole run.
"""

import math
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from genrm_cli.metrics.figures import rounded
from genrm_cli.rewards.estimators.verdict_batch import Floats

# The typical judge of scores, simulated from public figures: how much d and r follow a difference
# of qualities of variance 1, m the sum, and the noise of each.
SLOPES = np.array([0.75, 0.55])
NOISE = np.array([[1.1, 0.2], [0.2, 0.45]])
LEVEL_SLOPE = 0.35
LEVEL_NOISE = 0.23
TYPICAL_WEIGHT = 2 / 3  # its best weight of the ranking, NOISE⁻¹ SLOPES as shares
# A run's covariances count as if so many pairs of verdicts with a rollout in common, and verdicts,
# of the typical judge had been seen.
_TYPICAL_PAIRS = 200
_TYPICAL_VERDICTS = 8
# Correlation of the rankings, or levels, of two verdicts on one rollout below which these count in
# proportion: the typical judge has .29 and .26, a judge whose numbers are noise 0. A ranking may
# agree with the scores of its own verdict instead.
_LEAST_AGREEMENT = 0.25
# Rankings that agree with the scores tell rollouts of equal scores apart: without them, 36 of 60
# such pairs were in the wrong order, with this share 22, as with more.
_LEAST_RANKING = 0.1
# Of the variance of leads: 0 and 1 have no odds.
LEAST_SHARE = 0.01
MOST_SHARE = 0.999
NOISE_FLOOR = 0.02  # variance: a judge without any would have a ratio without bound
# Variance of m: below it the scores say which response is better, not how good both are, as the
# labels of a judge do.
LEVEL_FLOOR = 1e-6
_TYPICAL_SIGNAL = np.outer([*SLOPES, LEVEL_SLOPE], [*SLOPES, LEVEL_SLOPE])
_TYPICAL_WITHIN = 2 * _TYPICAL_SIGNAL
_TYPICAL_WITHIN[:2, :2] += NOISE
_TYPICAL_WITHIN[2, 2] += LEVEL_NOISE
_ROUNDING = 1e-3  # keeps the covariances of d and r invertible if one follows from the other


class Moments(NamedTuple):
    """The variance of verdicts, split: 3 by 3 matrices for d, r and m.

    `signal` is what one rollout adds, `within` the variance of one verdict without what the prompt
    adds, which is `prompt`. `pairs` is the number of pairs of verdicts that share one rollout.
    """

    signal: Floats
    within: Floats
    prompt: Floats
    pairs: float
    verdicts: float

    def of_leads(self, weight: float) -> "LeadMoments":
        """Return the moments of leads with this weight of the ranking, and of levels."""
        to_lead = np.array([[1 - weight, weight, 0.0], [0.0, 0.0, 1.0]])
        signal = to_lead @ self.signal @ to_lead.T
        within = np.diagonal(to_lead @ self.within @ to_lead.T)
        return LeadMoments(*signal[np.triu_indices(2)].tolist(), *within.tolist())


class LeadMoments(NamedTuple):
    """What one rollout adds to leads, to leads and levels together, and to levels; and the
    variances of leads and levels.
    """

    lead: float
    both: float
    level: float
    lead_within: float
    level_within: float

    def noise(self, prompt: float = 0.0) -> "JudgeNoise":
        """Return the noise of the judge. Without a signal it has the least, so that the reliability
        is near 0.
        """
        lead_within = max(NOISE_FLOOR, self.lead_within)
        lead = min(MOST_SHARE / 2 * lead_within, max(LEAST_SHARE / 2 * lead_within, self.lead))
        slope = math.sqrt(lead)
        level_within = max(NOISE_FLOOR, self.level_within)
        most_level = min(MOST_SHARE / 2 * level_within, max(0.0, self.level))
        level_slope = min(math.sqrt(most_level), max(0.0, self.both / slope))
        return JudgeNoise(
            slope=slope,
            level_slope=level_slope,
            noise=lead_within - 2 * slope**2,
            level_noise=level_within - 2 * level_slope**2,
            prompt=max(0.0, prompt),
        )


class JudgeNoise(Struct, frozen=True):
    """Dependence of leads and levels on rollouts whose qualities have variance 1 within a group.

    Attributes:
        slope: of the lead in the difference of the two qualities.
        level_slope: of m in the sum of the two qualities, 0 or more.
        noise: variance of the lead given the qualities, without what the prompt adds.
        level_noise: variance of m given the qualities, without what the prompt adds.
        prompt: variance of what the prompt adds to all leads of its group.
    """

    slope: float
    level_slope: float
    noise: float
    level_noise: float
    prompt: float = 0.0

    def expected_reliability(self, degree: float) -> float:
        """Return the reliability of base scores from so many verdicts on each rollout, 1 or more;
        above 0 and below 1.

        The modes of a graph of this degree d have the mean d and the variance d; where leads tell
        much, levels tell little."""
        leads = self.slope**2 / self.noise
        levels = self.level_slope**2 / self.level_noise
        apart = math.sqrt(degree)
        signals = (
            leads * (degree + apart) + levels * (degree - apart),
            leads * (degree - apart) + levels * (degree + apart),
        )
        return sum(signal / (1 + signal) for signal in signals) / 2


class Weights(NamedTuple):
    """What counts in a verdict.

    Attributes:
        ranking: weight of the ranking against the score difference, from 0 to 1.
        level: share of the typical weight of the level, from 0 to 1.
    """

    ranking: float = TYPICAL_WEIGHT
    level: float = 1.0


def fit_weights(moments: Moments) -> Weights:
    """Return the weights by which verdicts predict best what others say about the same rollout, one
    step from the typical ones.

    Source: regression on instruments; O. Reiersøl, Confluence Analysis (1945)."""
    if moments.within[2, 2] + moments.prompt[2, 2] <= LEVEL_FLOOR:
        return Weights()
    pairs = moments.pairs + _TYPICAL_PAIRS
    verdicts = moments.verdicts + _TYPICAL_VERDICTS
    signal = (moments.pairs * moments.signal + _TYPICAL_PAIRS * _TYPICAL_SIGNAL) / pairs
    within = moments.verdicts * moments.within + _TYPICAL_VERDICTS * _TYPICAL_WITHIN
    within = within / verdicts
    start = np.array([1 - TYPICAL_WEIGHT, TYPICAL_WEIGHT])
    weights = np.linalg.solve(within[:2, :2] + _ROUNDING * np.eye(2), signal[:2, :2] @ start)
    gap, ranking = np.maximum(0.0, weights).tolist()
    variances = np.maximum(np.diagonal(within), LEVEL_FLOOR)
    _, followed, level = (np.diagonal(signal) / variances).tolist()
    agreement = max(followed, float(within[0, 1] / math.sqrt(variances[0] * variances[1])))
    share = max(_LEAST_RANKING, ranking / (gap + ranking)) if gap + ranking > 0 else 0.0
    share *= _believed(agreement)
    return Weights(rounded(share), rounded(_believed(level)))


def _believed(agreement: float) -> float:
    return min(1.0, max(0.0, agreement / _LEAST_AGREEMENT))
