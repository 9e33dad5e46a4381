"""Agreement of the judges of a panel, counted group by group."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from genrm_cli.metrics.running_stats import Mergeable
from genrm_cli.verdicts import Verdict, preferred, sign_of


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
        agreement: share of the comparisons judged by both on which they prefer the same response; a tie agrees with a
            tie only.
        kendall_tau: mean over `groups` of the tau-b of their base scores, -1 to 1.
    """

    judges: tuple[str, ...]
    comparisons: int
    agreement: float | None
    kendall_tau: float | None
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSummary:
    """The agreement of the judges of a panel."""

    judges: tuple[PanelJudge, ...]
    pairs: tuple[PanelPair, ...]
    krippendorff_alpha: float | None
    comparisons_left_out: int


@dataclass(slots=True)
class _JudgeCounts(Mergeable):
    verdicts: int = 0
    failures: int = 0
    decided: int = 0
    first: int = 0


@dataclass(slots=True)
class _PairCounts(Mergeable):
    compared: int = 0
    agreeing: int = 0
    tau: float = 0.0  # summed over the groups
    groups: int = 0


@dataclass(slots=True)
class Alpha(Mergeable):
    """Krippendorff's alpha for interval data, over units added one by one.

    1 is perfect agreement, 0 is chance, and below 0 is less than chance. Values are the judges' preferences: 1 for the
    response shown first, -1 for the second, 0 for neither, so a tie is half-way to a disagreement.

    Source: K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C, with the interval metric.
    """

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
        total, squares = math.fsum(values), math.fsum(value * value for value in values)
        self._units += 1
        self._count += n
        self._sum += total
        self._squares += squares
        self._within += 2 * (n * squares - total * total) / (n - 1)  # squared differences of all ordered pairs

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
    _judges: dict[int, _JudgeCounts] = field(init=False)
    _pairs: dict[tuple[int, int], _PairCounts] = field(init=False)
    _left_out: int = 0
    _alpha: Alpha = field(default_factory=Alpha)

    def __post_init__(self) -> None:
        self._judges = {number: _JudgeCounts() for number in range(len(self.names))}
        self._pairs = {pair: _PairCounts() for pair in combinations(range(len(self.names)), 2)}

    def add_comparison(
        self, verdicts: Sequence[Verdict | None], *, counts: bool, asked: Sequence[bool] | None = None
    ) -> None:
        """Add the verdicts on one comparison, None for a failure.

        Args:
            verdicts: of each judge.
            counts: whether the rewards use it.
            asked: whether each judge was asked; by default all were.
        """
        self._left_out += not counts
        preferences = [None if verdict is None else preferred(verdict) for verdict in verdicts]
        all_asked = asked or (True,) * len(verdicts)
        rows = zip(self._judges.values(), preferences, self.comparing, all_asked, strict=True)
        for judge, side, compares, was_asked in rows:
            judge.verdicts += side is not None
            judge.failures += side is None and was_asked
            judge.decided += bool(side) and compares
            judge.first += side == 1 and compares
        for (one, other), pair in self._pairs.items():
            if preferences[one] is not None and preferences[other] is not None:
                pair.compared += 1
                pair.agreeing += preferences[one] == preferences[other]
        self._alpha.add([side for side in preferences if side is not None])

    def add_group(self, base_scores: Sequence[Sequence[float | None]]) -> None:
        """Add a group: for each judge, the base scores from its own verdicts alone."""
        for (one, other), pair in self._pairs.items():
            tau = kendall_tau(base_scores[one], base_scores[other])
            if tau is not None:
                pair.tau += tau
                pair.groups += 1

    def summary(self) -> PanelSummary:
        """Return the statistics of the panel so far."""
        judges = tuple(
            PanelJudge(
                judge=name,
                weight=weight,
                verdicts=judge.verdicts,
                failures=judge.failures,
                first_place_win_rate=judge.first / judge.decided if judge.decided else None,
            )
            for name, weight, judge in zip(self.names, self.weights, self._judges.values(), strict=True)
        )
        pairs = tuple(
            PanelPair(
                judges=(self.names[one], self.names[other]),
                comparisons=pair.compared,
                agreement=pair.agreeing / pair.compared if pair.compared else None,
                kendall_tau=pair.tau / pair.groups if pair.groups else None,
                groups=pair.groups,
            )
            for (one, other), pair in self._pairs.items()
        )
        return PanelSummary(
            judges=judges,
            pairs=pairs,
            krippendorff_alpha=self._alpha.value(),
            comparisons_left_out=self._left_out,
        )


def kendall_tau(one: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """Return Kendall's tau-b of two rows of scores of the same rollouts; -1 to 1.

    Rollouts without one of the scores are left out. None for fewer than two, or if one row has no spread.

    Source: M. G. Kendall, Biometrika 33 (1945) 239, tau-b, which allows for ties.
    """
    rows = [(x, y) for x, y in zip(one, other, strict=True) if x is not None and y is not None]
    concordance = spread_x = spread_y = 0
    for (x1, y1), (x2, y2) in combinations(rows, 2):
        sign_x, sign_y = sign_of(x1 - x2), sign_of(y1 - y2)
        concordance += sign_x * sign_y
        spread_x += sign_x != 0
        spread_y += sign_y != 0
    return concordance / math.sqrt(spread_x * spread_y) if spread_x and spread_y else None
