"""The estimators by name, for one group and for many."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from genrm_cli.metrics.figures import rounded
from genrm_cli.rewards.estimators.averages import average_scores, average_wins
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.labels import FIVE_LABELS, MUCH, THREE_LABELS, sizes_of
from genrm_cli.rewards.estimators.least_squares import combine, weigh
from genrm_cli.rewards.estimators.strengths import fit_bradley_terry, fit_labels
from genrm_cli.rewards.estimators.verdict_batch import (
    BatchEstimate,
    Flags,
    VerdictBatch,
    Verdicts,
    batch_of,
    verdict_array,
)


def adapt(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Combine scores and rankings with the weights for this kind of judge, or fit strengths to
    labels.

    Without a calibration each group shows whether its judge writes labels; else the typical weights
    are used."""
    if calibration.labels is not None:
        return fit_labels(batch, calibration, calibration.labels)
    made = weigh(batch, calibration)
    if calibration.groups:
        return made
    sizes = sizes_of(batch)
    verdicts = batch.valid.sum(axis=1)
    is_labels = (verdicts > 0) & (sizes.sum(axis=1) == verdicts)
    is_much = sizes[:, MUCH] > 0
    for labels, of in ((THREE_LABELS, is_labels & ~is_much), (FIVE_LABELS, is_labels & is_much)):
        if of.any():
            made = _chosen(of, fit_labels(batch, calibration, labels), made)
    return made


def _chosen(of: Flags, one: BatchEstimate, other: BatchEstimate) -> BatchEstimate:
    """Return the estimates of some groups from one batch, and those of the others from another."""
    pairs = [(getattr(one, each.name), getattr(other, each.name)) for each in fields(BatchEstimate)]
    return BatchEstimate(*(np.where(of.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))


ESTIMATORS: Mapping[str, Callable[[VerdictBatch, Calibration], BatchEstimate]] = {
    "simple_tiebreaker": average_scores,
    "adaptive": adapt,
    "combined": combine,
    "win_rate": average_wins,
    "bradley_terry": fit_bradley_terry,
}
_MAX_CELLS = (
    1 << 18
)  # bounds the memory of a batch: 2 MB for an array of n × n or M numbers a group


@dataclass(frozen=True, slots=True)
class Estimate:
    """The base scores of one group and their accuracy.

    Attributes:
        base_scores: in the group's order; None for a rollout without a verdict.
        standard_errors: of the base scores against the mean of the group's, on their scale; None if
            they are unknown: too little is known about the judge, or no other rollout has a base
            score.
        converged: whether the numbers are final; only an iterative estimator can fail to converge.
        reliability: share of the spread of the base scores that is signal, 0 to 1: the expected
            squared correlation, beyond chance, with this judge's base scores in the limit of many
            verdicts. 0 if a run with enough verdicts shows no signal; None if too little is known
            about the judge, or for fewer than two base scores.
        uncertainty: standard error of the log odds of the reliability, from the run; None if
            unknown.
        chance: probability that responses of equal quality spread as much as these; None where the
            reliability is.
    """

    base_scores: list[float | None]
    standard_errors: list[float | None]
    converged: bool = True
    reliability: float | None = None
    uncertainty: float | None = None
    chance: float | None = None

    def without_errors(self) -> "Estimate":
        """Return the estimate of a plan that depended on its verdicts: the noise that it selected
        is unknown.
        """
        return replace(
            self,
            standard_errors=[None] * len(self.standard_errors),
            reliability=None,
            chance=None,
        )


def estimate(name: str, n: int, verdicts: Verdicts, calibration: Calibration) -> Estimate:
    """Turn the verdicts of a group of n rollouts into base scores."""
    (made,) = estimate_many(name, [(n, verdicts)], calibration)
    return made


def estimate_many(
    name: str, groups: Sequence[tuple[int, Verdicts]], calibration: Calibration
) -> list[Estimate]:
    """Estimate many groups, those of one shape together: the same numbers, to the last bit, in less
    time.
    """
    estimator = ESTIMATORS[name]
    arrays = [verdict_array(verdicts) for _, verdicts in groups]
    shapes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, (n, verdicts) in enumerate(groups):
        shapes[n, len(verdicts)].append(number)
    estimates: dict[int, Estimate] = {}
    for (n, count), numbers in shapes.items():
        size = max(1, _MAX_CELLS // max(1, n * n, count))
        for start in range(0, len(numbers), size):
            some = numbers[start : start + size]
            batch = batch_of(n, [arrays[number] for number in some])
            estimates.update(
                zip(
                    some,
                    _split(estimator(batch, calibration), calibration.uncertainty),
                    strict=True,
                )
            )
    return [estimates[number] for number in range(len(groups))]


def _split(batch: BatchEstimate, uncertainty: float | None) -> list[Estimate]:
    columns = (
        batch.base_scores,
        batch.scored,
        batch.variances,
        batch.known,
        batch.reliabilities,
        batch.chances,
        batch.assessed,
        batch.converged,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    estimates = []
    for base_scores, scored, variances, known, reliability, chance, assessed, converged in rows:
        several = sum(scored) > 1
        estimates.append(
            Estimate(
                [score if of else None for score, of in zip(base_scores, scored, strict=True)],
                [
                    rounded(math.sqrt(v)) if of and known and several else None
                    for v, of in zip(variances, scored, strict=True)
                ],
                converged,
                rounded(reliability) if assessed and several else None,
                uncertainty if assessed and several else None,
                rounded(chance) if assessed and several else None,
            )
        )
    return estimates
