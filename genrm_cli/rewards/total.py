"""Combine the components of a rollout into its total reward: a weighted sum with hard constraints."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Weight(NamedTuple):
    """The weight of a component, 0 or more, and whether it may be missing."""

    weight: float = 1.0
    optional: bool = False


class Gate(NamedTuple):
    """A hard constraint: the minimum value of a component, which need not have a weight."""

    component: str
    least: float


@dataclass(frozen=True, slots=True)
class TotalTerms:
    """The terms of a total.

    Attributes:
        weights: weights by component name; components without a weight do not count.
        gates: hard constraints, any number for a component.
        clip: minimum and maximum of the total; None means no limit.
        normalise: divide by the sum of the weights of the present components: a weighted mean, between the smallest
            and the largest component.
    """

    weights: Mapping[str, Weight]
    gates: Sequence[Gate] = ()
    clip: tuple[float | None, float | None] | None = None
    normalise: bool = False


@dataclass(frozen=True, slots=True)
class Total:
    """The total of one rollout and its derivation.

    Attributes:
        value: the total; None if a required component is missing.
        terms: weight times component of each present component with a weight, before normalising and clipping.
        gated_by: components below their gates; a single one makes the value 0.
        missing: components whose absence leaves no value; empty when there is a value, and when all weights are 0.
    """

    value: float | None
    terms: Mapping[str, float]
    gated_by: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def compose_total(
    components: Mapping[str, float | None], terms: TotalTerms, sizes: Mapping[str, int] | None = None
) -> Total:
    """Weigh and add the components of a rollout, then apply gates, then clip.

    Missing takes precedence over gated: without a component that a weight or a gate requires, the value is None, not
    0. It is also None where every optional component is missing, or where the present weights add up to 0 and
    `normalise` would divide by that. A gated total stays 0, whatever `clip` says.

    Args:
        components: finite values by name; None and absent names are missing.
        terms: weights, gates and limits.
        sizes: cluster sizes by which components are divided before they are weighted; gates apply to the undivided
            ones. A negative one counts as missing: dividing it would reward copying.
    """
    sizes = sizes or {}
    present = {name: value for name, value in components.items() if value is not None}
    present = {name: value for name, value in present.items() if value >= 0 or sizes.get(name, 1) == 1}
    weighed = {name: weight for name, (weight, _) in terms.weights.items() if name in present}
    # `+ 0.0` turns the -0.0 of a weight of 0 on a negative component into 0.0.
    added = {name: weight * present[name] / sizes.get(name, 1) + 0.0 for name, weight in weighed.items()}
    gated_by = tuple(dict.fromkeys(gate.component for gate in terms.gates if _is_below(present, gate)))
    divisor = math.fsum(weighed.values()) if terms.normalise else 1.0
    missing = _missing(present, terms)
    if missing:
        return Total(None, added, gated_by, missing)
    if not weighed or divisor == 0:
        return Total(None, added, gated_by, tuple(name for name in terms.weights if name not in present))
    if gated_by:
        return Total(0.0, added, gated_by)
    return Total(_clip(math.fsum(added.values()) / divisor, terms.clip), added)


def _is_below(present: Mapping[str, float], gate: Gate) -> bool:
    return gate.component in present and present[gate.component] < gate.least


def _missing(present: Mapping[str, float], terms: TotalTerms) -> tuple[str, ...]:
    """Return the required names that are absent: first those with a weight, then those with a gate, each once."""
    weighed = [name for name, (_, optional) in terms.weights.items() if not optional]
    needed = dict.fromkeys([*weighed, *(gate.component for gate in terms.gates)])
    return tuple(name for name in needed if name not in present)


def _clip(value: float, clip: tuple[float | None, float | None] | None) -> float:
    low, high = clip or (None, None)
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)
