"""Predict from a run how many comparisons make its rewards reliable.

A plan of comparisons is a graph. If qualities have variance 1 and a verdict on (i, j) measures
q_i - q_j with noise of variance 1 / s, the share of a mode of the qualities that the verdicts
explain is s * v / (1 + s * v), with v the mode's eigenvalue of the graph's Laplacian. The mean
reliability of a run gives s, and s the reliability of every other plan.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.group_measures import RELIABLE_FROM
from genrm_cli.metrics.running_stats import LEAST_SPREAD
from genrm_cli.pairing.pairs import PairingPlan, ring_sizes

Floats = NDArray[np.float64]
LISTS = "lists"
"""The strategy in the record of a run whose judges saw lists."""
MOST_REPEATS = 64  # the bound of the setting
_STEPS = 4  # quarters of a ring: finer steps change the reliability by less than its error
_LARGEST = 48  # rollouts: the prediction hardly changes with larger groups, its cost does
_HALVINGS = 60  # of an interval of the logarithm of s, down to the last bits
_SHOWS_NOISE = 4  # rollouts
_TELLING_RINGS = 2  # where a rollout's positions differ, the prompt's part of the noise cancels
_KEPT = 256  # plans whose modes are kept: three searches try almost the same rings
# Of strengths that are all noise, and all signal.
_LEAST_LOG = math.log(1e-9)
_MOST_LOG = math.log(1e9)


class RingsNeeded(Struct, frozen=True):
    """Rings, or repeats of lists, at which the mean reliability of a run reaches `RELIABLE_FROM`.

    Each is None where comparing every pair in both orders, or 64 repeats, would not suffice.

    Attributes:
        setting: that counts them.
        expected: by the reliability of the run.
        at_best: by the upper end of its interval.
        at_worst: by the lower end of its interval.
    """

    expected: float | None
    at_best: float | None
    at_worst: float | None
    setting: Literal["ring_k", "repeats"] = "ring_k"


def expected_reliability(plan: PairingPlan, n: int, strength: float) -> float:
    """Return the reliability of n rewards from a plan.

    Args:
        n: rollouts in the group, 2 or more.
        strength: variance of the qualities over that of a verdict's noise, s above.

    Source: the posterior variance of normal random effects; S. R. Searle, G. Casella and C. E.
    McCulloch, Variance Components (1992) §7.2.
    """
    return _explained(strength * _modes(plan, n))


def predicted_reliability(
    tried: PairingPlan, plan: PairingPlan, n: int, reliability: float
) -> float:
    """Return the reliability by a plan of a judge whose rewards by another one have this one."""
    return _explained(_strength_of(_modes(tried, n), reliability) * _modes(plan, n))


def rings_needed(
    plan: PairingPlan, n: int, reliability: float, interval: tuple[float, float]
) -> RingsNeeded:
    """Return the rings that a judge needs whose rewards by this plan have this mean reliability.

    Args:
        n: rollouts in a typical group, 2 or more.
        interval: of the reliability.
    """
    low, high = interval
    modes = _modes(plan, n)
    rings = replace(plan, strategy="ring", both_orders=False, repeats=1)

    def needed(share: float) -> float | None:
        return _rings_for(rings, n, _strength_of(modes, share))

    return RingsNeeded(needed(reliability), needed(high), needed(low))


def repeats_needed(repeats: int, reliability: float, interval: tuple[float, float]) -> RingsNeeded:
    """Return the repeats of lists that a judge needs whose rewards have this mean reliability.

    Source: C. Spearman, British Journal of Psychology 3 (1910) 271; W. Brown, ibid. 296.
    """

    def needed(share: float) -> float | None:
        if share <= 0:
            return None
        odds = rounded(share / max(1 - share, LEAST_SPREAD) / repeats)
        count = math.ceil(rounded(RELIABLE_FROM / (1 - RELIABLE_FROM) / odds))
        return count if count <= MOST_REPEATS else None

    low, high = interval
    return RingsNeeded(needed(reliability), needed(high), needed(low), "repeats")


def unmeasured_text(
    group_sizes: Iterable[int],
    strategy: str,
    repeats: int,
    written: Callable[[str], str] = str,
) -> str:
    """Return why the reliability of a run is unknown, and what would show it.

    Noise shows where two verdicts on a group share no rollout, which takes four rollouts, or where
    a list is shown in two orders.

    Args:
        written: writes the name of a setting as the user knows it.
    """
    if strategy == LISTS:
        setting = written("repeats")
        if repeats < 2:
            return f"one order of a list shows no judge noise; set {setting} to 2"
        return f"too few lists show judge noise; score more groups together, or raise {setting}"
    if max(group_sizes, default=0) < _SHOWS_NOISE:
        return (
            f"groups of fewer than {_SHOWS_NOISE} rollouts cannot show judge noise; score larger "
            "groups, or measure the judge with genrm eval"
        )
    setting = written("ring_k")
    return f"too few comparisons show judge noise; score more groups together, or raise {setting}"


def unknown_text(strategy: str, ring_k: float | None, written: Callable[[str], str] = str) -> str:
    """Return what would tell whether a reliability is low or high."""
    more = "score more groups together"
    if strategy == LISTS:
        return f"{more}, or raise {written('repeats')}"
    if strategy == "ring" and ring_k is not None and ring_k < _TELLING_RINGS:
        return f"set {written('ring_k')} to {_TELLING_RINGS}, or {more}"
    return more


def remedy_text(
    needed: RingsNeeded | None,
    mean: float,
    written: Callable[[str], str] = str,
    *,
    is_panel: bool = False,
) -> str:
    """Return what would make the rewards of a run of this mean reliability reliable.

    Args:
        written: writes the name of a setting as the user knows it.
        is_panel: whether several judges asked; without rings, their agreement limits the
            reliability.
    """
    if needed is None and is_panel:
        return (
            "the judges agree too little for more calls to help: measure them with genrm eval, and "
            "add some whose errors differ"
        )
    if needed is None:
        return f"raise {written('ring_k')}"
    setting = written(needed.setting)
    everything = (
        f"{MOST_REPEATS} repeats" if needed.setting == "repeats" else "every pair in both orders"
    )
    if mean >= RELIABLE_FROM:
        if needed.at_worst is None:
            return "score more groups to be sure"
        return (
            f"{setting} {needed.at_worst:g} would reach {RELIABLE_FROM:.2f} at its lower end, too"
        )
    if needed.expected is None:
        problem = f"{everything} would not be expected to reach"
        if needed.at_best is None:
            problem = f"no number of calls will help, since {everything} would stay below"
        return f"{problem} {RELIABLE_FROM:.2f}; try another judge or profile"
    most = "more than all" if needed.at_worst is None else f"{needed.at_worst:g}"
    ends = f"{needed.at_best:g} to {most}"
    return f"{setting} {needed.expected:g} ({ends}) would reach {RELIABLE_FROM:.2f}"


def typical_size(group_sizes: Mapping[int, int]) -> int | None:
    """Return the size of the group in which the median rollout is, at most 48; None if all are
    alone.
    """
    sizes = {size: count for size, count in sorted(group_sizes.items()) if size > 1}
    half = sum(size * count for size, count in sizes.items()) / 2
    counted = 0
    for size, count in sizes.items():
        counted += size * count
        if counted >= half:
            return min(size, _LARGEST)
    return None


def _rings_for(rings: PairingPlan, n: int, strength: float) -> float | None:
    """Return the least quarters of a ring that reach `RELIABLE_FROM`; None if all do not."""
    every = range(_STEPS, len(ring_sizes(n)) * _STEPS + 1)

    def reached(quarters: int) -> float:
        return expected_reliability(replace(rings, ring_k=quarters / _STEPS), n, strength)

    number = bisect_left(every, RELIABLE_FROM, key=reached)
    return every[number] / _STEPS if number < len(every) else None


def _strength_of(modes: Floats, reliability: float) -> float:
    """Return the strength at which these modes have this reliability, by halving."""
    low = _LEAST_LOG
    high = _MOST_LOG
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _explained(math.exp(middle) * modes) < reliability:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _explained(strengths: Floats) -> float:
    return float(np.mean(strengths / (1 + strengths)))


@lru_cache(_KEPT)
def _modes(plan: PairingPlan, n: int) -> Floats:
    """Return the eigenvalues [n - 1] of the Laplacian of a plan, without that of the mean."""
    laplacian = np.zeros((n, n))
    for i, j, _ in plan.iter_pairs(n):
        laplacian[i, i] += 1
        laplacian[j, j] += 1
        laplacian[i, j] -= 1
        laplacian[j, i] -= 1
    return np.asarray(np.linalg.eigvalsh(laplacian)[1:], dtype=np.float64)
