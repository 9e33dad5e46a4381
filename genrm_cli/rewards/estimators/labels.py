"""Judges that write a label instead of scores: a win, a tie, a win by much."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from genrm_cli.rewards.estimators.judge_noise import WinNoise
from genrm_cli.rewards.estimators.verdict_batch import Floats, VerdictBatch
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

_LOGISTIC_VARIANCE = math.pi**2 / 3
_MOST_SHARED = 0.48  # correlation of two leads with one rollout in common; 0.5 is a judge without error
_HALVINGS, _ROUNDS, _NEAR_ENOUGH = 9, 60, 1e-5
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_NODE_WEIGHTS /= _NODE_WEIGHTS.sum()


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
    """Sums over the labels of a run.

    Attributes:
        sizes: verdicts by the size of their label, as in `LABELS`.
        mean: of the values of the labels; above 0 where the first is preferred.
        noise: of the values; None if it is unknown.
        pairs: pairs of verdicts that share one rollout; 0 where the noise is unknown.
    """

    sizes: tuple[float, ...]
    mean: float
    noise: WinNoise | None
    pairs: float


def values_of(batch: VerdictBatch) -> Floats:
    """Return [G, M] the value of each verdict: 0.5 for better, more for much better, 0 for a tie; on any verdict."""
    values: Floats = (batch.score_1 - batch.score_2 + MIDDLE_RANKING - batch.ranking) / 2 / UNIT
    return values


def sizes_of(batch: VerdictBatch) -> Floats:
    """Return [4] the verdicts by the size of their label; others are not counted."""
    gaps, rankings = batch.score_1 - batch.score_2, MIDDLE_RANKING - batch.ranking
    is_centred = batch.score_1 + batch.score_2 == MIN_SCORE + MAX_SCORE
    found = [
        (np.abs(gaps) == gap) & (rankings == np.sign(gaps) * ranking) & is_centred & batch.valid
        for gap, ranking in LABELS
    ]
    return np.array([each.sum() for each in found], dtype=np.float64)


@lru_cache(maxsize=8)
def choices_of(counts: LabelCounts) -> Choices:
    """Return the typical judge of labels, adapted to the labels of a run: the more labels, the more closely.

    The shares of the labels and the position preference follow from their counts; how far labels follow the qualities
    from the covariance of two labels with one rollout in common. It is averaged with the typical judge's as a
    correlation of the leads behind the labels.
    """
    sizes = np.array(counts.sizes)
    total = sizes.sum()
    shares = (sizes + _TYPICAL_VERDICTS * _TYPICAL_SHARES) / (total + _TYPICAL_VERDICTS)
    mean = counts.mean * total / (total + _TYPICAL_VERDICTS)
    choices = _choices(shares, mean, _TYPICAL_SPREAD)
    shared = _TYPICAL_SPREAD**2 / (2 * _TYPICAL_SPREAD**2 + _LOGISTIC_VARIANCE)
    if counts.noise is not None:
        low, high = 0.0, _MOST_SHARED
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            choices = _choices(shares, mean, _spread_of(middle), choices)
            low, high = (middle, high) if _covariance(choices) < counts.noise.signal else (low, middle)
        shared = (counts.pairs * low + _TYPICAL_PAIRS * shared) / (counts.pairs + _TYPICAL_PAIRS)
    return _choices(shares, mean, _spread_of(shared), choices)


def _spread_of(correlation: float) -> float:
    """Return the spread with this correlation of two leads with one rollout in common, each with a logistic error."""
    return math.sqrt(correlation * _LOGISTIC_VARIANCE / (1 - 2 * correlation))


def _covariance(choices: Choices) -> float:
    """Return the covariance of two labels with one rollout in common, in the same position."""
    leads = choices.spread * (_NODES[:, None] - _NODES) + choices.position
    by_rollout = choices.moments(leads)[1] @ _NODE_WEIGHTS
    return float(_NODE_WEIGHTS @ by_rollout**2 - (_NODE_WEIGHTS @ by_rollout) ** 2)


def _choices(shares: Floats, mean: float, spread: float, start: Choices | None = None) -> Choices:
    """Return the choices with these shares of sizes and this mean, between rollouts of the prior.

    By iterative proportional fitting of the weights and Newton steps on the position, over a quadrature.
    """
    used = [size for size in range(SIZES) if shares[size] > 0]
    sizes = np.array([size for size in reversed(used) if size] + used)
    values = np.sign(np.arange(len(sizes)) - len(used) + 1) * np.array(_VALUES)[sizes]
    logs, position = (np.log(shares[sizes]), 0.0) if start is None else (np.array(start.log_weights), start.position)
    leads = math.sqrt(2) * spread * _NODES
    for _ in range(_ROUNDS):
        odds = np.multiply.outer(leads + position, values) + logs
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        reached, means = _NODE_WEIGHTS @ odds, odds @ values
        steepness = float(_NODE_WEIGHTS @ (odds @ values**2 - means**2))
        step = float(np.clip((mean - _NODE_WEIGHTS @ means) / steepness, -1.0, 1.0))
        changes = np.log(shares[sizes] / np.bincount(sizes, reached)[sizes])
        position, logs = position + step, logs + changes
        if max(abs(step), float(np.abs(changes).max())) < _NEAR_ENOUGH:
            break
    return Choices(tuple(values.tolist()), tuple(logs.tolist()), position, spread)
