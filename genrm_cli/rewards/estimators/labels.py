"""Judges that write a label instead of scores: a win, a tie, a win by much."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from genrm_cli.rewards.estimators.judge_noise import WinNoise
from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, VerdictBatch
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE

# Gap and ranking of the verdicts that stand for labels: a tie, slightly better, better, much better.
LABELS = ((0.0, 0.0), (1.0, 0.5), (2.0, 1.5), (4.0, 2.5))
SIZES = len(LABELS)
UNIT = 3.5  # (d + r) of `better`, which counts as half a win more than a tie
_VALUES = tuple((gap + ranking) / 2 / UNIT for gap, ranking in LABELS)

# The typical judge of labels: its ties among better and worse, and the log odds of one deviation of quality; and how
# many verdicts, and pairs of verdicts, it counts for.
_TYPICAL_SHARES = np.array([0.12, 0.0, 0.88, 0.0])
_TYPICAL_SPREAD = 2.0
_TYPICAL_VERDICTS, _TYPICAL_PAIRS = 32, 512

_LOGISTIC_STD = 15 * math.pi / (16 * math.sqrt(3))  # of the normal distribution nearest to the logistic one
_MOST_SHARED = 0.45  # correlation of two leads with one rollout in common; 0.5 is a judge without error
_TERMS = 8
_ROUNDS = 60
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Choices:
    """A judge that chooses value v with probability proportional to weight_v exp(v (x_i - x_j + position)).

    Two values without weights are the Bradley-Terry model, three are Davidson's with ties, more the adjacent-category
    logit model.

    Attributes:
        values: of the choices, symmetric about 0; the log odds of the outer two of -0.5 and 0.5 are the advantage.
        log_weights: of the values.
        position: advantage of the first.
        spread: standard deviation of the normal prior of the strengths x.

    Source: R. R. Davidson, J. Am. Stat. Assoc. 65 (1970) 317; A. Agresti, Categorical Data Analysis (adjacent-category
    logits).
    """

    values: tuple[float, ...]
    log_weights: tuple[float, ...]
    position: float
    spread: float

    def moments(self, advantages: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the logarithm of the sum of all odds, the mean of the choice and its variance, for any array."""
        values = np.array(self.values)
        odds = advantages[..., None] * values + np.array(self.log_weights)
        top = odds.max(axis=-1, keepdims=True)
        odds = np.exp(odds - top)
        total = odds.sum(axis=-1)
        mean = odds @ values / total
        return np.log(total) + top[..., 0], mean, np.maximum(0.0, odds @ values**2 / total - mean**2)


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """What the labels of a run add up to.

    Attributes:
        sizes: verdicts by the size of their label, as in `LABELS`.
        mean: of the values of the labels; above 0 where the first is preferred.
        noise: of the values; None where it is unknown.
        pairs: pairs of verdicts that share one rollout; 0 where the noise is unknown.
    """

    sizes: Floats
    mean: float
    noise: WinNoise | None
    pairs: float


def values_of(batch: VerdictBatch) -> Floats:
    """Return [G, M] the value of each verdict: 0.5 for better, more for much better, 0 for a tie; on any verdict."""
    values: Floats = (batch.score_1 - batch.score_2 + MIDDLE_RANKING - batch.ranking) / 2 / UNIT
    return values


def sizes_of(batch: VerdictBatch) -> tuple[Floats, Flags]:
    """Return [4] the verdicts by the size of their label, and [G] which groups have only labels."""
    gaps, rankings = batch.score_1 - batch.score_2, MIDDLE_RANKING - batch.ranking
    is_centred = batch.score_1 + batch.score_2 == MIN_SCORE + MAX_SCORE
    found = [
        (np.abs(gaps) == gap) & (rankings == np.sign(gaps) * ranking) & is_centred & batch.valid
        for gap, ranking in LABELS
    ]
    return np.array([each.sum() for each in found], dtype=np.float64), np.any(found, axis=0).sum(
        axis=1
    ) == batch.valid.sum(axis=1)


def choices_of(counts: LabelCounts) -> Choices:
    """Return the typical judge of labels, adapted to the labels of a run: the more of them, the closer.

    The shares of the labels and the position preference follow from their counts; how far labels follow the qualities
    from what two verdicts with one rollout in common share. That is averaged with the typical judge's as a
    correlation of leads, which the signs of two normal leads reveal.

    Source: the tetrachoric series, K. Pearson, Phil. Trans. R. Soc. A 195 (1900) 1.
    """
    total = counts.sizes.sum()
    shares = (counts.sizes + _TYPICAL_VERDICTS * _TYPICAL_SHARES) / (total + _TYPICAL_VERDICTS)
    mean = counts.mean * total / (total + _TYPICAL_VERDICTS)
    typical = _correlation_of(_TYPICAL_SPREAD)
    shared = typical
    if counts.noise is not None:
        seen = _shared_by(counts.noise.signal, shares, mean)
        shared = (counts.pairs * seen + _TYPICAL_PAIRS * typical) / (counts.pairs + _TYPICAL_PAIRS)
    return _choices(shares, mean, _LOGISTIC_STD * math.sqrt(shared / (1 - 2 * shared)))


def _correlation_of(spread: float) -> float:
    """Return the correlation of two leads with one rollout in common."""
    return spread**2 / (2 * spread**2 + _LOGISTIC_STD**2)


def _shared_by(signal: float, shares: Floats, mean: float) -> float:
    """Return the correlation of leads for which labels share this covariance."""
    values = [-value for value in reversed(_VALUES[1:])] + list(_VALUES)
    ahead = _share_ahead(shares, mean)
    probabilities = [*(shares[:0:-1] * (1 - ahead)), shares[0], *(shares[1:] * ahead)]
    below = np.cumsum(probabilities)[:-1]
    cuts = [
        (_NORMAL.inv_cdf(float(share)), step)
        for share, step in zip(below, np.diff(values), strict=True)
        if 1e-9 < share < 1 - 1e-9
    ]
    squares = [
        sum(step * _NORMAL.pdf(0) * math.exp(-cut * cut / 2) * _hermite(term - 1, cut) for cut, step in cuts) ** 2
        / math.factorial(term)
        for term in range(1, _TERMS + 1)
    ]
    low, high = 0.0, _MOST_SHARED
    for _ in range(40):
        middle = (low + high) / 2
        reached = sum(square * middle**term for term, square in enumerate(squares, 1))
        low, high = (middle, high) if reached < signal else (low, middle)
    return low


def _share_ahead(shares: Floats, mean: float) -> float:
    """Return the share of the labels other than ties that prefer the first, the same for every size."""
    size = float(shares @ np.array(_VALUES))
    return min(0.999, max(0.001, (1 + mean / size) / 2))


def _hermite(degree: int, at: float) -> float:
    """Return a Hermite polynomial, in the form for the standard normal distribution."""
    before, value = 0.0, 1.0
    for n in range(degree):
        before, value = value, at * value - n * before
    return value


def _choices(shares: Floats, mean: float, spread: float) -> Choices:
    """Return the choices with these shares of sizes and this mean, between rollouts of the prior.

    By iterative proportional fitting of the weights and Newton steps on the position, over a quadrature.
    """
    used = [size for size in range(SIZES) if shares[size] > 0]
    values = [-_VALUES[size] for size in reversed(used) if size] + [_VALUES[size] for size in used]
    sizes = [size for size in reversed(used) if size] + used
    logs, position = {size: math.log(shares[size]) for size in used}, 0.0
    leads, weights = math.sqrt(2) * spread * _NODES, _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
    for _ in range(_ROUNDS):
        odds = np.multiply.outer(leads + position, values) + [logs[size] for size in sizes]
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        reached, means = weights @ odds, odds @ values
        steepness = float(weights @ (odds @ np.square(values) - means**2))
        position += min(1.0, max(-1.0, (mean - float(weights @ means)) / steepness))
        for size in used:
            share = sum(float(part) for part, its in zip(reached, sizes, strict=True) if its == size)
            logs[size] += math.log(shares[size] / share)
    return Choices(tuple(values), tuple(logs[size] for size in sizes), position, spread)


TYPICAL_LABELS = _choices(_TYPICAL_SHARES, 0.0, _TYPICAL_SPREAD)
"""The typical judge of labels."""
