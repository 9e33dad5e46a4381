"""Compute a leaderboard: win rates, strengths and ranks with their intervals.

A win rate is a mean of the shares that prompts give, and needs no model. Elo comes from one fit of
all outcomes; its errors come from how far each prompt moves the fit. Each figure has an interval of
its own, and another that holds for all comparisons together; ranks and `better` rest on the second.
A figure that the fit does not predict says that the order is not transitive.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from genrm_cli.errors import counted
from genrm_cli.metrics.running_stats import LEAST_SPREAD, student_95
from genrm_cli.products.ranking.board import Interval, Leaderboard, PairRow, PolicyRow
from genrm_cli.products.ranking.looks import LEAST_PROMPTS, critical_z, share_interval
from genrm_cli.products.ranking.outcomes import Outcomes
from genrm_cli.products.ranking.strengths import Strengths, fit_strengths, predicted_shares
from genrm_cli.rewards.estimators.verdict_batch import Floats

ELO = float(400 / np.log(10))
"""Elo points of a strength of 1: ten times the odds are 400 points."""
_MAX_HALF_WIDTH = 800.0  # of an interval of Elo: odds of 100 to 1 either way say nothing
# Deviations between the lengths of two policies beyond which they hardly overlap.
_FAR_LENGTHS = 2.0
_MUCH = 0.05  # share of failures and contradictions; distance from a predicted win rate


def build_leaderboard(
    outcomes: Outcomes,
    *,
    baseline: str | None = None,
    over: str | None = None,
    one_look: bool = False,
) -> Leaderboard:
    """Compute all statistics of a ranking of at least one comparison.

    Args:
        outcomes: who won each comparison.
        baseline: see `Leaderboard`; likewise `over`.
        one_look: see `critical_z`.
    """
    figures = _LeaderboardFigures(outcomes, baseline, one_look=one_look)
    fit = figures.fit
    by_length = figures.by_length
    pairs = figures.pair_rows()
    rows = figures.policy_rows(pairs)
    order = list(range(outcomes.k))
    if over is None:
        # Rounded: machines differ in the last bits, which must not order equal policies.
        order.sort(
            key=lambda each: (-round(rows[each].elo or 0.0, 6), -(rows[each].win_rate or 0.0))
        )
    cov = figures.cov[np.ix_(order, order)].round(3)
    judged = int((~outcomes.by_rule).sum())
    has_position = fit is not None and fit.gamma is not None
    board = Leaderboard(
        policies=tuple(rows[policy] for policy in order),
        pairs=tuple(pairs),
        baseline=baseline,
        over=over,
        interval="one look" if one_look else "anytime",
        comparisons_accounted=figures.accounted,
        n_prompts=len(outcomes.chars),
        n_verdicts=judged,
        by_rule=int(outcomes.by_rule.sum()),
        failed=outcomes.table.failed.total(),
        contradicting=outcomes.table.contradicting / judged if judged else None,
        position=fit.gamma if fit else None,
        position_se=_error_at(fit, outcomes.k) if has_position else None,
        length=by_length.beta if by_length else None,
        length_se=_error_at(by_length, -1),
        cov=None if np.isnan(cov).any() else tuple(map(tuple, cov.tolist())),
        warnings=(),
    )
    return replace(board, warnings=tuple(figures.iter_warnings(board)))


class _LeaderboardFigures:
    """The numbers behind a leaderboard. NaN is an unknown number, here only.

    Attributes:
        pairs: [M, 2] the compared policies, the lower number first.
        shares: [P, K, K] see `Outcomes.win_shares`; `n` counts the prompts with a share, and
            `rates` are their means.
        elo: [K] strengths against the baseline or the mean of all, with `errors` and `cov`.
    """

    def __init__(self, outcomes: Outcomes, baseline: str | None, *, one_look: bool) -> None:
        self.outcomes = outcomes
        self.names = outcomes.table.policies
        self.one_look = one_look
        k = outcomes.k
        judged = ~outcomes.by_rule
        self.judged = outcomes.count(judged)
        self.ruled = outcomes.count(outcomes.by_rule)
        self.ties = outcomes.count(judged & (outcomes.won == 0.5))
        self.pairs = np.argwhere(np.triu(self.judged + self.ruled))
        self.shares = outcomes.win_shares()
        known = ~np.isnan(self.shares)
        self.n = known.sum(axis=0)
        self.rates = np.where(known, self.shares, 0.0).sum(axis=0) / np.maximum(1, self.n)
        self.anchor = None if baseline is None else self.names.index(baseline)
        self.accounted = k * (k - 1) // 2 if self.anchor is None else k - 1
        self.prompts = len(np.unique(outcomes.prompt))
        # Nothing is known but that equal responses tie: no interval may say that they are alike.
        self.is_unjudged = not judged.any() and bool((outcomes.won == 0.5).all())
        self.fit = None if self.is_unjudged else fit_strengths(outcomes)
        self.by_length = None if self.fit is None else fit_strengths(outcomes, with_length=True)
        self.elo, self.cov = self._in_elo(self.fit)
        self.errors = np.sqrt(np.maximum(0.0, np.diag(self.cov)))
        if self.errors.max() < LEAST_SPREAD:  # ties only: how prompts differ is unknown
            self.errors = np.full(k, np.nan)
            self.cov = np.full((k, k), np.nan)

    def _in_elo(self, fit: Strengths | None) -> tuple[Floats, Floats]:
        """Return [K] strengths in Elo points, and their covariance [K, K]."""
        k = self.outcomes.k
        if fit is None:
            return np.full(k, np.nan), np.full((k, k), np.nan)
        origin = np.full(k, 1 / k) if self.anchor is None else np.eye(k)[self.anchor]
        weights = ELO * (np.eye(k) - origin)
        return weights @ fit.theta, weights @ fit.cov[:k, :k] @ weights.T

    def _z(self, prompts: int, comparisons: int) -> float:
        """Return the critical value for estimates of so many prompts, in standard errors."""
        z = critical_z(max(1, prompts), comparisons, one_look=self.one_look)
        return student_95(prompts - 1, z)

    def _interval(
        self, share: float | None, error: float | None, n: int, verdicts: int, comparisons: int = 1
    ) -> Interval:
        if share is None or error is None or self.is_unjudged:
            return None, None
        z = critical_z(n, comparisons, one_look=self.one_look)
        return share_interval(share, error, n, verdicts, z)

    def pair_rows(self) -> list[PairRow]:
        failed = self.outcomes.table.failed
        residuals = self._residuals()
        rows = []
        for (a, b), residual in zip(self.pairs.tolist(), residuals, strict=True):
            pair = (a, b)
            n = int(self.n[pair])
            w = float(self.rates[pair]) if n else None
            error = None
            if n > 1 and not self.is_unjudged:
                shares = self.shares[:, a, b]
                error = float(shares[~np.isnan(shares)].std(ddof=1) / np.sqrt(n))
            ruled = int(self.ruled[pair])
            judged = int(self.judged[pair])
            low, high = self._interval(w, error, n, judged + ruled)
            low_sim, high_sim = self._interval(w, error, n, judged + ruled, self.accounted)
            better = None
            if n >= LEAST_PROMPTS and self.anchor in (None, a, b):
                if low_sim is not None and low_sim > 0.5:
                    better = self.names[a]
                elif high_sim is not None and high_sim < 0.5:
                    better = self.names[b]
            row = PairRow(
                a=self.names[a],
                b=self.names[b],
                w=w,
                se=error,
                lo=low,
                hi=high,
                lo_sim=low_sim,
                hi_sim=high_sim,
                better=better,
                n_prompts=n,
                n_verdicts=judged,
                ties=int(self.ties[pair]),
                failed=failed[pair] + failed[b, a],
                by_rule=ruled,
                resid_z=_number(residual),
            )
            rows.append(row)
        return rows

    def _predicted(self) -> tuple[Floats, Floats]:
        """Return [M] win rates that the strengths predict, and the errors of what differs."""
        first, second = self.pairs.T
        if self.fit is None or self.outcomes.k == 2:
            unknown = np.full(len(self.pairs), np.nan)
            return unknown, unknown
        return predicted_shares(self.fit, self.pairs, self.shares[:, first, second])

    def _residuals(self) -> Floats:
        """Return [M] by how many standard errors each win rate differs from what the strengths
        predict; NaN for fewer than 20 prompts, or if they are not more than the policies.

        K fitted numbers leave n - K degrees of freedom: without them, a field of five without
        cycles looks cyclic in 11 % of draws of 20 prompts.

        Source: the correction of a clustered covariance for fitted parameters; J. G. MacKinnon and
        H. White, Journal of Econometrics 29 (1985) 305.
        """
        first, second = self.pairs.T
        k = self.outcomes.k
        n = self.n[first, second]
        predicted, errors = self._predicted()
        errors = errors * np.sqrt(n / np.maximum(1, n - k))
        counts = (n >= max(LEAST_PROMPTS, k + 1)) & (errors > LEAST_SPREAD)
        residuals = (self.rates[first, second] - predicted) / np.where(counts, errors, np.nan)
        return np.asarray(residuals.round(2))

    def policy_rows(self, pairs: Sequence[PairRow]) -> list[PolicyRow]:
        by_length, _ = self._in_elo(self.by_length)
        half_widths = self._half_widths(1)
        joint_widths = self._half_widths(self.accounted)
        ranks = self._ranks(pairs)
        failed = self.outcomes.table.failed
        rows = []
        for policy, name in enumerate(self.names):
            chars = self.outcomes.chars[:, policy]
            known = chars[~np.isnan(chars)]
            rate, (low, high) = self._rate(policy)
            elo = float(self.elo[policy])
            rank_lo, rank_hi = ranks[policy]
            row = PolicyRow(
                name=name,
                rank_lo=rank_lo,
                rank_hi=rank_hi,
                elo=_number(elo),
                elo_se=_number(self.errors[policy]),
                elo_lo=_number(elo - half_widths[policy]),
                elo_hi=_number(elo + half_widths[policy]),
                band_lo=_number(elo - joint_widths[policy]),
                band_hi=_number(elo + joint_widths[policy]),
                bound=self._bound(policy),
                elo_length=_number(by_length[policy]),
                win_rate=rate,
                lo=low,
                hi=high,
                chars=round(float(known.mean()), 1) if len(known) else None,
                prompts=len(known),
                verdicts=int(self.judged[policy].sum()),
                failed=sum(count for pair, count in failed.items() if policy in pair),
            )
            rows.append(row)
        return rows

    def _half_widths(self, comparisons: int) -> Floats:
        """Return [K] half widths of the intervals of Elo; NaN where the interval says nothing."""
        widths = self._z(self.prompts, comparisons) * self.errors
        return np.where((self.prompts < LEAST_PROMPTS) | (widths > _MAX_HALF_WIDTH), np.nan, widths)

    def _bound(self, policy: int) -> Literal[">=", "<="] | None:
        outcomes = self.outcomes
        won = outcomes.won[outcomes.first == policy]
        won = np.append(won, 1 - outcomes.won[outcomes.second == policy])
        if self.fit is None or policy == self.anchor or not len(won):
            return None
        if (won == 1).all():
            return ">="
        return "<=" if (won == 0).all() else None

    def _rate(self, policy: int) -> tuple[float | None, Interval]:
        """Return the win rate against the baseline or all others, and its interval.

        All opponents have the same weight; the error sums the deviations of a prompt before it
        squares them.
        """
        others = [each for each in range(self.outcomes.k) if each != policy]
        opponents = others if self.anchor is None else [self.anchor]
        shares = self.shares[:, policy, opponents]
        if self.anchor is None:  # only prompts that all policies answered compare like with like
            shares = shares[~np.isnan(self.outcomes.chars).any(axis=1)]
        known = ~np.isnan(shares)
        counts = known.sum(axis=0)
        if not counts.all():
            return None, (None, None)
        n = int(known.any(axis=1).sum())
        means = np.where(known, shares, 0.0).sum(axis=0) / counts
        deviations = (np.where(known, shares - means, 0.0) / counts).sum(axis=1) / len(opponents)
        rate = float(means.mean())
        error = float(np.sqrt((deviations**2).sum() * n / (n - 1))) if n > 1 else None
        return rate, self._interval(rate, error, n, 2 * int(known.sum()))

    def _ranks(self, pairs: Sequence[PairRow]) -> list[tuple[int | None, int | None]]:
        """Return the ranks that the gaps between strengths leave each policy, or of two policies
        their win rate.
        """
        k = self.outcomes.k
        if self.fit is None or self.prompts < LEAST_PROMPTS:
            return [(None, None)] * k
        if k == 2:
            is_worse = [pairs[0].better not in (None, name) for name in self.names]
            return [(1 + is_worse[0], 2 - is_worse[1]), (1 + is_worse[1], 2 - is_worse[0])]
        gaps = np.subtract.outer(self.fit.theta, self.fit.theta)
        cov = self.fit.cov[:k, :k]
        variances = np.add.outer(np.diag(cov), np.diag(cov)) - 2 * cov
        sure = self._z(self.prompts, k * (k - 1) // 2) * np.sqrt(np.maximum(0.0, variances))
        above = (gaps > sure).sum(axis=0).tolist()
        below = (-gaps > sure).sum(axis=0).tolist()
        return [(1 + better, k - worse) for better, worse in zip(above, below, strict=True)]

    def iter_warnings(self, board: Leaderboard) -> Iterator[str]:
        """Yield what to beware of when reading a leaderboard."""
        fit = self.fit
        if self.prompts < LEAST_PROMPTS:
            yield (
                f"only {counted(self.prompts, 'prompt')}: the table describes them, and nothing "
                "else is sure. Elo has no interval."
            )
        if self.is_unjudged:
            reason = "all others failed" if board.failed else "all responses are equal"
            yield f"nothing was judged: {reason}, so there is no Elo."
        elif fit is None:
            yield "no chain of comparisons joins all policies, so they have no common Elo."
        elif fit.separated:
            yield "some policies never lost or never won: their Elo is a bound; read the win rates."
        if fit is not None and fit.gamma is None:
            yield "no pair was judged in both orders: a preference for a position may decide."
        asked = board.failed + board.n_verdicts
        if board.failed > _MUCH * asked:
            most = max(board.policies, key=lambda row: row.failed).name
            share = 100 * board.failed / asked
            yield f"{share:.1f} % of the comparisons failed, most of them about {most}."
        if board.contradicting is not None and board.contradicting > _MUCH:
            yield (
                f"the scores and the ranking of {100 * board.contradicting:.1f} % of the verdicts "
                "contradict each other."
            )
        yield from self._iter_cycle(board.pairs)
        yield from self._iter_far_lengths()

    def _iter_cycle(self, pairs: Sequence[PairRow]) -> Iterator[str]:
        """Yield the pair whose win rate is surely, and by much, not what the strengths predict."""
        predicted, _ = self._predicted()
        found = []
        for row, expected in zip(pairs, predicted, strict=True):
            if row.resid_z is not None and row.w is not None:
                z = critical_z(row.n_prompts, len(pairs), one_look=self.one_look)
                excess = abs(row.resid_z) / student_95(row.n_prompts - self.outcomes.k, z)
                found.append((excess, row, row.w, float(expected)))
        if not found:
            return
        excess, row, rate, expected = max(found, key=lambda each: each[0])
        if excess > 1 and abs(rate - expected) > _MUCH:
            yield (
                f"not transitive: {row.a} wins {100 * rate:.1f} % against {row.b}, and the Elo "
                f"predicts {100 * expected:.1f} %; read the matrix."
            )

    def _iter_far_lengths(self) -> Iterator[str]:
        """Yield the first pair of policies whose lengths hardly overlap."""
        for a, b in self.pairs:
            gaps = self.outcomes.chars[:, a] - self.outcomes.chars[:, b]
            gaps = gaps[~np.isnan(gaps)]
            if len(gaps) >= LEAST_PROMPTS and abs(gaps.mean()) > _FAR_LENGTHS * gaps.std() > 0:
                yield (
                    f"lengths of {self.names[a]} and {self.names[b]} hardly overlap: Elo at equal "
                    "length is an extrapolation."
                )
                return


def _error_at(fit: Strengths | None, place: int) -> float | None:
    return None if fit is None else _number(np.sqrt(fit.cov[place, place]))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
