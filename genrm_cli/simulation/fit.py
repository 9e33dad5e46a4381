"""Fit the model of a judge to its own verdicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import NormalDist

import numpy as np
from numpy.random import default_rng

from genrm_cli.rewards.estimators import Verdicts
from genrm_cli.rewards.estimators.verdict_batch import Floats
from genrm_cli.simulation.judge import JudgeModel
from genrm_cli.simulation.observe import batches_of, labels_of, observe, steps_of
from genrm_cli.simulation.world import draw_world, judge_pairs, ordered_pairs

_GROUPS, _SIZE, _REPEATS = 200, 8, 2
_ROUNDS, _STEP, _LONGEST = 8, 0.05, 0.5
_NEAR_ENOUGH, _LEAST_GAIN = 1e-5, 0.02
_LEAST_DAMPING, _MOST_DAMPING = 1e-5, 1e3

# The metric of the verdicts that decides each number of the model; where two name one number, see `_REPLACES`.
_DECIDED_BY = {
    "mean_gap": "position_bias",
    "mean_score": "mean_score",
    "tie_share": "tie_width",
    "contradiction_share": "contradictions",
    "gap_std": "score_spread",
    "ranking_std": "ranking_spread",
    "score_std": "leniency_spread",
    "gap_slope": "score_spread",
    "ranking_slope": "ranking_spread",
    "gap_ranking_correlation": "score_noise",
    "gap_noise": "score_noise",
    "ranking_noise": "ranking_noise",
    "shared_noise": "noise",
    "group_bias_std": "position_bias_spread",
    "swapped_agreement": "intransitivity",
    "repeated_agreement": "repeating",
}
# Labels have a scale of their own, and one error: that of the lead.
_DECIDED_BY_LABELS = {
    "mean_gap": "position_bias",
    "tie_share": "tie_width",
    "gap_slope": "noise",
    "group_bias_std": "position_bias_spread",
    "swapped_agreement": "intransitivity",
    "repeated_agreement": "repeating",
}
# Where the rollouts are known, these replace others that assume more.
_REPLACES = {"gap_slope": "gap_std", "ranking_slope": "ranking_std", "gap_noise": "gap_ranking_correlation"}


@dataclass(frozen=True, slots=True)
class Fit:
    """A model fitted to verdicts.

    Attributes:
        model: the fitted one.
        parameters: names of the fitted numbers; the others are those of the start model.
        observed: metrics of the verdicts that decided them.
        reached: the same metrics of the fitted model.
    """

    model: JudgeModel
    parameters: tuple[str, ...]
    observed: dict[str, float]
    reached: dict[str, float]


def fit_to_verdicts(
    start: JudgeModel,
    groups: Sequence[Verdicts],
    failures: int,
    *,
    known_rollouts: bool,
    fixed: frozenset[str] = frozenset(),
) -> Fit:
    """Fit a model to at least one verdict of a judge, and count its steps and failures.

    `known_rollouts` tells whether indices and groups are meaningful; `fixed` numbers keep their values.
    """
    batches = list(batches_of(groups))
    failure_share = failures / (failures + sum(map(len, groups)))
    labels = labels_of(batches)
    steps = {} if labels else dict(zip(("score_step", "ranking_step"), steps_of(batches), strict=True))
    counted = {**steps, "labels": labels, "failure_share": failure_share}
    counted = {name: value for name, value in counted.items() if name not in fixed}
    fit = fit_judge(replace(start, **counted), observe(batches, known_rollouts=known_rollouts), fixed)
    return replace(fit, parameters=(*fit.parameters, *counted))


def fit_judge(start: JudgeModel, observed: Mapping[str, float], fixed: frozenset[str] = frozenset()) -> Fit:
    """Find the model whose simulated verdicts have the observed metrics.

    Numbers that no metric decides, and the fixed ones, keep their start values.

    Source: the method of simulated moments (McFadden 1989), by damped Gauss-Newton with common random numbers.
    """
    replaced = {old for new, old in _REPLACES.items() if new in observed}
    decided_by = _decided_by(start, observed)
    if decided_by.get("tie_share") == "tie_width" and "ties_broken" not in fixed and not start.labels:
        start = replace(start, ties_broken=0.0)  # the verdicts show more ties than rounding makes
    targets = {
        name: value
        for name, value in observed.items()
        if name in decided_by and name not in replaced and decided_by[name] not in fixed
    }
    parameters = tuple(dict.fromkeys(decided_by[name] for name in targets))
    if not targets:
        return Fit(start, (), {}, {})

    def misses_of(model: JudgeModel) -> Floats:
        metrics = _simulated(model)
        return np.array([metrics.get(name, 0.0) - value for name, value in targets.items()])

    model, misses, damping, gain = start, misses_of(start), 0.01, 1.0
    for _ in range(_ROUNDS):
        if misses @ misses < _NEAR_ENOUGH or gain < _LEAST_GAIN:
            break
        slopes, gain = _slopes(model, parameters, misses, misses_of), 0.0
        while damping < _MOST_DAMPING and not gain:
            step = -np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(parameters)), slopes.T @ misses)
            moved = _moved(model, parameters, np.clip(step, -_LONGEST, _LONGEST))
            new = misses_of(moved)
            gain = max(0.0, 1.0 - float(new @ new) / float(misses @ misses))
            if gain:
                model, misses = moved, new
            damping = max(damping / 5, _LEAST_DAMPING) if gain else damping * 5
    metrics = _simulated(model)
    return Fit(model, parameters, targets, {name: metrics[name] for name in targets if name in metrics})


def _decided_by(start: JudgeModel, observed: Mapping[str, float]) -> dict[str, str]:
    """Return the number that each metric decides."""
    decided_by = _DECIDED_BY_LABELS if start.labels else _DECIDED_BY
    if not start.labels and observed["tie_share"] < _ties_of_rounding(start, observed):
        decided_by = decided_by | {"tie_share": "ties_broken"}
    if start.labels == 5:
        decided_by = decided_by | {"much_share": "much_lead"}
    if "gap_slope" in observed:
        return decided_by
    # Pairs without a rollout in common tell noise from what stays, but not an error about the pair from quality.
    return decided_by | {"swapped_agreement": "noise"}


def _ties_of_rounding(start: JudgeModel, observed: Mapping[str, float]) -> float:
    """Return the share of ties that rounding makes of normal gaps."""
    if not observed["gap_std"]:
        return 0.0
    return 2 * NormalDist().cdf(start.score_step / 2 / observed["gap_std"]) - 1


def _slopes(
    model: JudgeModel, parameters: Sequence[str], misses: Floats, misses_of: Callable[[JudgeModel], Floats]
) -> Floats:
    """Return how each miss changes with each parameter; at an upper bound the step goes down."""
    columns = []
    for index, name in enumerate(parameters):
        change = np.zeros(len(parameters))
        change[index] = _STEP
        moved = _moved(model, parameters, change)
        if getattr(moved, name) - getattr(model, name) < _STEP / 2:
            moved = _moved(model, parameters, -change)
        columns.append((misses_of(moved) - misses) / (getattr(moved, name) - getattr(model, name)))
    return np.stack(columns, axis=1)


def _moved(model: JudgeModel, parameters: Sequence[str], step: Floats) -> JudgeModel:
    """Change the parameters, each within its bounds."""
    bounds = {each.name: (each.metadata["low"], each.metadata["high"]) for each in fields(model)}
    moved = {
        name: min(max(getattr(model, name) + float(by), bounds[name][0]), bounds[name][1])
        for name, by in zip(parameters, step, strict=True)
    }
    return replace(model, **moved)


def _simulated(model: JudgeModel) -> dict[str, float]:
    """Return the metrics of a model, always with the same random numbers and without failures."""
    generator = default_rng(0)
    world = draw_world(replace(model, failure_share=0.0), _GROUPS, _SIZE, generator)
    first, second = ordered_pairs(_GROUPS, _SIZE, _REPEATS)
    return observe([judge_pairs(world, first, second, generator)])
