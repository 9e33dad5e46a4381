"""The outcomes of comparisons of two policies: the input of all statistics of a ranking."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, field

from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices

# Share of the prompts; orders that were drawn at random are seldom further from one half.
_LEAST_OF_ORDER = 0.25


class OutcomeTable(Struct):
    """Collects outcomes prompt by prompt.

    Attributes:
        policies: names of the policies.
        prompts: number of prompts so far, and in `answered`, that each policy answered.
        failed: comparisons without a verdict, by first and second policy.
    """

    policies: Sequence[str]
    prompts: int = 0
    answered: Counter[int] = field(default_factory=Counter)
    failed: Counter[tuple[int, int]] = field(default_factory=Counter)
    _rows: list[tuple[float, ...]] = []

    def begin_prompt(self, policies: Iterable[int]) -> None:
        """Begin the next prompt, which these policies answered."""
        self.prompts += 1
        for policy in policies:
            self.answered[policy] += 1

    def add(self, first: int, second: int, won: float | None, *, by_rule: bool = False) -> None:
        """Add a comparison of two policies: the share that the first one won, None for a
        failure.
        """
        if won is None:
            self.failed[first, second] += 1
        else:
            self._rows.append((self.prompts - 1, first, second, won, by_rule))

    def outcomes(self) -> "Outcomes":
        """Return all outcomes."""
        rows = np.array(self._rows, dtype=np.float64).reshape(-1, 5).T
        prompt, first, second = rows[:3].astype(np.intp)
        return Outcomes(self, prompt, first, second, rows[3], rows[4] > 0)


class Outcomes(Struct, frozen=True):
    """N outcomes of comparisons between K policies on P prompts; N = 0 is allowed.

    Attributes:
        table: where they come from.
        prompt: [N] number of the prompt.
        first: [N] number of the policy shown first.
        second: [N] number of the policy shown second.
        won: [N] 1 if the first one won, 0 if the second did, 0.5 for a tie.
        by_rule: [N] decided without a verdict: blank responses lose, and equal responses tie.
    """

    table: OutcomeTable
    prompt: Indices
    first: Indices
    second: Indices
    won: Floats
    by_rule: Flags

    @property
    def k(self) -> int:
        """Number of policies."""
        return len(self.table.policies)

    @property
    def weights(self) -> Floats:
        """[N] 1 / the outcomes of the same pair on the same prompt."""
        _, counts = self._sums()
        together = counts + counts.transpose(0, 2, 1)
        return np.asarray(1.0 / together[self.prompt, self.first, self.second])

    def _sums(self) -> tuple[Floats, Floats]:
        """Return [P, K, K] what the policy shown first won, and how many outcomes say so."""
        place = (self.prompt, self.first, self.second)
        sums, counts = np.zeros((2, self.table.prompts, self.k, self.k))
        np.add.at(sums, place, self.won)
        np.add.at(counts, place, 1)
        return sums, counts

    def count(self, which: Flags) -> Indices:
        """Return [K, K] how many outcomes of each pair are among these, both orders together."""
        counts = np.zeros((self.k, self.k), dtype=np.intp)
        np.add.at(counts, (self.first[which], self.second[which]), 1)
        return counts + counts.T

    def win_shares(self) -> Floats:
        """Return [P, K, K] the share that a policy won against another one on each prompt.

        A share is the mean of both orders; NaN without verdicts. Two policies that meet in both
        orders on most prompts need both on each. Others need either order on a quarter of their
        prompts: in one fixed order, the judge's position decides.
        """
        # Of each order by itself: one that has more samples must not weigh more.
        sums, counts = self._sums()
        shown_first = sums / np.where(counts > 0, counts, np.nan)
        shown_second = 1 - shown_first.transpose(0, 2, 1)
        whole = (shown_first + shown_second) / 2
        lone = np.where(np.isnan(shown_first), shown_second, shown_first)
        is_whole = ~np.isnan(whole)
        known = (~np.isnan(lone)).sum(axis=0)
        first_only = (~np.isnan(shown_first) & ~is_whole).sum(axis=0)
        of_one_order = first_only + first_only.T
        is_mixed = np.minimum(first_only, first_only.T) >= _LEAST_OF_ORDER * of_one_order
        counts_lone = is_mixed & (2 * is_whole.sum(axis=0) <= known)
        return np.where(is_whole, whole, np.where(counts_lone, lone, np.nan))
