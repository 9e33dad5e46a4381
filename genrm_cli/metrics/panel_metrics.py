"""Agreement of the judges of a panel, counted group by group."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from genrm_cli.metrics.running_stats import Mergeable
from genrm_cli.metrics.verdict_counts import Agreement, VerdictCounts
from genrm_cli.verdicts import Verdict, preferred


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelJudge:
    """One judge of a panel; `first_place_win_rate` is None for a judge that grades."""

    judge: str
    weight: float
    verdicts: int
    failures: int
    first_place_win_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelPair:
    """Two judges of a panel.

    Attributes:
        agreement: share of the comparisons judged by both on which they prefer the same response; a
            tie agrees with a tie only.
    """

    judges: tuple[str, ...]
    comparisons: int
    agreement: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSummary:
    """The agreement of the judges of a panel."""

    judges: tuple[PanelJudge, ...]
    pairs: tuple[PanelPair, ...]
    krippendorff_alpha: float | None
    comparisons_left_out: int


@dataclass(slots=True)
class Alpha(Mergeable):
    """Krippendorff's alpha for interval data, over units added one by one.

    1 is perfect agreement, 0 is chance, and below 0 is less than chance. Values are the judges'
    preferences: 1 for the response shown first, -1 for the second, 0 for neither, so a tie is
    half-way to a disagreement.

    Source: K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C, with the
    interval metric."""

    _units: int = 0
    _count: int = 0
    _sum: float = 0.0
    _squares: float = 0.0
    _within: float = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Add a unit: the values of all judges that gave one. Fewer than two are ignored."""
        n = len(values)
        if n < 2:
            return
        total = math.fsum(values)
        squares = math.fsum(value * value for value in values)
        self._units += 1
        self._count += n
        self._sum += total
        self._squares += squares
        self._within += (
            2 * (n * squares - total * total) / (n - 1)
        )  # squared differences of all ordered pairs

    def value(self) -> float | None:
        """Return alpha; None for fewer than two units, or if all values are equal."""
        if self._units < 2:
            return None
        expected = 2 * (self._count * self._squares - self._sum**2) / (self._count - 1)
        return 1.0 - self._within / expected if expected > 0 else None


@dataclass(slots=True)
class PanelMetrics(Mergeable):
    """Counts of a panel, in constant memory. Only counts of the same panel can be merged.

    Attributes:
        names: names of the judges. Their `weights` and `comparing` follow this order.
        comparing: whether each judge compares two responses; False if it grades them.
    """

    names: Sequence[str]
    weights: Sequence[float]
    comparing: Sequence[bool]
    _verdicts: dict[int, VerdictCounts] = field(init=False)
    _failures: Counter[int] = field(default_factory=Counter)
    _pairs: dict[tuple[int, int], Agreement] = field(init=False)
    _left_out: int = 0
    _alpha: Alpha = field(default_factory=Alpha)

    def __post_init__(self) -> None:
        self._verdicts = {number: VerdictCounts() for number in range(len(self.names))}
        self._pairs = {pair: Agreement() for pair in combinations(range(len(self.names)), 2)}

    def add_comparison(
        self,
        verdicts: Sequence[Verdict | None],
        *,
        counts: bool,
        asked: Sequence[bool] | None = None,
    ) -> None:
        """Add the verdicts on one comparison, None for a failure.

        Args:
            verdicts: of each judge.
            counts: whether the rewards use it.
            asked: whether each judge was asked; by default all were.
        """
        self._left_out += not counts
        for number, verdict in enumerate(verdicts):
            if verdict is not None:
                self._verdicts[number].add(verdict)
            elif asked is None or asked[number]:
                self._failures[number] += 1
        for (one, other), agreement in self._pairs.items():
            first = verdicts[one]
            second = verdicts[other]
            if first is not None and second is not None:
                agreement.add([(first, second)])
        self._alpha.add([preferred(verdict) for verdict in verdicts if verdict is not None])

    def summary(self) -> PanelSummary:
        """Return the statistics of the panel so far."""
        judges = tuple(
            PanelJudge(
                judge=name,
                weight=self.weights[number],
                verdicts=self._verdicts[number].verdicts,
                failures=self._failures[number],
                first_place_win_rate=self._verdicts[number].first_share
                if self.comparing[number]
                else None,
            )
            for number, name in enumerate(self.names)
        )
        pairs = tuple(
            PanelPair(
                judges=(self.names[one], self.names[other]),
                comparisons=found.pairs,
                agreement=found.rate(),
            )
            for (one, other), found in self._pairs.items()
        )
        return PanelSummary(
            judges=judges,
            pairs=pairs,
            krippendorff_alpha=self._alpha.value(),
            comparisons_left_out=self._left_out,
        )
