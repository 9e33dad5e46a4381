"""The leaderboard: win rates, strengths and ranks with their intervals, and what to beware of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from genrm_cli.metrics.running_stats import Z_95, clustered_interval, joint_z_95, student_95
from genrm_cli.ranking.outcomes import Outcomes
from genrm_cli.ranking.pair_plan import prompts_to_show
from genrm_cli.ranking.strengths import Strengths, fit_strengths, predicted_wins, resample
from genrm_cli.rewards.estimators.verdict_batch import Floats

ELO = float(400 / np.log(10))
"""Elo points of a strength of 1: ten times the odds are 400 points."""
LEAST_PROMPTS = 20  # fewer describe these prompts only
_MOST_RESAMPLED, _ROUNDS = 24, 1_000  # policies, for which resampling takes seconds
_USUAL, _USUAL_PROMPTS = (
    (0.1, 0.9),
    50,
)  # win rates whose interval is Student's, from this number of prompts on
_MUCH = 0.05  # of failures, contradictions, and the distance from a predicted win rate
_OVERLAP = 2.0  # deviations between the lengths of two policies
_DETECTED = 0.05  # the difference from one half for which a finding says how many prompts it needs

Interval = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """One policy. None where a number is unknown; win rates and shares are between 0 and 1.

    Attributes:
        rank_lo: 1 + the policies that are surely better; `rank_hi` is K - those that are surely
            worse.
        elo: strength against the baseline, or else the mean of all; 400 points are a factor of ten
            in the odds. Its 95 % interval is `elo_lo` to `elo_hi`; the band `band_lo` to `band_hi`
            holds for all policies together.
        bound: `>=` if the policy never lost, `<=` if it never won: its strength then rests on an
            assumption.
        elo_length: the strength if all responses were equally long.
        win_rate: against the baseline, or else the mean against all others, on prompts that all
            answered.
        first_share: share of draws of the prompts in which it is the best.
        chars: mean characters of its responses. `verdicts` and `failed` count the comparisons about
            it.
    """

    name: str
    rank_lo: int | None
    rank_hi: int | None
    elo: float | None
    elo_se: float | None
    elo_lo: float | None
    elo_hi: float | None
    band_lo: float | None
    band_hi: float | None
    bound: Literal[">=", "<="] | None
    elo_length: float | None
    win_rate: float | None
    lo: float | None
    hi: float | None
    first_share: float | None
    chars: float | None
    prompts: int
    verdicts: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """Two policies that were compared.

    Attributes:
        w: mean over prompts of the share that `a` won against `b`, 0 to 1, in both orders alike;
            None if unknown.
        lo: `lo` to `hi` is its 95 % interval; `lo_sim` to `hi_sim` holds for all pairs together.
        better: the policy that is better by the interval for all pairs; None if neither is.
        n_prompts: prompts that count. The other counts are of comparisons; `by_rule` of those
            without a judge.
        resid_z: deviation from the win rate that the strengths predict, in standard errors.
    """

    a: str
    b: str
    w: float | None
    se: float | None
    lo: float | None
    hi: float | None
    lo_sim: float | None
    hi_sim: float | None
    better: str | None
    n_prompts: int
    n_verdicts: int
    ties: int
    failed: int
    by_rule: int
    resid_z: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """The statistics of a ranking. The unit of all intervals is the prompt.

    Attributes:
        policies: best first; in the order of `over` for a curve.
        baseline: the policy that strengths are relative to; None for the mean of all.
        over: the field whose values the policies are; None for no curve. `seed` is that of the
            draws of prompts.
        comparisons_accounted: comparisons between policies that `better` accounts for, by
            Bonferroni.
        cov: covariance of the strengths in the order of `policies`, in squared Elo points.
        contradicting: share of verdicts whose scores and ranking contradict each other.
        position: advantage of the response shown first, in log odds.
        length: log odds of a response that is much longer. `longer_preferred` is the share of
            decided verdicts that prefer the longer response: the agreement of length alone.
    """

    policies: tuple[PolicyRow, ...]
    pairs: tuple[PairRow, ...]
    baseline: str | None
    over: str | None
    unit: Literal["prompt"] = "prompt"
    outcome_rule: str = "scores, then ranking, else a tie"
    conf_level: float = 0.95
    multiplicity: str = "bonferroni"
    comparisons_accounted: int
    seed: int
    n_prompts: int
    n_verdicts: int
    by_rule: int
    failed: int
    contradicting: float | None
    position: float | None
    position_se: float | None
    length: float | None
    length_se: float | None
    longer_preferred: float | None
    cov: tuple[tuple[float, ...], ...] | None
    warnings: tuple[str, ...]

    def win_rate(self, a: str, b: str | None) -> tuple[PairRow, float, Interval] | None:
        """Return the row of two policies, the win rate of `a` and its interval; None if it is
        unknown.
        """
        for row in self.pairs:
            if row.w is not None and (row.a, row.b) == (a, b):
                return row, row.w, (row.lo, row.hi)
            if row.w is not None and (row.a, row.b) == (b, a):
                return row, 1 - row.w, (_others(row.hi), _others(row.lo))
        return None


def _others(share: float | None) -> float | None:
    return None if share is None else 1 - share


def share_interval(
    share: float | None, error: float | None, n: int, verdicts: int, z: float = Z_95
) -> Interval:
    """Return the interval of a mean of shares over n prompts; (None, None) for fewer than two.

    Student's; near 0 and 1 and for few prompts Wilson's: on 20 prompts, Student's holds a share of
    .95 in 81 % of cases only."""
    if share is None or error is None or n < 2:
        return None, None
    if n < _USUAL_PROMPTS or not _USUAL[0] <= share <= _USUAL[1]:
        return clustered_interval(share, error, n, verdicts, z)
    half = student_95(n - 1, z) * error
    return max(0.0, share - half), min(1.0, share + half)


def build_leaderboard(
    outcomes: Outcomes, *, baseline: str | None = None, over: str | None = None, seed: int = 0
) -> Leaderboard:
    """Compute all statistics of a ranking of at least one comparison; the arguments are fields of
    `Leaderboard`.
    """
    return _Statistics(outcomes, baseline, over, seed).leaderboard()


class _Statistics:
    """The numbers behind a leaderboard. NaN is an unknown number, here only."""

    def __init__(
        self, outcomes: Outcomes, baseline: str | None, over: str | None, seed: int
    ) -> None:
        self.of = outcomes
        self.names = outcomes.table.policies
        self.k = outcomes.k
        self.over = over
        self.seed = seed
        self.judged = ~outcomes.by_rule
        self.anchor = None if baseline is None else self.names.index(baseline)
        self.pairs, self.shares = outcomes.win_shares()
        self.accounted = self.k - 1 if self.anchor is not None else self.k * (self.k - 1) // 2
        self.n = len(np.unique(outcomes.prompt))
        self.fit = fit_strengths(outcomes)
        self.predicted = np.full(len(self.pairs), 0.5)
        if self.fit is not None:
            self.predicted = predicted_wins(self.fit.theta, self.fit.gamma or 0.0, self.pairs)
        self.by_length = None if self.fit is None else fit_strengths(outcomes, with_length=True)
        self.elo, self.cov = self._in_elo(self.fit)
        self.errors = np.sqrt(np.maximum(0.0, np.diag(self.cov)))
        self.drawn = None
        if self.fit is not None and self.k <= _MOST_RESAMPLED and self.n >= LEAST_PROMPTS:
            self.drawn = resample(outcomes, _ROUNDS, seed)

    def _in_elo(self, fit: Strengths | None) -> tuple[Floats, Floats]:
        """Return [K] strengths against the baseline or the mean of all in Elo points, and their
        covariance [K, K].
        """
        if fit is None:
            return np.full(self.k, np.nan), np.full((self.k, self.k), np.nan)
        weights = np.eye(self.k) - (
            1 / self.k if self.anchor is None else np.eye(self.k)[self.anchor]
        )
        return ELO * (weights @ fit.theta), weights @ fit.cov[
            : self.k, : self.k
        ] @ weights.T * ELO**2

    def leaderboard(self) -> Leaderboard:
        of = self.of
        fit = self.fit
        judged = int(self.judged.sum())
        pairs = [self._pair_row(number) for number in range(len(self.pairs))]
        rows = self._policy_rows(pairs)
        order = list(range(self.k))
        if self.over is None:
            # Rounded: machines differ in the last bits, which must not order equal policies.
            order.sort(
                key=lambda each: (-round(rows[each].elo or 0.0, 6), -(rows[each].win_rate or 0.0))
            )
        told = (of.won != 0.5) & self.judged & (of.longer != 0)
        cov = self.cov[np.ix_(order, order)].round(3)
        return Leaderboard(
            policies=tuple(rows[policy] for policy in order),
            pairs=tuple(pairs),
            baseline=None if self.anchor is None else self.names[self.anchor],
            over=self.over,
            comparisons_accounted=self.accounted,
            seed=self.seed,
            n_prompts=len(of.chars),
            n_verdicts=judged,
            by_rule=int(of.by_rule.sum()),
            failed=of.table.failed.total(),
            contradicting=of.table.contradicting / judged if judged else None,
            position=None if fit is None else fit.gamma,
            position_se=None if fit is None or fit.gamma is None else _error_at(fit, self.k),
            length=None if self.by_length is None else self.by_length.beta,
            length_se=None if self.by_length is None else _error_at(self.by_length, -1),
            longer_preferred=float(((of.won == 1) == (of.longer > 0))[told].mean())
            if told.any()
            else None,
            cov=None if np.isnan(cov).any() else tuple(map(tuple, cov.tolist())),
            warnings=tuple(self._warnings(rows, pairs, judged)),
        )

    def _pair_row(self, number: int) -> PairRow:
        of = self.of
        (a, b) = self.pairs[number].tolist()
        here = of.pair == a * self.k + b
        shares = self.shares[:, number]
        shares = shares[~np.isnan(shares)]
        asked = here & self.judged
        n = len(shares)
        verdicts = int(here.sum())
        w = float(shares.mean()) if n else None
        error = float(shares.std(ddof=1) / np.sqrt(n)) if n > 1 else None
        low, high = share_interval(w, error, n, verdicts)
        low_sim, high_sim = share_interval(w, error, n, verdicts, joint_z_95(self.accounted))
        better = z = None
        if (
            low_sim is not None
            and high_sim is not None
            and n >= LEAST_PROMPTS
            and self.anchor in (None, a, b)
        ):
            better = self.names[a] if low_sim > 0.5 else self.names[b] if high_sim < 0.5 else None
        if self.drawn is not None and w is not None and n >= LEAST_PROMPTS and self.k > 2:
            deviation = float(self.drawn[1][:, number].std())
            z = round((w - float(self.predicted[number])) / deviation, 2) if deviation > 0 else None
        return PairRow(
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
            n_verdicts=int(asked.sum()),
            ties=int((of.won[asked] == 0.5).sum()),
            failed=of.table.failed[a, b] + of.table.failed[b, a],
            by_rule=int((here & of.by_rule).sum()),
            resid_z=z,
        )

    def _policy_rows(self, pairs: Sequence[PairRow]) -> list[PolicyRow]:
        of = self.of
        by_length = self._in_elo(self.by_length)[0]
        half, band = (
            student_95(self.n - 1, z) * self.errors for z in (Z_95, joint_z_95(self.accounted))
        )
        best = None if self.drawn is None else self.drawn[0].argmax(axis=1)
        rows = []
        for policy, (rank_lo, rank_hi) in enumerate(self._ranks(pairs)):
            own = (of.first == policy) | (of.second == policy)
            chars = of.chars[:, policy]
            won = np.where(of.first == policy, of.won, 1 - of.won)[own]
            rate, interval = self._rate(policy)
            is_bound = (
                self.fit is not None
                and policy != self.anchor
                and len(won) > 0
                and won.mean() in (0, 1)
            )
            known = chars[~np.isnan(chars)]
            elo = float(self.elo[policy])
            row = PolicyRow(
                name=self.names[policy],
                rank_lo=rank_lo,
                rank_hi=rank_hi,
                elo=_number(elo),
                elo_se=_number(self.errors[policy]),
                elo_lo=_number(elo - half[policy]),
                elo_hi=_number(elo + half[policy]),
                band_lo=_number(elo - band[policy]),
                band_hi=_number(elo + band[policy]),
                bound=(">=" if won[0] else "<=") if is_bound else None,
                elo_length=_number(by_length[policy]),
                win_rate=rate,
                lo=interval[0],
                hi=interval[1],
                first_share=None if best is None else float((best == policy).mean()),
                chars=round(float(known.mean()), 1) if known.any() else None,
                prompts=len(known),
                verdicts=int((own & self.judged).sum()),
                failed=sum(count for pair, count in of.table.failed.items() if policy in pair),
            )
            rows.append(row)
        return rows

    def _rate(self, policy: int) -> tuple[float | None, Interval]:
        """Return the win rate against the baseline or all others, and its interval.

        All opponents have the same weight; the error sums the deviations of a prompt before it
        squares them."""
        opponents = (
            [self.anchor]
            if self.anchor is not None
            else [each for each in range(self.k) if each != policy]
        )
        place = {frozenset(pair): number for number, pair in enumerate(self.pairs.tolist())}
        columns = [place.get(frozenset((policy, each)), -1) for each in opponents]
        if policy == self.anchor or -1 in columns:
            return None, (None, None)
        complete = slice(None) if self.anchor is not None else ~np.isnan(self.of.chars).any(axis=1)
        shares = self.shares[complete][:, columns]
        shares = np.where(self.pairs[columns, 1] == policy, 1 - shares, shares)
        known = ~np.isnan(shares)
        counts = known.sum(axis=0)
        n = int(known.any(axis=1).sum())
        if not counts.all():
            return None, (None, None)
        means = np.where(known, shares, 0.0).sum(axis=0) / counts
        deviations = (np.where(known, shares - means, 0.0) / counts).sum(axis=1) / len(columns)
        rate = float(means.mean())
        error = float(np.sqrt((deviations**2).sum() * n / (n - 1))) if n > 1 else None
        return rate, share_interval(rate, error, n, 2 * int(known.sum()))

    def _ranks(self, pairs: Sequence[PairRow]) -> list[tuple[int | None, int | None]]:
        """Return the ranks that the gaps between strengths leave each policy, or of two policies
        their win rate.
        """
        if self.fit is None or self.n < LEAST_PROMPTS:
            return [(None, None)] * self.k
        if self.k == 2:
            lost = [pairs[0].better not in (None, name) for name in self.names]
            return [(1 + lost[0], 2 - lost[1]), (1 + lost[1], 2 - lost[0])]
        gaps = np.subtract.outer(self.fit.theta, self.fit.theta)
        cov = self.fit.cov[: self.k, : self.k]
        errors = np.sqrt(np.maximum(0.0, np.add.outer(np.diag(cov), np.diag(cov)) - 2 * cov))
        sure = student_95(self.n - 1, joint_z_95(self.k * (self.k - 1) // 2)) * errors
        above = (gaps > sure).sum(axis=0).tolist()
        below = (-gaps > sure).sum(axis=0).tolist()
        return [(1 + better, self.k - worse) for better, worse in zip(above, below, strict=True)]

    def _warnings(
        self, rows: Sequence[PolicyRow], pairs: Sequence[PairRow], judged: int
    ) -> Iterator[str]:
        of = self.of
        failed = self.of.table.failed.total()
        if self.n < LEAST_PROMPTS:
            yield (
                f"only {self.n} prompt{'s' * (self.n != 1)}: the table describes them, and "
                "nothing else is sure."
            )
        if self.fit is None:
            yield "no chain of comparisons joins all policies, so they have no common Elo."
        elif self.fit.separated:
            yield "some policies never lost or never won: their Elo is a bound; read the win rates."
        if self.fit is not None and self.fit.gamma is None:
            yield (
                "no pair was judged in both orders: a preference for the first position may decide."
            )
        if failed > _MUCH * (failed + judged):
            most = max(rows, key=lambda row: row.failed).name
            yield (
                f"{100 * failed / (failed + judged):.1f} % of the comparisons failed, most of "
                f"them about {most}."
            )
        if of.table.contradicting > _MUCH * judged:
            share = 100 * of.table.contradicting / judged
            yield (
                f"the scores and the ranking of {share:.1f} % of the verdicts contradict each "
                "other."
            )
        surprises = [abs(row.resid_z or 0.0) for row in pairs]
        if max(surprises, default=0.0) > joint_z_95(len(pairs)):
            worst = surprises.index(max(surprises))
            found = pairs[worst].w or 0.0
            expected = float(self.predicted[worst])
            if abs(found - expected) > _MUCH:
                yield (
                    f"not transitive: {pairs[worst].a} wins {100 * found:.1f} % against "
                    f"{pairs[worst].b}, and the Elo "
                    f"predicts {100 * expected:.1f} %; read the matrix."
                )
        for (a, b), row in zip(self.pairs.tolist(), pairs, strict=True):
            gaps = of.chars[:, a] - of.chars[:, b]
            gaps = gaps[~np.isnan(gaps)]
            if len(gaps) >= LEAST_PROMPTS and abs(gaps.mean()) > _OVERLAP * gaps.std() > 0:
                yield (
                    f"lengths of {row.a} and {row.b} hardly overlap: Elo at equal length is an "
                    "extrapolation."
                )
                break


def _error_at(fit: Strengths, place: int) -> float | None:
    return _number(np.sqrt(fit.cov[place, place]))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def most_different(outcomes: Outcomes, count: int) -> list[tuple[int, int, int, float]]:
    """Return prompts on which two policies differ most: prompt, both policies, and the share that
    the first won.
    """
    pairs, shares = outcomes.win_shares()
    sides = np.where(np.isnan(shares), 0.0, np.abs(shares - 0.5))
    order = np.argsort(-sides, axis=None, kind="stable")[:count].tolist()
    places = [divmod(at, len(pairs)) for at in order if sides.flat[at] > 0]
    return [(prompt, *pairs[pair].tolist(), float(shares[prompt, pair])) for prompt, pair in places]


def findings(board: Leaderboard, judge: str) -> Iterator[str]:
    """Yield what the leaderboard says, in sentences that claim no more than it shows."""
    deviations = [row.se * row.n_prompts**0.5 for row in board.pairs if row.se]
    needed = prompts_to_show(_DETECTED, fmean(deviations)) if deviations else 0
    names = [row.name for row in board.policies]
    if board.over is not None:
        yield (
            "a step chosen for its place on this curve looks better than it is: judge it again "
            "on other prompts."
        )
    compared = [(name, board.baseline) for name in names if board.baseline not in (None, name)]
    if board.baseline is None and len(names) == 2:
        compared = [(names[0], names[1])]
    elif board.baseline is None:
        first = [row.name for row in board.policies if row.rank_lo == 1]
        if len(first) == 1:
            yield (
                f"{judge} prefers {first[0]} to every other policy, all comparisons accounted for."
            )
        elif 1 < len(first) < len(names):
            yield f"not separated at the top: {', '.join(first)}."
    for name, other in compared:
        found = board.win_rate(name, other)
        if found is not None and found[0].better == other:
            name, other, found = other, name, board.win_rate(other, name)
        if found is None:
            continue
        row, rate, (low, high) = found
        shown = f"{100 * rate:.1f} % win rate on prompts like these"
        shown += "" if low is None or high is None else f" ({100 * low:.1f} to {100 * high:.1f})"
        if row.better is not None:
            yield f"{judge} prefers {name} to {other}: {shown}."
        elif row.n_prompts < LEAST_PROMPTS:
            yield (
                f"{row.n_prompts} of {LEAST_PROMPTS} prompts that {name} and {other} need at "
                f"least: {shown}."
            )
        else:
            more = needed - row.n_prompts
            shown += (
                f"; {more:,} more prompts would detect {100 * _DETECTED:.0f} points"
                if more > 0
                else ""
            )
            yield f"{name} and {other} are not separated by {row.n_prompts:,} prompts: {shown}."
