"""Several dumps in time: what changed from each to the next, and whether chance explains it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from genrm_cli.report.figures import Mean, RunFigures, Share
from genrm_cli.report.page.charts import Point, number_text

_SIGNIFICANT = 0.01
_MEASURES: dict[str, Callable[[RunFigures], Mean | Share]] = {
    "mean reward": lambda run: run.rewards,
    "spread within groups": lambda run: run.spread,
    "characters a response": lambda run: run.length_chars,
    "length effect": lambda run: run.length_effect,
    "ties": lambda run: run.ties,
    "failures": lambda run: run.failed,
    "first place wins": lambda run: run.first_place,
    "reliability": lambda run: run.reliability,
}


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one measure between two dumps.

    Attributes:
        p_value: of a two-sided z-test of no change; None where one of the two is not measurable.
    """

    measure: str
    earlier: str
    later: str
    before: float | None
    after: float | None
    p_value: float | None

    @property
    def is_significant(self) -> bool:
        """Whether chance alone gives such a change less than once in a hundred times."""
        return self.p_value is not None and self.p_value < _SIGNIFICANT


def in_time(runs: Sequence[RunFigures]) -> list[int]:
    """Return the numbers of the runs by time; those without one last, in their order."""
    return sorted(range(len(runs)), key=lambda number: (runs[number].time is None, runs[number].time or "", number))


def iter_changes(runs: Sequence[RunFigures]) -> Iterator[Change]:
    """Yield the change of every measure from each run to the next one in time."""
    ordered = [runs[number] for number in in_time(runs)]
    for earlier, later in pairwise(ordered):
        for name, measure in _MEASURES.items():
            before, after = measure(earlier), measure(later)
            p_value = _p_value(before, after)
            yield Change(name, earlier.uri, later.uri, _value(before), _value(after), p_value)


def cells_of(run: RunFigures) -> dict[str, str]:
    """Return the measures of a run as text with their intervals, by name."""
    return {name: _text(measure(run)) for name, measure in _MEASURES.items()}


def iter_series(runs: Sequence[RunFigures]) -> Iterator[tuple[str, list[Point]]]:
    """Yield each measure with its values in time."""
    ordered = [runs[number] for number in in_time(runs)]
    for name, measure in _MEASURES.items():
        found = [measure(run) for run in ordered]
        titled = zip(ordered, found, strict=True)
        yield name, [Point(_value(each), each.low, each.high, f"{run.uri}: {_text(each)}") for run, each in titled]


def _value(found: Mean | Share) -> float | None:
    return found.mean if isinstance(found, Mean) else found.value


def _p_value(before: Mean | Share, after: Mean | Share) -> float | None:
    first, second = _with_variance(before), _with_variance(after)
    if first is None or second is None:
        return None
    variance = first[1] + second[1]
    gap = abs(first[0] - second[0])
    return math.erfc(gap / math.sqrt(2 * variance)) if variance > 0 else float(gap == 0)


def _with_variance(found: Mean | Share) -> tuple[float, float] | None:
    """Return a value and the squared standard error of it; a share is shrunk as Agresti and Caffo do.

    Source: A. Agresti and B. Caffo, The American Statistician 54 (2000) 280.
    """
    if isinstance(found, Share):
        share = (found.count + 1) / (found.of + 2)
        return None if found.value is None else (share, share * (1 - share) / (found.of + 2))
    if found.mean is None or found.deviation is None:
        return None
    return found.mean, found.deviation**2 / (found.count - 1)


def _text(found: Mean | Share) -> str:
    if isinstance(found, Share):
        if found.value is None or found.low is None or found.high is None:
            return "not measurable"
        return f"{100 * found.value:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"
    if found.mean is None:
        return "not measurable"
    if found.low is None or found.high is None:
        return number_text(found.mean)
    return f"{number_text(found.mean)} ({number_text(found.low)} to {number_text(found.high)})"
