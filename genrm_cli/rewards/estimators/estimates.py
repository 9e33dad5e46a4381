"""The estimators by name, for one group and for many."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.half_plans import HalfSums
from genrm_cli.metrics.running_stats import ExpectedSignal
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimate_errors import (
    BatchEstimate,
    errors_of,
    laplacian_of,
    position_noise,
)
from genrm_cli.rewards.estimators.least_squares import fit_qualities
from genrm_cli.rewards.estimators.verdict_batch import (
    VerdictBatch,
    Verdicts,
    batches_of,
    scored_means,
    verdict_array,
)
from genrm_cli.verdicts import MIDDLE_RANKING


def average_scores(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Average each rollout's scores; where the two scores of a verdict are equal, its ranking moves
    them apart.

    A tie adds 3.5 - ranking to the first and takes it from the second; otherwise the ranking is
    ignored. On the scale of the scores, but a tie can leave it: (3, 3, 1) counts as 5.5 and 0.5.

    Source: NVIDIA NeMo Gym, `genrm_compare`, `aggregate_scores`, method `simple_tiebreaker`.
    """
    shifts = np.where(batch.score_1 == batch.score_2, MIDDLE_RANKING - batch.ranking, 0.0)
    counts = batch.counts()
    scored = counts > 0
    sums = batch.sum_by_rollout(batch.score_1 + shifts, batch.score_2 - shifts)
    base_scores = sums / np.maximum(counts, 1)
    noise = calibration.score_noise
    if noise is None:
        return BatchEstimate(base_scores, scored)
    # A score is the level of the verdict and half of its gap; what ties add is not modelled.
    laplacian = laplacian_of(batch)
    levels = 2 * counts[:, :, None] * np.eye(batch.n) - laplacian
    slope = noise.slope / 2
    seen = noise.level_slope * levels + slope * laplacian
    noisy = noise.level_noise * levels + noise.noise / 4 * laplacian
    bias = calibration.gap_bias**2 + noise.prompt
    noisy += position_noise(batch, bias / 4)
    shares = scored / np.maximum(scored.sum(axis=1, keepdims=True), 1)
    centring = np.eye(batch.n) - shares[:, None, :]
    errors = errors_of(
        batch,
        np.where(scored, base_scores - scored_means(base_scores, scored), 0.0),
        centring / np.maximum(counts, 1)[:, None, :],
        seen,
        noisy,
        noise.level_slope + slope,
    )
    return BatchEstimate(base_scores, scored, errors)


_HALVED = 64  # rollouts
ESTIMATORS: Mapping[str, Callable[[VerdictBatch, Calibration], BatchEstimate]] = {
    "adaptive": fit_qualities,
    "simple_tiebreaker": average_scores,
}


class Estimate(Struct, frozen=True):
    """The base scores of one group and their accuracy.

    Attributes:
        base_scores: in the group's order; None for a rollout without a verdict.
        standard_errors: of the base scores against the mean of the group's, on their scale; None if
            they are unknown: too little is known about the judge, or no other rollout has a base
            score.
        reliability: share of the spread of the base scores that is signal, 0 to 1: the expected
            squared correlation, beyond chance, with this judge's base scores in the limit of many
            verdicts. None if too little is known about the judge, or for fewer than two base
            scores.
        expected: the reliability that the judge's noise lets expect; None if unknown.
        chance: probability that responses of equal quality spread as much as these; None where the
            reliability is.
        halves: how far two halves of its verdicts agree; None where that was not computed.
    """

    base_scores: list[float | None]
    standard_errors: list[float | None]
    reliability: float | None = None
    expected: ExpectedSignal | None = None
    chance: float | None = None
    halves: HalfSums | None = None

    def without_errors(self) -> "Estimate":
        """Return the estimate of a plan that depended on its verdicts: the noise that it selected
        is unknown.
        """
        return Estimate(self.base_scores, [None] * len(self.base_scores))


def estimate(name: str, n: int, verdicts: Verdicts, calibration: Calibration) -> Estimate:
    """Turn the verdicts of a group of n rollouts into base scores."""
    (made,) = estimate_many(name, [(n, verdicts)], calibration)
    return made


def estimate_many(
    name: str,
    groups: Sequence[tuple[int, Verdicts]],
    calibration: Calibration,
    *,
    has_halves: bool = True,
) -> list[Estimate]:
    """Estimate many groups, those of one shape together: the same numbers, to the last bit, in less
    time. Without `has_halves`, halves of the verdicts are not compared, which is a figure of a run.
    """
    estimates: dict[int, Estimate] = {}
    for numbers, batch in batches_of([(n, verdict_array(verdicts)) for n, verdicts in groups]):
        made = ESTIMATORS[name](batch, calibration)
        halves = half_sums(name, batch, calibration) if has_halves else None
        for row, number in enumerate(numbers):
            one = _estimate_of(made, row, calibration)
            estimates[number] = replace(one, halves=halves[row]) if halves else one
    return [estimates[number] for number in range(len(groups))]


def half_sums(name: str, batch: VerdictBatch, calibration: Calibration) -> list[HalfSums] | None:
    """Return how far base scores from every second pair agree with those from the others; None for
    groups of more than 64, where it takes as long as all else, or of fewer than two verdicts.
    """
    if calibration.noise is None or batch.n > _HALVED or batch.first.shape[1] < 2:
        return None
    known = replace(calibration, noise=None, score_noise=None)
    first, second = (ESTIMATORS[name](half, known) for half in batch.halves())
    both = first.scored & second.scored
    one, other = (
        np.where(both, made.base_scores - scored_means(made.base_scores, both), 0.0)
        for made in (first, second)
    )
    sums = np.stack([(one**2).sum(axis=1), (other**2).sum(axis=1), (one * other).sum(axis=1)])
    return [HalfSums(*each) for each in sums.T.tolist()]


def _estimate_of(made: BatchEstimate, row: int, calibration: Calibration) -> Estimate:
    """Return the estimate of one group of a batch."""
    scored = made.scored[row].tolist()
    base_scores = [
        score if of else None
        for score, of in zip(made.base_scores[row].tolist(), scored, strict=True)
    ]
    errors = made.errors
    if sum(scored) < 2 or errors is None:
        return Estimate(base_scores, [None] * len(scored))
    reliability = rounded(float(errors.reliabilities[row]))
    return Estimate(
        base_scores,
        [
            rounded(math.sqrt(variance)) if of else None
            for variance, of in zip(errors.variances[row].tolist(), scored, strict=True)
        ],
        reliability,
        calibration.expects,
        rounded(float(errors.chances[row])),
    )
