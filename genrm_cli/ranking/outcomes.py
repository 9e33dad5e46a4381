"""The outcomes of comparisons of two policies: the input of all statistics of a ranking."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices
from genrm_cli.verdicts import Verdict, contradicts_itself, preferred


@dataclass(slots=True)
class OutcomeTable:
    """Collects outcomes prompt by prompt.

    Attributes:
        policies: names of the policies.
        both_orders: whether a pair counts for a win rate only with verdicts in both orders.
        failed: comparisons without a verdict, by first and second policy.
        contradicting: verdicts whose scores and ranking contradict each other.
    """

    policies: Sequence[str]
    both_orders: bool = True
    failed: Counter[tuple[int, int]] = field(default_factory=Counter)
    contradicting: int = 0
    _rows: list[tuple[float, ...]] = field(default_factory=list)
    _chars: list[Mapping[int, float]] = field(default_factory=list)

    def begin_prompt(self, chars: Mapping[int, float]) -> None:
        """Begin the next prompt: the policies that answered it, with the mean characters of their
        responses.
        """
        self._chars.append(chars)

    def add(self, first: int, second: int, longer: float, result: Verdict | float | None) -> None:
        """Add a comparison of two policies; the first response is longer by so many characters.

        Args:
            result: a verdict, None for a failure, or the share that the first one won where a rule
                decides.
        """
        if result is None:
            self.failed[first, second] += 1
            return
        is_ruled = not isinstance(result, Verdict)
        if isinstance(result, Verdict):
            self.contradicting += contradicts_itself(result)
            result = (1 + preferred(result)) / 2
        self._rows.append((len(self._chars) - 1, first, second, result, longer, is_ruled))

    def outcomes(self) -> "Outcomes":
        """Return all outcomes."""
        rows = np.array(self._rows, dtype=np.float64).reshape(-1, 6).T
        chars = np.full((len(self._chars), len(self.policies)), np.nan)
        for prompt, known in enumerate(self._chars):
            chars[prompt, list(known)] = list(known.values())
        prompt, first, second = rows[:3].astype(np.intp)
        return Outcomes(self, chars, prompt, first, second, rows[3], rows[4], rows[5] > 0)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """N outcomes of comparisons between K policies on P prompts; N = 0 is allowed.

    Attributes:
        table: where they come from.
        chars: [P, K] mean characters of a policy's responses to a prompt; NaN without one.
        prompt: [N] number of the prompt; likewise the policies shown `first` and `second`.
        won: [N] 1 if the first one won, 0 if the second did, 0.5 for a tie.
        longer: [N] characters by which the first response is longer than the second.
        by_rule: [N] decided without a verdict: blank responses lose, and equal responses tie.
    """

    table: OutcomeTable
    chars: Floats
    prompt: Indices
    first: Indices
    second: Indices
    won: Floats
    longer: Floats
    by_rule: Flags

    @property
    def k(self) -> int:
        """Number of policies."""
        return len(self.table.policies)

    @property
    def pair(self) -> Indices:
        """[N] a number of the pair, the same for both orders: the lower policy times K + the
        higher.
        """
        return np.minimum(self.first, self.second) * self.k + np.maximum(self.first, self.second)

    @property
    def weights(self) -> Floats:
        """[N] 1 / the outcomes of the same pair on the same prompt."""
        _, place, counts = np.unique(
            self.prompt * self.k**2 + self.pair, return_inverse=True, return_counts=True
        )
        return np.asarray(1.0 / counts[place])

    def win_shares(self) -> tuple[Indices, Floats]:
        """Return the compared pairs [M, 2], and the share that the first policy of each won on each
        prompt, [P, M].

        A share is the mean of both orders. It is NaN without verdicts, or if one of two planned
        orders has none."""
        known, column = np.unique(self.pair, return_inverse=True)
        sums, counts = np.zeros((2, 2, len(self.chars), len(known)))
        forward = (self.first < self.second).astype(np.intp)
        np.add.at(
            sums, (forward, self.prompt, column), np.where(forward > 0, self.won, 1 - self.won)
        )
        np.add.at(counts, (forward, self.prompt, column), 1)
        orders = (counts > 0).sum(axis=0)
        means = (sums / np.maximum(counts, 1)).sum(axis=0)
        least = 2 if self.table.both_orders else 1
        shares = np.where(orders >= least, means / np.maximum(orders, 1), np.nan)
        return np.column_stack([known // self.k, known % self.k]), shares
