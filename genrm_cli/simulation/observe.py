"""What a judge's own verdicts say of it: figures that a simulated judge can be compared by."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from genrm_cli.rewards.estimators import JudgedPair, JudgeStatistics, VerdictBatch

MIN_VERDICTS = 100
_MIN_PAIRS, _MIN_GROUPS = 100, 30
_GROUPS_AT_ONCE = 256
_STEPS = (1.0, 0.5, 0.25)


def batches_of(groups: Iterable[Sequence[JudgedPair]]) -> Iterator[VerdictBatch]:
    """Yield the verdicts of groups of any sizes as batches; the places of each group count from 0."""
    ordered = sorted((group for group in groups if group), key=len)
    for start in range(0, len(ordered), _GROUPS_AT_ONCE):
        some = ordered[start : start + _GROUPS_AT_ONCE]
        table = np.zeros((len(some), len(some[-1]), 5))
        there = np.zeros(table.shape[:2], dtype=np.bool_)
        for row, group in enumerate(some):
            table[row, : len(group)], there[row, : len(group)] = group, True
        first, second = table[..., 0].astype(np.intp), table[..., 1].astype(np.intp)
        n = int(max(first.max(), second.max())) + 1
        yield VerdictBatch(n, first, second, table[..., 2], table[..., 3], table[..., 4], there)


def steps_of(batches: Sequence[VerdictBatch]) -> tuple[float, float]:
    """Return in which steps from 1 scores and rankings are written: 1, 0.5, 0.25, or 0 for any number."""
    scores = np.concatenate([column[b.there] for b in batches for column in (b.score_1, b.score_2)])
    rankings = np.concatenate([b.ranking[b.there] for b in batches])
    score_step, ranking_step = (
        next((step for step in _STEPS if not np.any((values - 1) % step)), 0.0) for values in (scores, rankings)
    )
    return score_step, ranking_step


def observe(batches: Sequence[VerdictBatch], *, known_rollouts: bool = True) -> dict[str, float]:
    """Return the figures of verdicts that a model can be fitted to: only those that there are enough verdicts for.

    Args:
        batches: with at least one verdict in all.
        known_rollouts: whether the places and the groups mean something.
    """
    columns = [[b.score_1[b.there], b.score_2[b.there], b.ranking[b.there]] for b in batches]
    one, two, ranking = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    gaps, leanings = one - two, 3.5 - ranking
    figures = {
        "mean_gap": float(gaps.mean()),
        "mean_score": float((one + two).mean() / 2),
        "tie_share": float((gaps == 0).mean()),
        "gap_std": float(gaps.std()),
        "ranking_std": float(leanings.std()),
        "score_std": float(((one + two) / 2).std()),
    }
    scale = figures["gap_std"] * figures["ranking_std"]
    if scale > 0:
        figures["gap_ranking_correlation"] = float(np.mean((gaps - gaps.mean()) * (leanings - leanings.mean()))) / scale
    if known_rollouts:
        figures |= _of_rollouts(batches) | _of_askings(batches, figures)
    return figures


def _of_rollouts(batches: Sequence[VerdictBatch]) -> dict[str, float]:
    """Return what verdicts have in common that share a rollout, or only the group."""
    statistics = JudgeStatistics()
    for batch in batches:
        statistics.add_batch(batch)
    noise = statistics.fit().noise
    if noise is None or statistics.groups < _MIN_GROUPS:
        return {}
    return {
        "gap_slope": noise.slopes[0],
        "ranking_slope": noise.slopes[1],
        "gap_noise": noise.noise[0][0],
        "ranking_noise": noise.noise[1][1],
        "shared_noise": noise.noise[0][1],
        "group_bias_std": math.sqrt(max(0.0, noise.prompt_bias[0][0])),
    }


def _of_askings(batches: Sequence[VerdictBatch], figures: Mapping[str, float]) -> dict[str, float]:
    """Return how far the gaps agree when a pair is asked in the other order, and in the same order again.

    Both are correlations, of gaps less their mean; that of the other order with the sign turned.
    """
    products, counts = np.zeros(2), np.zeros(2)
    for batch in batches:
        size = batch.groups * batch.n * batch.n
        cells = ((np.arange(batch.groups)[:, None] * batch.n + batch.first) * batch.n + batch.second)[batch.there]
        gaps = (batch.score_1 - batch.score_2)[batch.there] - figures["mean_gap"]
        shape = (batch.groups, batch.n, batch.n)
        asked = np.bincount(cells, minlength=size).reshape(shape)
        summed = np.bincount(cells, gaps, minlength=size).reshape(shape)
        products += [-(summed * summed.swapaxes(1, 2)).sum(), (summed**2).sum() - (gaps**2).sum()]
        counts += [(asked * asked.swapaxes(1, 2)).sum(), (asked**2).sum() - len(gaps)]
    names = ("swapped_agreement", "repeated_agreement")
    variance = figures["gap_std"] ** 2
    return {
        name: float(product / count) / variance
        for name, product, count in zip(names, products, counts, strict=True)
        if count >= 2 * _MIN_PAIRS and variance > 0
    }
