"""Sentinels: the same pairs, judged again in each run, show a judge that has changed without any label."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from genrm_cli.watching.evidence import RateNull

BASELINE_RUNS = 5
"""Verdicts of each sentinel that are asked for on the first day."""
MIN_STABLE = 0.7
"""Share of stable sentinels below which the judge is too noisy to be watched by them."""
_SHIFTS = (0.04, 0.10, 0.25)


@dataclass(frozen=True, slots=True)
class SentinelBaseline:
    """What a judge said of its sentinels when it was armed.

    Attributes:
        usual: for each sentinel the verdict that all runs of the baseline gave; None if they differ or one is missing.
        null: the rate at which an unchanged judge departs from them.
    """

    usual: tuple[str | None, ...]
    null: RateNull

    @property
    def stable(self) -> int:
        """Number of sentinels with a unanimous verdict."""
        return sum(verdict is not None for verdict in self.usual)

    def departures(self, runs: Sequence[str]) -> tuple[int, int]:
        """Return how many verdicts of these runs on stable sentinels are others than usual, and how many there are."""
        told = [
            (usual, now)
            for run in runs
            for usual, now in zip(self.usual, run, strict=True)
            if usual is not None and now != MISSING
        ]
        return sum(usual != now for usual, now in told), len(told)


MISSING = "?"
"""Stands for a sentinel without a verdict; "+" prefers the chosen response, "-" the other, "=" neither."""


def sentinel_baseline(runs: Sequence[str]) -> SentinelBaseline:
    """Return the baseline of two runs or more, each one character for each sentinel.

    The rate of departures is estimated by leaving each run out: departures of a run from the sentinels on which all
    other runs agree. The null is its upper end of a one-sided 95 % interval.
    """
    usual = tuple(verdicts[0] if _unanimous(verdicts) else None for verdicts in zip(*runs, strict=True))
    departures = cases = 0
    for left_out, run in enumerate(runs):
        others = zip(*(other for number, other in enumerate(runs) if number != left_out), strict=True)
        for now, rest in zip(run, others, strict=True):
            if now != MISSING and _unanimous(rest):
                cases += 1
                departures += now != rest[0]
    rate = (departures + 1) / (cases + 2)
    error = math.sqrt(rate * (1 - rate) / max(1, cases))
    return SentinelBaseline(usual, RateNull(rate + 1.64 * error, _SHIFTS))


def errors_in(runs: Sequence[str]) -> tuple[int, int]:
    """Return on how many sentinels these runs did not prefer the better response, and how many verdicts they have."""
    said = "".join(runs).replace(MISSING, "")
    return len(said) - said.count("+"), len(said)


def _unanimous(verdicts: Sequence[str]) -> bool:
    return MISSING not in verdicts and len(set(verdicts)) == 1
