"""Statistics of a judge's verdicts on pairs, shared by a run's metrics, its report and `genrm
eval`.
"""

from collections.abc import Mapping

from msgspec import field

from genrm_cli.metrics.running_stats import Mergeable
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.verdicts import (
    Verdict,
    contradicts_itself,
    preferred,
    verdict_after_swap,
)

Verdicts = Mapping[Comparison, Verdict]
"""Verdicts of one judge by the rollout shown first, the one shown second, and the repeat."""


class FailingText(Mergeable):
    """The failed requests that show one rollout.

    Attributes:
        of: all requests that show it.
        cause: the commonest cause, in a few words.
    """

    failed: int
    of: int
    cause: str


class CountOf(Mergeable):
    """How many of some things have a property: `count` of `of`."""

    count: int = 0
    of: int = 0

    def add(self, count: int, of: int) -> None:
        """Add those of a group."""
        self.count += count
        self.of += of


class Agreement(Mergeable):
    """Agreement of two verdicts on one pair about the preferred response; a tie agrees only with a
    tie.
    """

    pairs: int = 0
    agreeing: int = 0

    def add(self, one: Verdict, other: Verdict) -> None:
        """Add two verdicts on one pair, both as verdicts on the same order."""
        self.pairs += 1
        self.agreeing += preferred(one) == preferred(other)

    def rate(self) -> float | None:
        """Return the share that agree; None without pairs."""
        return self.agreeing / self.pairs if self.pairs else None


class VerdictCounts(Mergeable):
    """Counts of verdicts on pairs.

    Attributes:
        decided: verdicts that prefer a response, `first_wins` the one shown first. All others are
            ties.
        contradictions: verdicts whose scores prefer one response and whose ranking prefers the
            other.
        both_orders: pairs judged in both orders. Those that do not agree flip.
        repeats: pairs of repeats of a comparison.
    """

    verdicts: int = 0
    decided: int = 0
    first_wins: int = 0
    contradictions: int = 0
    both_orders: Agreement = field(default_factory=Agreement)
    repeats: Agreement = field(default_factory=Agreement)

    @property
    def flips(self) -> int:
        """Pairs judged in both orders whose preference changes with the order."""
        return self.both_orders.pairs - self.both_orders.agreeing

    @property
    def ties(self) -> int:
        """Verdicts that prefer neither response."""
        return self.verdicts - self.decided

    def share_of(self, count: int) -> float | None:
        """Return the share of the verdicts that are counted; None without any."""
        return count / self.verdicts if self.verdicts else None

    @property
    def first_share(self) -> float | None:
        """Share of decided verdicts that prefer the response shown first; None without any."""
        return self.first_wins / self.decided if self.decided else None

    def add_group(self, verdicts: Verdicts, *, in_order: bool = True) -> None:
        """Add the verdicts of one judge on a group.

        `in_order` is False if each response was graded alone, which gives the same verdict in
        either order: then only repeats count."""
        if in_order:
            for verdict in verdicts.values():
                self.add(verdict)
        for (i, j, repeat), verdict in verdicts.items():
            swapped = verdicts.get(Comparison(j, i, repeat)) if in_order and i < j else None
            if swapped is not None:
                self.both_orders.add(verdict, verdict_after_swap(swapped))
            # With every earlier repeat, so that each two are compared once.
            for number in range(repeat):
                earlier = verdicts.get(Comparison(i, j, number))
                if earlier is not None:
                    self.repeats.add(earlier, verdict)

    def add(self, verdict: Verdict) -> None:
        """Add a verdict on a pair."""
        self.verdicts += 1
        self.contradictions += contradicts_itself(verdict)
        lead = preferred(verdict)
        self.decided += lead != 0
        self.first_wins += lead > 0
