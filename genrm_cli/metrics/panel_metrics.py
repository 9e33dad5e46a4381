"""Agreement of the judges of a panel, counted group by group."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TypedDict

from genrm_cli.verdicts import Verdict, preference


class JudgeFigures(TypedDict):
    """One judge of a panel: its verdicts on comparisons, those that it did not give, and how it likes the first place.

    `first_place_win_rate` is the share of its decided verdicts for the response shown first; None for a judge that
    grades.
    """

    judge: str
    weight: float
    verdicts: int
    failures: int
    first_place_win_rate: float | None


class PairFigures(TypedDict):
    """Two judges of a panel.

    `agreement` is the share of comparisons with verdicts of both on which they prefer the same response (a tie agrees
    with a tie only); `kendall_tau` the mean over `groups` of the tau-b of their base scores, -1 to 1.
    """

    judges: tuple[str, str]
    comparisons: int
    agreement: float | None
    kendall_tau: float | None
    groups: int


class PanelMetrics:
    """Counts of a panel, in memory that does not grow with the comparisons."""

    def __init__(self, names: Sequence[str], weights: Sequence[float], comparing: Sequence[bool]) -> None:
        """Begin to count.

        Args:
            names: of the judges.
            weights: in their order.
            comparing: whether each is shown the two responses of a comparison, one first; False if it grades.
        """
        self.names, self._weights, self._comparing = tuple(names), tuple(weights), tuple(comparing)
        n = len(self.names)
        self._verdicts, self._failures = [0] * n, [0] * n
        self._first, self._decided = [0] * n, [0] * n
        self._pairs = list(combinations(range(n), 2))
        self._compared, self._agreeing = [0] * len(self._pairs), [0] * len(self._pairs)
        self._tau, self._groups = [0.0] * len(self._pairs), [0] * len(self._pairs)
        self._left_out = 0
        self._alpha = Alpha()

    def add_comparison(self, verdicts: Sequence[Verdict | None], *, counts: bool) -> None:
        """Take in what the judges said of one comparison, None where one gave no verdict.

        Args:
            verdicts: in the order of the names.
            counts: whether the comparison went into the rewards.
        """
        self._left_out += not counts
        preferences = [None if verdict is None else _sign(preference(verdict)) for verdict in verdicts]
        for judge, preferred in enumerate(preferences):
            self._verdicts[judge] += preferred is not None
            self._failures[judge] += preferred is None
            self._decided[judge] += bool(preferred) and self._comparing[judge]
            self._first[judge] += preferred == 1 and self._comparing[judge]
        for pair, (one, other) in enumerate(self._pairs):
            if preferences[one] is not None and preferences[other] is not None:
                self._compared[pair] += 1
                self._agreeing[pair] += preferences[one] == preferences[other]
        self._alpha.add([preferred for preferred in preferences if preferred is not None])

    def add_group(self, base_scores: Sequence[Sequence[float | None]]) -> None:
        """Take in a group: for each judge the base scores that its own verdicts alone would give."""
        for pair, (one, other) in enumerate(self._pairs):
            tau = kendall_tau(base_scores[one], base_scores[other])
            if tau is not None:
                self._tau[pair] += tau
                self._groups[pair] += 1

    def merge(self, other: "PanelMetrics") -> None:
        """Add the counts of another part of the run, of the same panel."""
        for name in ("_verdicts", "_failures", "_first", "_decided", "_compared", "_agreeing", "_tau", "_groups"):
            setattr(self, name, [a + b for a, b in zip(getattr(self, name), getattr(other, name), strict=True)])
        self._left_out += other._left_out
        self._alpha.merge(other._alpha)

    def as_dict(self) -> dict[str, object]:
        """Return the metrics as a JSON-ready object."""
        return {
            "judges": [self._judge(number) for number in range(len(self.names))],
            "pairs": [self._pair(number) for number in range(len(self._pairs))],
            "krippendorff_alpha": self._alpha.value(),
            "comparisons_left_out": self._left_out,
        }

    def _judge(self, number: int) -> JudgeFigures:
        decided = self._decided[number]
        return {
            "judge": self.names[number],
            "weight": self._weights[number],
            "verdicts": self._verdicts[number],
            "failures": self._failures[number],
            "first_place_win_rate": self._first[number] / decided if decided else None,
        }

    def _pair(self, number: int) -> PairFigures:
        one, other = self._pairs[number]
        compared, groups = self._compared[number], self._groups[number]
        return {
            "judges": (self.names[one], self.names[other]),
            "comparisons": compared,
            "agreement": self._agreeing[number] / compared if compared else None,
            "kendall_tau": self._tau[number] / groups if groups else None,
            "groups": groups,
        }


class Alpha:
    """Krippendorff's alpha for interval data, over units that come one by one.

    1 is perfect agreement, 0 what chance gives, below 0 less than that. Values are the judges' preferences: 1 for the
    response shown first, -1 for the second, 0 for neither, so a tie is half-way to a disagreement.

    Source: K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C, with the interval metric.
    """

    def __init__(self) -> None:
        self._units = self._count = 0
        self._sum = self._squares = self._within = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Take in one unit: the values of all judges that gave one; fewer than two say nothing."""
        n = len(values)
        if n < 2:
            return
        total, squares = math.fsum(values), math.fsum(value * value for value in values)
        self._units += 1
        self._count += n
        self._sum += total
        self._squares += squares
        self._within += 2 * (n * squares - total * total) / (n - 1)  # squared differences of all ordered pairs

    def merge(self, other: "Alpha") -> None:
        """Add the units of another part."""
        for name in ("_units", "_count", "_sum", "_squares", "_within"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def value(self) -> float | None:
        """Return alpha; None without two units, or when all values are the same."""
        if self._units < 2:
            return None
        expected = 2 * (self._count * self._squares - self._sum**2) / (self._count - 1)
        return 1.0 - self._within / expected if expected > 0 else None


def kendall_tau(one: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """Return Kendall's tau-b of two rows of scores of the same rollouts; -1 to 1.

    Rollouts without one of the scores are left out. None for fewer than two, or when one row has no spread.

    Source: M. G. Kendall, Biometrika 33 (1945) 239, tau-b, which allows for ties.
    """
    rows = [(x, y) for x, y in zip(one, other, strict=True) if x is not None and y is not None]
    concordance = spread_x = spread_y = 0
    for (x1, y1), (x2, y2) in combinations(rows, 2):
        sign_x, sign_y = _sign(x1 - x2), _sign(y1 - y2)
        concordance += sign_x * sign_y
        spread_x += sign_x != 0
        spread_y += sign_y != 0
    return concordance / math.sqrt(spread_x * spread_y) if spread_x and spread_y else None


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
