"""The one measurement of a group, for the metrics of a run, its report and `genrm eval`."""

import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec import Struct, field

from genrm_cli.metrics.figures import FigureForm
from genrm_cli.metrics.running_stats import ExpectedSignal, has_spread
from genrm_cli.metrics.verdict_counts import VerdictCounts, Verdicts

NOISY_BELOW = 0.5
"""Reliability below which the spread of a group's rewards is more noise than signal."""
RELIABLE_FROM = 0.8
"""Reliability from which differences between rewards are mostly real."""
STRONG_LENGTH = 0.3
"""Mean length effect from which a policy that is trained on the rewards learns to write more, or
less.
"""
RELIABILITY = FigureForm(2, (NOISY_BELOW, RELIABLE_FROM))
EFFECT = FigureForm(2, (-STRONG_LENGTH, 0.0, STRONG_LENGTH), "+")
"""Of a correlation with the length."""
_LEAST_POINTS = 3  # two points always correlate perfectly


class GroupMeasures(Struct, frozen=True, dict=True):
    """The signal in a group; "not measurable" is None, never 0.

    Attributes:
        rewards: those that are known.
        lengths: characters of the same responses, without white space around them; empty where they
            are not measured.
        reliability: share of the spread that is signal.
        expected: the reliability that the judge's noise lets expect.
        verdicts: ties, first places and flips of its verdicts.
    """

    rewards: Sequence[float] = ()
    lengths: Sequence[float] = ()
    reliability: float | None = None
    expected: ExpectedSignal | None = None
    verdicts: VerdictCounts = field(default_factory=VerdictCounts)

    @cached_property
    def spread(self) -> float | None:
        """Population standard deviation of the rewards; None for fewer than two."""
        return statistics.pstdev(self.rewards) if len(self.rewards) > 1 else None

    @property
    def is_flat(self) -> bool:
        """Whether two or more rewards are all equal, so that there is nothing to learn."""
        return len(self.rewards) > 1 and not has_spread(self.rewards)

    @property
    def is_noisy(self) -> bool:
        """Whether its spread is known to be mostly noise."""
        return self.reliability is not None and self.reliability < NOISY_BELOW

    @cached_property
    def length_effect(self) -> float | None:
        """Pearson's correlation of reward and length; None below three rewards, or if one does not
        vary.
        """
        return correlation(self.rewards, self.lengths)


def count_verdicts(of_judges: Iterable[Verdicts], *, in_order: bool = True) -> VerdictCounts:
    """Count the verdicts of a group, each judge compared with itself only; see
    `VerdictCounts.add_group`.
    """
    counts = VerdictCounts()
    for verdicts in of_judges:
        counts.add_group(verdicts, in_order=in_order)
    return counts


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None for few points, or where one of the two does not vary
    or is not measured.
    """
    if len(first) < _LEAST_POINTS or not (has_spread(first) and has_spread(second)):
        return None
    return statistics.correlation(first, second)


def reliability_word(interval: Sequence[float] | None, *, of_lists: bool = False) -> str:
    """Return `high`, `fair`, `low` or `unknown` for the interval of a run's reliability.

    The lower end decides, so that a wide interval promises nothing; it is `unknown` if the
    reliability may be low as well as high. That of lists is never `high`: what a judge says in
    every order of a list counts as signal, right or wrong.
    """
    if interval is None:
        return "unknown"
    low, high = interval
    if low >= RELIABLE_FROM and not of_lists:
        return "high"
    if low >= NOISY_BELOW:
        return "fair"
    return "low" if high < RELIABLE_FROM else "unknown"
