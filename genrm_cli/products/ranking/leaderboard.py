"""Win rates of policies, their strengths, and what both say in one sentence.

A win rate is a mean of the shares that prompts give, and needs no model. Strengths come from one
fit of all outcomes; their errors come from how far each prompt moves the fit. All intervals hold
for all pairs of policies together, and however often you look.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from genrm_cli.errors import counted
from genrm_cli.metrics.figures import WINS
from genrm_cli.metrics.running_stats import LEAST_SPREAD, student_95
from genrm_cli.products.ranking.looks import LEAST_PROMPTS, critical_z, share_interval
from genrm_cli.products.ranking.outcomes import Outcomes
from genrm_cli.products.ranking.strengths import Strengths, fit_strengths

_MANY_FAILED = 0.05  # share of comparisons
_MOST_NAMED = 5  # policies in a sentence
_MAX_HALF_WIDTH = 4.6  # of the interval of a strength: odds of 100 to 1 either way say nothing


class PolicyRow(Struct, frozen=True, kw_only=True):
    """One policy. None where a number is unknown; win rates are between 0 and 1.

    Attributes:
        strength: log odds of a win against the mean of all; its interval is `lo` to `hi`.
        win_rate: the mean over all others.
        prompts: that it answered, as at least one other policy did.
    """

    name: str
    strength: float | None
    se: float | None
    lo: float | None
    hi: float | None
    win_rate: float | None
    prompts: int


class PairRow(Struct, frozen=True, kw_only=True):
    """Two policies that were compared.

    Attributes:
        w: mean over prompts of the share that `a` won against `b`, 0 to 1, in both orders alike;
            `lo` to `hi` is its interval. None if unknown.
        better: the policy that is better by that interval; None if neither is.
        n_prompts: prompts that count. The other counts are of comparisons; `n_verdicts` and `ties`
            of those with a verdict.
    """

    a: str
    b: str
    w: float | None
    se: float | None
    lo: float | None
    hi: float | None
    better: str | None
    n_prompts: int
    n_verdicts: int
    ties: int
    failed: int


class Leaderboard(Struct, frozen=True, kw_only=True):
    """The statistics of a ranking. The unit of all intervals is the prompt.

    Attributes:
        policies: the strongest first, as in each of `pairs`.
        by_rule: comparisons that were decided without a judge.
        position: advantage of the response shown first, in log odds.
    """

    policies: tuple[PolicyRow, ...]
    pairs: tuple[PairRow, ...]
    unit: Literal["prompt"] = "prompt"
    conf_level: float = 0.95
    n_prompts: int
    n_verdicts: int
    by_rule: int
    failed: int
    position: float | None
    warnings: tuple[str, ...]


def build_leaderboard(outcomes: Outcomes) -> Leaderboard:
    """Compute all statistics of a ranking of at least one comparison."""
    judged = ~outcomes.by_rule
    # Nothing is known but that equal responses tie: no interval may say that they are alike.
    is_judged = bool(judged.any() or (outcomes.won != 0.5).any())
    fit = fit_strengths(outcomes) if is_judged else None
    pairs = _pair_rows(outcomes, is_judged=is_judged)
    rows = _policy_rows(outcomes, pairs, fit)
    # Rounded: machines differ in the last bits, which must not order equal policies.
    rows.sort(key=lambda row: (-round(row.strength or 0.0, 6), -(row.win_rate or 0.0), row.name))
    place = {row.name: number for number, row in enumerate(rows)}
    pairs.sort(key=lambda row: sorted((place[row.a], place[row.b])))
    failed = outcomes.table.failed.total()
    prompts = len(np.unique(outcomes.prompt))
    return Leaderboard(
        policies=tuple(rows),
        pairs=tuple(pairs),
        n_prompts=prompts,
        n_verdicts=int(judged.sum()),
        by_rule=int(outcomes.by_rule.sum()),
        failed=failed,
        position=None if fit is None else fit.gamma,
        warnings=tuple(_iter_warnings(prompts, int(judged.sum()), failed, fit)),
    )


def _pair_rows(outcomes: Outcomes, *, is_judged: bool) -> list[PairRow]:
    names = outcomes.table.policies
    failed = outcomes.table.failed
    judged = outcomes.count(~outcomes.by_rule)
    ruled = outcomes.count(outcomes.by_rule)
    ties = outcomes.count(~outcomes.by_rule & (outcomes.won == 0.5))
    shares = outcomes.win_shares()
    rows = []
    for a, b in np.argwhere(np.triu(judged + ruled)).tolist():
        known = shares[:, a, b][~np.isnan(shares[:, a, b])]
        n = len(known)
        w = float(known.mean()) if n else None
        error = float(known.std(ddof=1) / np.sqrt(n)) if n > 1 and is_judged else None
        low, high = None, None
        if w is not None and error is not None:
            verdicts = int(judged[a, b] + ruled[a, b])
            low, high = share_interval(w, error, n, verdicts, critical_z(n, _pairs_of(outcomes.k)))
        row = PairRow(
            a=names[a],
            b=names[b],
            w=w,
            se=error,
            lo=low,
            hi=high,
            better=_better(names[a], names[b], n, low, high),
            n_prompts=n,
            n_verdicts=int(judged[a, b]),
            ties=int(ties[a, b]),
            failed=failed[a, b] + failed[b, a],
        )
        rows.append(row)
    return rows


def _better(a: str, b: str, n: int, low: float | None, high: float | None) -> str | None:
    if n < LEAST_PROMPTS or low is None or high is None:
        return None
    if low > 0.5:
        return a
    return b if high < 0.5 else None


def _policy_rows(
    outcomes: Outcomes, pairs: Sequence[PairRow], fit: Strengths | None
) -> list[PolicyRow]:
    k = outcomes.k
    strengths, errors = np.full((2, k), np.nan)
    if fit is not None:
        strengths = fit.theta
        errors = np.sqrt(np.maximum(0.0, np.diag(fit.cov)))
    n = max(1, len(np.unique(outcomes.prompt)))
    widths = student_95(n - 1, critical_z(n, _pairs_of(k))) * errors
    is_alike = errors < LEAST_SPREAD  # where prompts do not differ, an error of 0 says nothing
    says_little = (n < LEAST_PROMPTS) | is_alike | (widths > _MAX_HALF_WIDTH)
    widths = np.where(says_little, np.nan, widths)
    rates: dict[str, list[float]] = {name: [] for name in outcomes.table.policies}
    for row in pairs:
        if row.w is not None:
            rates[row.a].append(row.w)
            rates[row.b].append(1 - row.w)
    return [
        PolicyRow(
            name=name,
            strength=_number(strengths[number]),
            se=_number(errors[number]),
            lo=_number(strengths[number] - widths[number]),
            hi=_number(strengths[number] + widths[number]),
            win_rate=sum(rates[name]) / (k - 1) if len(rates[name]) == k - 1 else None,
            prompts=outcomes.table.answered[number],
        )
        for number, name in enumerate(outcomes.table.policies)
    ]


def _pairs_of(k: int) -> int:
    """Return how many pairs of policies the intervals hold for together."""
    return k * (k - 1) // 2


def _iter_warnings(prompts: int, judged: int, failed: int, fit: Strengths | None) -> Iterator[str]:
    """Yield what to beware of when reading a leaderboard."""
    if prompts < LEAST_PROMPTS:
        yield f"only {counted(prompts, 'prompt')}: the table describes them, and nothing else"
    if not judged:
        yield "nothing was judged: all responses are equal or blank, or all comparisons failed"
    elif fit is None:
        yield "no chain of comparisons joins all policies, so they have no common strength"
    elif fit.separated:
        yield "some policies never lost or never won: their strength is a bound; read the win rates"
    if fit is not None and fit.gamma is None:
        yield "no pair was judged in both orders: a preference for a position may decide"
    if failed > _MANY_FAILED * (failed + judged):
        yield f"{failed:,} of {failed + judged:,} comparisons failed; they count for neither policy"


def sentence_of(board: Leaderboard, judge: str) -> str:
    """Return what a leaderboard says, which is no more than it shows."""
    names = [row.name for row in board.policies if row.prompts]
    if len(names) == 2:
        return _pair_text(board.pairs[0], judge)
    losers = {row.a if row.better == row.b else row.b for row in board.pairs if row.better}
    left = [name for name in names if name not in losers]
    wins = [row.better for row in board.pairs]
    if wins.count(left[0] if left else None) == len(names) - 1:
        return f"{judge} prefers {left[0]} to every other policy."
    return f"Not separated at the top: {named(left)}."


def named(names: Sequence[str]) -> str:
    """Return the first names as text, and how many more there are."""
    more = len(names) - _MOST_NAMED
    shown = ", ".join(names[:_MOST_NAMED])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _pair_text(row: PairRow, judge: str) -> str:
    name = row.better or (row.a if (row.w or 0.0) >= 0.5 else row.b)
    other = row.b if name == row.a else row.a
    known = [each for each in (row.w, row.lo, row.hi) if each is not None]
    if not known:
        return f"no prompt has a verdict on {name} and {other} in both orders."
    if name == row.b:
        known = [1 - each for each in known]
    rate, *interval = known
    ends = f" ({WINS.ends(min(interval), max(interval))})" if interval else ""
    shown = f"{WINS.number(rate)} % win rate on prompts like these{ends}."
    if row.better is not None:
        return f"{judge} prefers {name} to {other}: {shown}"
    if row.n_prompts < LEAST_PROMPTS:
        return (
            f"{row.n_prompts} of {LEAST_PROMPTS} prompts that {name} and {other} need at least: "
            f"{shown}"
        )
    prompts = counted(row.n_prompts, "prompt")
    return f"{name} and {other} are not separated by {prompts}: {shown}"


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
