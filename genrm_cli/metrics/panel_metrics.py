"""Agreement of the judges of a panel, counted group by group."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from genrm_cli.metrics.running_stats import LEAST_SPREAD, Mergeable
from genrm_cli.metrics.verdict_counts import VerdictCounts
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.verdicts import MIDDLE_RANKING, Verdict, preferred


class PanelMember(Struct, frozen=True, kw_only=True):
    """One judge of a panel; `first_place_win_rate` is None for a judge that grades."""

    judge: str
    verdicts: int
    failures: int
    first_place_win_rate: float | None


class PanelSummary(Struct, frozen=True, kw_only=True):
    """The agreement of the judges of a panel.

    Attributes:
        correlation: of the scores that two judges give the rollouts of a group, the mean over all
            pairs of judges; None if it is unknown.
    """

    judges: tuple[PanelMember, ...]
    krippendorff_alpha: float | None
    correlation: float | None


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
        # One value cannot disagree.
        if n < 2:
            return
        total = math.fsum(values)
        squares = math.fsum(value * value for value in values)
        self._units += 1
        self._count += n
        self._sum += total
        self._squares += squares
        # The squared differences of all ordered pairs.
        self._within += 2 * (n * squares - total * total) / (n - 1)

    def value(self) -> float | None:
        """Return alpha; None for fewer than two units, or if all values are equal."""
        if self._units < 2:
            return None
        expected = 2 * (self._count * self._squares - self._sum**2) / (self._count - 1)
        return 1.0 - self._within / expected if expected > 0 else None


class PanelMetrics(Mergeable):
    """Counts of a panel, in constant memory. Only counts of the same panel can be merged.

    Attributes:
        names: of the judges. Whatever is counted by judge has this order.
        compares_pairs: whether they compare two responses; False if they grade each alone.
    """

    names: tuple[str, ...]
    compares_pairs: bool = True
    _verdicts: dict[int, VerdictCounts] = field(default_factory=lambda: defaultdict(VerdictCounts))
    _failures: Counter[int] = field(default_factory=Counter)
    _products: NDArray[np.float64] | None = None
    _alpha: Alpha = field(default_factory=Alpha)

    def add_comparison(
        self, verdicts: Sequence[Verdict | None], asked: Sequence[bool] | None = None
    ) -> None:
        """Add the verdicts of each judge on one comparison, None for a failure.

        Args:
            asked: whether each judge was asked; by default all were.
        """
        for number, verdict in enumerate(verdicts):
            if verdict is not None:
                self._verdicts[number].add(verdict)
            elif asked is None or asked[number]:
                self._failures[number] += 1
        self._alpha.add([preferred(verdict) for verdict in verdicts if verdict is not None])

    def add_leads(self, verdicts: Mapping[Comparison, Sequence[Verdict | None]]) -> None:
        """Add the comparisons of a group on which all judges gave a verdict.

        Each judge scores a rollout by its mean lead over the others.

        Args:
            verdicts: of each judge.
        """
        size = 1 + max((max(i, j) for i, j, _ in verdicts), default=0)
        sums = np.zeros((len(self.names), size))
        counts = np.zeros(size)
        for (i, j, _), given in verdicts.items():
            known = [verdict for verdict in given if verdict is not None]
            # Over other pairs than the others, a judge's scores would differ without disagreement.
            if len(known) < len(self.names):
                continue
            gaps = [each.score_1 - each.score_2 - each.ranking for each in known]
            leads = (np.array(gaps) + MIDDLE_RANKING) / 2
            sums[:, i] += leads
            sums[:, j] -= leads
            counts[[i, j]] += 1
        judged = counts > 0
        if judged.any():
            scores = sums[:, judged] / counts[judged]
            # Groups differ in level, which is no agreement about their rollouts.
            scores -= scores.mean(axis=1, keepdims=True)
            products = scores @ scores.T
            self._products = products if self._products is None else self._products + products

    def correlation(self) -> float | None:
        """Return the mean correlation of the scores of two judges; None if fewer than two
        judges have scores that differ.
        """
        if self._products is None:
            return None
        deviations = np.sqrt(np.diag(self._products))
        spreads = np.outer(deviations, deviations)
        differ = np.triu(spreads > LEAST_SPREAD, k=1)
        reach = self._reach()
        pulls = np.outer(reach, reach)[differ]
        total = float(pulls.sum())
        return float(pulls @ (self._products[differ] / spreads[differ])) / total if total else None

    def _reach(self) -> NDArray[np.float64]:
        """Return how far each judge moves the panel: the spread of its scores."""
        if self._products is None:
            return np.zeros(len(self.names))
        return np.asarray(np.sqrt(np.diag(self._products)))

    def reliability(self) -> float | None:
        """Return the most that the spread of the panel's scores can be signal, 0 to 1: what all
        judges have in common, as if no two shared an error; None if unknown.

        Of unequal judges this is the least that the panel's mean can have in common with what all
        of them share.

        Source: effective number, L. Kish, Survey Sampling (1965) §11.7; reliability of a mean, C.
        Spearman and W. Brown, British Journal of Psychology 3 (1910) 271, 296; the bound, L. J.
        Cronbach, Psychometrika 16 (1951) 297.
        """
        correlation = self.correlation()
        if correlation is None:
            return None
        reach = self._reach()
        judges = float(reach.sum()) ** 2 / float(reach @ reach)
        one = max(0.0, correlation)
        return judges * one / (1 + (judges - 1) * one)

    def summary(self) -> PanelSummary:
        """Return the statistics of the panel so far."""
        judges = tuple(
            PanelMember(
                judge=name,
                verdicts=self._verdicts[number].verdicts,
                failures=self._failures[number],
                first_place_win_rate=self._verdicts[number].first_share
                if self.compares_pairs
                else None,
            )
            for number, name in enumerate(self.names)
        )
        return PanelSummary(
            judges=judges,
            krippendorff_alpha=self._alpha.value(),
            correlation=self.correlation(),
        )
