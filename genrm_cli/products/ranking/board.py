"""The rows of a leaderboard, and what they say in sentences."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from genrm_cli.errors import counted
from genrm_cli.products.ranking.looks import LEAST_PROMPTS, prompts_to_show

_DETECTED = 0.05  # difference from one half for which a finding says how many prompts it needs

Interval = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """One policy. None where a number is unknown; win rates and shares are between 0 and 1.

    Attributes:
        rank_lo: 1 + the policies that are surely better; `rank_hi` is K - those that are surely
            worse.
        elo: strength against the baseline, or else the mean of all; 400 points are a factor of ten
            in the odds. Its 95 % interval is `elo_lo` to `elo_hi`; the band `band_lo` to `band_hi`
            holds for all policies together. Both are None with fewer than 20 prompts, or if they
            reach further than 800 points, odds of 100 to 1.
        bound: `>=` if the policy never lost, `<=` if it never won: its strength then rests on an
            assumption.
        elo_length: the strength if all responses were equally long.
        win_rate: against the baseline, or else the mean against all others, on prompts that all
            answered.
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
        over: the field whose values the policies are; None for no curve.
        interval: whether all intervals hold at any number of prompts, however often somebody
            looks, or for one look at a planned number.
        comparisons_accounted: comparisons between policies that `better` accounts for, by
            Bonferroni.
        cov: covariance of the strengths in the order of `policies`, in squared Elo points.
        contradicting: share of verdicts whose scores and ranking contradict each other.
        position: advantage of the response shown first, in log odds.
        length: log odds of a response that is much longer.
    """

    policies: tuple[PolicyRow, ...]
    pairs: tuple[PairRow, ...]
    baseline: str | None
    over: str | None
    unit: Literal["prompt"] = "prompt"
    outcome_rule: str = "scores, then ranking, else a tie"
    conf_level: float = 0.95
    interval: Literal["anytime", "one look"]
    multiplicity: str = "bonferroni"
    comparisons_accounted: int
    n_prompts: int
    n_verdicts: int
    by_rule: int
    failed: int
    contradicting: float | None
    position: float | None
    position_se: float | None
    length: float | None
    length_se: float | None
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
                low = None if row.hi is None else 1 - row.hi
                high = None if row.lo is None else 1 - row.lo
                return row, 1 - row.w, (low, high)
        return None


def findings(board: Leaderboard, judge: str) -> Iterator[str]:
    """Yield what the leaderboard says, in sentences that claim no more than it shows."""
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
    for pair in compared:
        found = board.win_rate(*pair)
        if found is not None and found[0].better == pair[1]:
            pair = (pair[1], pair[0])
            found = board.win_rate(*pair)
        if found is None:
            continue
        row, rate, interval = found
        shown = _rate_text(rate, interval)
        name, other = pair
        if row.better is not None:
            yield f"{judge} prefers {name} to {other}: {shown}."
        elif row.n_prompts < LEAST_PROMPTS:
            yield (
                f"{row.n_prompts} of {LEAST_PROMPTS} prompts that {name} and {other} need at "
                f"least: {shown}."
            )
        else:
            yield (
                f"{name} and {other} are not separated by {counted(row.n_prompts, 'prompt')}: "
                f"{shown}{_more_text(row, board)}."
            )


def percent_won(share: float, digits: int = 1) -> str:
    """Return a share in percent, rounded so that it and the rest of the same prompts make 100."""
    # The larger share is rounded, and the smaller one is what is left.
    larger = round(100 * max(share, 1 - share), digits)
    return f"{larger if share >= 0.5 else 100 - larger:.{digits}f}"


def _rate_text(rate: float, interval: Interval) -> str:
    low, high = interval
    ends = "" if low is None or high is None else f" ({percent_won(low)} to {percent_won(high)})"
    return f"{percent_won(rate)} % win rate on prompts like these{ends}"


def _more_text(row: PairRow, board: Leaderboard) -> str:
    """Return how many prompts would show a small difference, if more are needed than there are."""
    if not row.se:
        return ""
    needed = prompts_to_show(
        _DETECTED,
        row.se * row.n_prompts**0.5,
        board.comparisons_accounted,
        one_look=board.interval == "one look",
    )
    more = needed - row.n_prompts
    if more <= 0:
        return ""
    return f"; {counted(more, 'more prompt')} would detect {100 * _DETECTED:.0f} points"
