"""Metrics of a judge's own verdicts, to compare a simulated judge with it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from genrm_cli.rewards.estimators import CalibrationStatistics, VerdictBatch, Verdicts, verdict_array
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE

MIN_VERDICTS = 100
_MIN_PAIRS, _MIN_GROUPS = 100, 30
_GROUPS_AT_ONCE = 256
_STEPS = (1.0, 0.5, 0.25)
_THREE_LABELS = {(4.0, 2.0, 2.0), (3.0, 3.0, 3.5), (2.0, 4.0, 5.0)}
_FIVE_LABELS = _THREE_LABELS | {(5.0, 1.0, 1.0), (1.0, 5.0, 6.0)}


def batches_of(groups: Iterable[Verdicts]) -> Iterator[VerdictBatch]:
    """Yield the verdicts of groups of any sizes as batches; the indices of each group count from 0."""
    ordered = sorted((verdict_array(group) for group in groups if group), key=len)
    for start in range(0, len(ordered), _GROUPS_AT_ONCE):
        some = ordered[start : start + _GROUPS_AT_ONCE]
        table = np.zeros((len(some), len(some[-1]), 5))
        valid = np.zeros(table.shape[:2], dtype=np.bool_)
        for row, group in enumerate(some):
            table[row, : len(group)], valid[row, : len(group)] = group, True
        first, second = table[..., 0].astype(np.intp), table[..., 1].astype(np.intp)
        n = int(max(first.max(), second.max())) + 1
        yield VerdictBatch(n, first, second, table[..., 2], table[..., 3], table[..., 4], valid)


def steps_of(batches: Sequence[VerdictBatch]) -> tuple[float, float]:
    """Return the steps from 1 in which scores and rankings are written: 1, 0.5, 0.25, or 0 for any number."""
    scores = np.concatenate([column[b.valid] for b in batches for column in (b.score_1, b.score_2)])
    rankings = np.concatenate([b.ranking[b.valid] for b in batches])
    score_step, ranking_step = (
        next((step for step in _STEPS if not np.any((values - 1) % step)), 0.0) for values in (scores, rankings)
    )
    return score_step, ranking_step


def labels_of(batches: Sequence[VerdictBatch]) -> int:
    """Return how many labels a judge writes instead of scores: 3, 5 with much better and worse; 0 if it writes scores.

    A profile of labels gives one verdict for each, so that gap and ranking are one number.
    """
    columns = [np.stack([b.score_1, b.score_2, b.ranking], axis=-1)[b.valid] for b in batches]
    written = set(map(tuple, np.unique(np.concatenate(columns), axis=0).tolist()))
    if written <= _THREE_LABELS:
        return 3
    return 5 if written <= _FIVE_LABELS else 0


def observe(batches: Sequence[VerdictBatch], *, known_rollouts: bool = True) -> dict[str, float]:
    """Return the metrics of verdicts that a model can be fitted to, without those that need more verdicts.

    Args:
        batches: with at least one verdict in all.
        known_rollouts: whether indices and groups are meaningful.
    """
    columns = [[b.score_1[b.valid], b.score_2[b.valid], b.ranking[b.valid]] for b in batches]
    one, two, ranking = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    gaps, rankings = one - two, MIDDLE_RANKING - ranking
    metrics = {
        "mean_gap": float(gaps.mean()),
        "mean_score": float((one + two).mean() / 2),
        "tie_share": float((gaps == 0).mean()),
        "contradiction_share": float((gaps * rankings < 0).mean()),
        "much_share": float((np.abs(gaps) == MAX_SCORE - MIN_SCORE).mean()),
        "gap_std": float(gaps.std()),
        "ranking_std": float(rankings.std()),
        "score_std": float(((one + two) / 2).std()),
    }
    scale = metrics["gap_std"] * metrics["ranking_std"]
    if scale > 0:
        metrics["gap_ranking_correlation"] = float(np.mean((gaps - gaps.mean()) * (rankings - rankings.mean()))) / scale
    if known_rollouts:
        metrics |= _of_rollouts(batches) | _of_askings(batches, metrics)
    return metrics


def _of_rollouts(batches: Sequence[VerdictBatch]) -> dict[str, float]:
    """Return what verdicts that share a rollout, or only the group, have in common."""
    statistics = CalibrationStatistics()
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


def _of_askings(batches: Sequence[VerdictBatch], metrics: Mapping[str, float]) -> dict[str, float]:
    """Return how far the gaps agree when a pair is asked in the other order, and in the same order again.

    Both are correlations, of gaps less their mean; that of the other order with the sign turned.
    """
    products, counts = np.zeros(2), np.zeros(2)
    for batch in batches:
        size = batch.groups * batch.n * batch.n
        cells = ((np.arange(batch.groups)[:, None] * batch.n + batch.first) * batch.n + batch.second)[batch.valid]
        gaps = (batch.score_1 - batch.score_2)[batch.valid] - metrics["mean_gap"]
        shape = (batch.groups, batch.n, batch.n)
        asked = np.bincount(cells, minlength=size).reshape(shape)
        summed = np.bincount(cells, gaps, minlength=size).reshape(shape)
        products += [-(summed * summed.swapaxes(1, 2)).sum(), (summed**2).sum() - (gaps**2).sum()]
        counts += [(asked * asked.swapaxes(1, 2)).sum(), (asked**2).sum() - len(gaps)]
    names = ("swapped_agreement", "repeated_agreement")
    variance = metrics["gap_std"] ** 2
    return {
        name: float(product / count) / variance
        for name, product, count in zip(names, products, counts, strict=True)
        if count >= 2 * _MIN_PAIRS and variance > 0
    }
