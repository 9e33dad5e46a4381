"""Components of one rollout → the number that a trainer reads: a weighted sum under hard constraints."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Weight(NamedTuple):
    """How much a component counts, 0 or more; whether the total can do without it."""

    weight: float = 1.0
    optional: bool = False


class Gate(NamedTuple):
    """A hard constraint: the component must be at least this; it need not have a weight."""

    component: str
    least: float


@dataclass(frozen=True, slots=True)
class TotalTerms:
    """How a total is made.

    Attributes:
        weights: by the component's name; those not named do not count.
        gates: hard constraints, any number for a component.
        clip: least and greatest total; None leaves that side open.
        normalise: divide by the sum of the weights of the components that are there. Weights of 0 and more make
            that a weighted mean, between the least and the greatest component.
    """

    weights: Mapping[str, Weight]
    gates: Sequence[Gate] = ()
    clip: tuple[float | None, float | None] | None = None
    normalise: bool = False


@dataclass(frozen=True, slots=True)
class Total:
    """The total of one rollout and how it came about.

    Attributes:
        value: None where something needed is missing.
        terms: weight times component of each that has a weight and is there, before normalising and clipping.
        gated_by: components below their gates; one is enough to make the value 0.
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

    Missing beats gated: without a component that is needed, by its weight or by a gate, there is no value, not 0.
    Nor is there one where every optional component is missing, or the weights that are there add up to 0 and
    `normalise` would divide by that. A total that a gate closed stays 0, whatever `clip` says.

    Args:
        components: finite values by name; None, like a name that is not there, is missing.
        terms: weights, gates and limits.
        sizes: of the clusters by which components are divided before they are weighed; gates look at the undivided
            ones. One below 0 is missing: to divide it would reward copying.
    """
    sizes = sizes or {}
    there = {name: value for name, value in components.items() if value is not None}
    there = {name: value for name, value in there.items() if value >= 0 or sizes.get(name, 1) == 1}
    weighed = {name: weight for name, (weight, _) in terms.weights.items() if name in there}
    # `+ 0.0` turns the -0.0 of a weight of 0 on a negative component into 0.0.
    added = {name: weight * there[name] / sizes.get(name, 1) + 0.0 for name, weight in weighed.items()}
    gated_by = tuple(dict.fromkeys(gate.component for gate in terms.gates if _is_below(there, gate)))
    divisor = math.fsum(weighed.values()) if terms.normalise else 1.0
    missing = _missing(there, terms)
    if missing:
        return Total(None, added, gated_by, missing)
    if not weighed or divisor == 0:
        return Total(None, added, gated_by, tuple(name for name in terms.weights if name not in there))
    if gated_by:
        return Total(0.0, added, gated_by)
    return Total(_clip(math.fsum(added.values()) / divisor, terms.clip), added)


def _is_below(there: Mapping[str, float], gate: Gate) -> bool:
    return gate.component in there and there[gate.component] < gate.least


def _missing(there: Mapping[str, float], terms: TotalTerms) -> tuple[str, ...]:
    """Return what is needed and not there: first those with a weight, then those with a gate, each once."""
    weighed = [name for name, (_, optional) in terms.weights.items() if not optional]
    needed = dict.fromkeys([*weighed, *(gate.component for gate in terms.gates)])
    return tuple(name for name in needed if name not in there)


def _clip(value: float, clip: tuple[float | None, float | None] | None) -> float:
    low, high = clip or (None, None)
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)
