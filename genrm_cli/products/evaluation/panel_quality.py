"""The effective number of judges in a panel, from the labels of pairs that all of them judged."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.running_stats import Estimated
from genrm_cli.products.evaluation.accuracy import PairRecord

Floats = NDArray[np.float64]
_ROUNDS = 1_000  # draws of lines: ends of an interval are right to a tenth of its width
_SEED = 0  # one result for one input
_LEAST_LINES = 20  # fewer have no interval
_MOST_UNDEFINED = 0.05  # of the draws; with more, an interval would describe the others only


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelQuality:
    """The quality of a panel on labelled pairs. A vote is the mean of both orders.

    Attributes:
        pairs: that all judges decided in both orders; `items` are their lines.
        error_correlation: of the errors of two judges, the mean over pairs of judges by weight.
        effective_judges: judges with independent errors that would err as little as the panel.
        reliability: share of the spread of the panel's mean vote that the labels explain.
        reliability_of_one: the same of a single judge, the mean over the judges.
    """

    pairs: int
    items: int
    error_correlation: Estimated
    effective_judges: Estimated
    reliability: Estimated
    reliability_of_one: Estimated


def panel_quality(
    by_judge: Sequence[Sequence[PairRecord]],
    weights: Sequence[float],
    *,
    with_intervals: bool = True,
) -> PanelQuality:
    """Measure a panel by the labels.

    Labels are taken as right. Wrong ones are errors that all judges seem to share: with 15 % wrong,
    independent judges look as if their errors correlated by .15.

    Args:
        by_judge: the records of each judge, of the same pairs in the same order.
        weights: of the judges.
        with_intervals: whether to draw lines for the intervals, which takes most of the time.

    Source: effective number, L. Kish, Survey Sampling (1965) §11.7; interval, B. Efron and R. J.
    Tibshirani, An Introduction to the Bootstrap (1993), of clusters.
    """
    rows = [row for row in zip(*by_judge, strict=True) if all(each.has_both for each in row)]
    items: dict[str, int] = {}
    owner = np.array([items.setdefault(row[0].item, len(items)) for row in rows], dtype=np.intp)
    k = len(by_judge)
    # 1 if both orders prefer the label, -1 if both prefer its opposite.
    votes = np.array([[2 * (each.credit or 0.0) - 1 for each in row] for row in rows])
    votes = votes.reshape(-1, k)
    products = (votes[:, :, None] * votes[:, None, :]).reshape(-1, k * k)
    # By line: the sums of votes, of their products, and the number of pairs.
    # Draws of lines are then products of counts and sums, without a loop over pairs.
    sums = np.zeros((len(items), k + k * k + 1))
    np.add.at(sums, owner, np.column_stack([votes, products, np.ones(len(rows))]))
    share = np.array(weights) / sum(weights)
    found = _figures(sums.sum(axis=0)[None], share)[0] if rows else np.full(4, np.nan)
    low = high = np.full(4, np.nan)
    if with_intervals and len(items) >= _LEAST_LINES:
        drawn = np.random.default_rng(_SEED).multinomial(
            len(items), np.full(len(items), 1 / len(items)), size=_ROUNDS
        )
        draws = _figures(drawn @ sums, share)
        known = draws[~np.isnan(draws).any(axis=1)]
        if len(known) >= (1 - _MOST_UNDEFINED) * _ROUNDS:
            low, high = np.quantile(known, [0.025, 0.975], axis=0)
    names = ("error_correlation", "effective_judges", "reliability", "reliability_of_one")
    figures = {
        name: Estimated(*map(_number, figure))
        for name, *figure in zip(names, found, low, high, strict=True)
    }
    return PanelQuality(pairs=len(rows), items=len(items), **figures)


def _figures(sums: Floats, share: Floats) -> Floats:
    """Return [B, 4] the correlation of errors, the effective number and both reliabilities, from
    sums [B, K + K^2 + 1]; NaN where a judge never errs or never varies.
    """
    k = len(share)
    counts = sums[:, -1:]
    right = sums[:, :k] / counts
    second = (sums[:, k:-1] / counts).reshape(-1, k, k)
    errors = second - right[:, :, None] * right[:, None, :]
    spread = np.sqrt(np.maximum(0.0, np.einsum("bii->bi", errors)))
    pulls = share * spread
    whole = pulls.sum(axis=1) ** 2
    own = (pulls**2).sum(axis=1)
    variance = np.einsum("i,bij,j->b", share, errors, share)
    power = np.einsum("i,bij,j->b", share, second, share)
    powers = np.einsum("bii->bi", second)
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN is an unknown figure here
        correlation = np.where(whole > own, (variance - own) / (whole - own), np.nan)
        effective = np.where(variance > 0, whole / variance, np.nan)
        together = np.where(power > 0, (right @ share) ** 2 / power, np.nan)
        alone = np.where((powers > 0).all(axis=1), (right**2 / powers).mean(axis=1), np.nan)
    return np.column_stack([correlation, effective, together, alone])


def _number(value: float) -> float | None:
    return None if np.isnan(value) else rounded(float(value))
