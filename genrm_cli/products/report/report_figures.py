"""The figures of a run, from those of its groups: everything that the page shows as a number."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.json_types import Record
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.running_stats import (
    LEAST_SPREAD,
    Mean,
    RunningStats,
    Share,
    share_of,
)
from genrm_cli.metrics.session_metrics import SessionSummary
from genrm_cli.metrics.verdict_counts import VerdictCounts
from genrm_cli.products.report.measure_group import GroupFigures
from genrm_cli.scored.account import RunAccount
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.scored.trust import SAID, TrainingFacts, why_partial, worst_probe
from genrm_cli.verdicts import ProbeResult, Reason

FORMAT = 1
"""Version of the figures; increased when a key changes its meaning or is removed."""
_BINS = 24  # bars of a chart, wide enough to be clicked
_REASONS = frozenset(Reason)
_LISTED = 10  # groups by measure, on one screen
_COST = ("calls", "prompt_tokens", "completion_tokens", "wall_time_s", "journal_hits")


class Histogram(Struct, frozen=True):
    """Counts between edges, the last bin closed; both empty without a value."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def bin_of(self, value: float) -> int:
        """Return the bin of a value that was counted."""
        place = int(np.searchsorted(self.edges, value, side="right")) - 1
        return min(max(place, 0), len(self.counts) - 1)


class RunFigures(Struct, frozen=True, kw_only=True):
    """One scored file in numbers.

    Attributes:
        time: time of scoring; None without a metrics file, as are `settings_digest` and both
            agreements.
        partial: why the run is incomplete; None if it is complete.
        is_baseline: whether the built-in baseline judged any group.
        probe: the worst result of the probes of its judges; None without verdicts or a metrics
            file.
        unscored: rollouts without a reward by the code of the reason.
        rewards: over rollouts; `spread`, `reliability` and both effects are means over groups.
        flat: groups of two and more rewards that are all equal.
        noisy: groups whose reliability is known and below `NOISY_BELOW`.
        failed: requests to judges that were not answered, by kind in `failures`; `not_asked` were
            only planned.
        first_place: verdicts for the response shown first, of those that prefer one.
        repeated: responses whose words are those of another of their group.
        copies: responses that have the reward of another, to which they are equal.
        repeats: pairs of repeats of a comparison that agree; None without a metrics file.
        panel_agreement: Krippendorff's alpha of a panel of judges.
        cost: calls, tokens, seconds and, with prices, money, in all and for 1,000 rollouts; empty
            without a metrics file.
        masked: matches of the redaction patterns that the judge was not sent, by pattern.
        sessions: rewards of sessions by what was played; None without sessions.
        account: what the run says of itself; None without a metrics file.
        look_here: keys and values of the groups that stand out most, by measure.
    """

    uri: str
    time: str | None = None
    judge: str | None
    is_baseline: bool
    settings_digest: str | None = None
    partial: str | None = None
    probe: ProbeResult | None = None
    groups: int
    rollouts: int
    scored: int
    unscored: Mapping[str, int]
    rewards: Mean
    reward_histogram: Histogram
    spread: Mean
    spread_histogram: Histogram
    flat: Share
    reliability: Mean
    reliability_histogram: Histogram
    noisy: Share
    length_chars: Mean
    length_effect: Mean
    length_histogram: Histogram
    markup_effect: Mean
    verdicts: int
    failed: Share
    failures: Mapping[str, int]
    not_asked: int
    ties: Share
    first_place: Share
    flips: Share
    repeated: Share
    copies: int
    components: Mapping[str, Mean]
    panel_agreement: float | None = None
    repeats: Share | None = None
    cost: Mapping[str, float] = {}
    masked: Mapping[str, int] = {}
    sessions: SessionSummary | None
    account: RunAccount | None = None
    look_here: Mapping[str, tuple[tuple[str, float], ...]]
    format: int = FORMAT


def figures_of(
    uri: str,
    groups: Sequence[GroupFigures],
    metrics: RunRecord | None,
    judge: str | None,
    sessions: SessionSummary | None,
    prices: tuple[float, float] = (0.0, 0.0),
) -> RunFigures:
    """Return the figures of a run; its prices are per million tokens of prompts and of replies."""
    measured = [group.measures for group in groups]
    rewards = [reward for each in measured for reward in each.rewards]
    spreads = _known(measured, "spread")
    effects = _known(measured, "length_effect")
    reliabilities = _known(measured, "reliability")
    failures = _counted(group.failures for group in groups)
    verdicts = VerdictCounts()
    for each in measured:
        verdicts.merge(each.verdicts)
    components: dict[str, list[float]] = {}
    for group in groups:
        for name, values in group.components.items():
            components.setdefault(name, []).extend(values)
    asked = _total(groups, "asked")
    failed = sum(failures.values())
    rollouts = _total(groups, "size")
    reliability = mean_of(reliabilities, 1.0)
    if metrics is not None and metrics.reliability_interval is not None:
        # Groups share what is not known of the judge: the run knows the interval.
        low, high = metrics.reliability_interval
        reliability = replace(reliability, value=metrics.reliability.mean, low=low, high=high)
    return RunFigures(
        uri=uri,
        judge=judge,
        is_baseline=any(group.is_baseline for group in groups),
        groups=len(groups),
        rollouts=rollouts,
        scored=len(rewards),
        unscored=_counted(group.unscored for group in groups),
        rewards=mean_of(rewards),
        reward_histogram=histogram_of(rewards),
        spread=mean_of(spreads),
        spread_histogram=histogram_of(spreads, least=0.0),
        flat=share_of(sum(each.is_flat for each in measured), len(spreads)),
        reliability=reliability,
        reliability_histogram=histogram_of(reliabilities, least=0.0, most=1.0),
        noisy=share_of(sum(each.is_noisy for each in measured), len(reliabilities)),
        length_chars=mean_of([float(chars) for group in groups for chars in group.lengths_chars]),
        length_effect=mean_of(effects, 1.0),
        length_histogram=histogram_of(effects, least=-1.0, most=1.0),
        markup_effect=mean_of(_known(groups, "markup_effect"), 1.0),
        verdicts=verdicts.verdicts,
        failed=share_of(failed, asked),
        failures=failures,
        not_asked=_total(groups, "not_asked"),
        ties=share_of(verdicts.ties, verdicts.verdicts),
        first_place=share_of(verdicts.first_wins, verdicts.decided),
        flips=share_of(verdicts.flips, verdicts.both_orders.pairs),
        repeated=share_of(_total(groups, "duplicates"), rollouts),
        copies=_total(groups, "copies"),
        components={name: mean_of(values) for name, values in components.items()},
        sessions=sessions,
        look_here=_stand_out(groups),
        **({} if metrics is None else _recorded(metrics, prices)),
    )


def _recorded(metrics: RunRecord, prices: tuple[float, float]) -> Record:
    """Return the figures that only the metrics file has."""
    cost: dict[str, float] = {name: getattr(metrics, name) for name in _COST}
    paid = cost_of(metrics.prompt_tokens, metrics.completion_tokens, *prices)
    if paid and metrics.rollouts:
        cost |= {"cost": paid, "cost_of_1000": 1000 * paid / metrics.rollouts}
    return {
        "time": metrics.time,
        "settings_digest": metrics.settings_digest,
        "partial": why_partial(metrics),
        "probe": worst_probe(metrics),
        "account": RunAccount.of(metrics),
        "panel_agreement": None if metrics.panel is None else metrics.panel.krippendorff_alpha,
        "repeats": share_of(
            round((metrics.repeat_agreement or 0) * metrics.pairs_of_repeats),
            metrics.pairs_of_repeats,
        ),
        "cost": cost,
        "masked": {name: count for name, count in metrics.redactions.items() if count},
    }


def facts_of(figures: RunFigures) -> TrainingFacts:
    """Return what decides whether to train on the rewards of a run."""
    account = figures.account
    said = {}
    if account is not None:
        said = {name: getattr(account, name) for name in SAID}
    return TrainingFacts(
        is_baseline=figures.is_baseline,
        partial=figures.partial,
        probe=figures.probe,
        rollouts=figures.rollouts,
        scored=figures.scored,
        flat=figures.flat,
        noisy=figures.noisy,
        copies=figures.copies,
        failed=figures.failed,
        not_asked=figures.not_asked,
        first_place=figures.first_place,
        flips=figures.flips,
        length_effect=figures.length_effect,
        **said,
    )


def reason_text(code: str) -> str:
    """Return why rollouts have no reward, in words; the code itself for a line without a reason."""
    return Reason(code).text if code in _REASONS else code


def mean_of(values: Sequence[float], bound: float = math.inf) -> Mean:
    """Return the mean with its normal 95 % interval, within plus and minus `bound`; none for fewer
    than two values.
    """
    stats = RunningStats()
    for value in values:
        stats.add(value)
    ends = stats.interval()
    low, high = (None, None) if ends is None else np.clip(ends, -bound, bound).tolist()
    return Mean(stats.mean, low, high, stats.count)


def histogram_of(
    values: Sequence[float], least: float | None = None, most: float | None = None
) -> Histogram:
    """Return counts in equal bins, from `least` to `most` where given."""
    if not values:
        return Histogram((), ())
    low = min(values) if least is None else least
    high = max(values) if most is None else most
    # Equal values have no range that could be cut into bins.
    if high - low < LEAST_SPREAD:
        low = low - 0.5
        high = high + 0.5
    counts, edges = np.histogram(values, bins=_BINS, range=(low, high))
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()))


def _total(groups: Sequence[GroupFigures], name: str) -> int:
    return sum(getattr(group, name) for group in groups)


def _counted(counts: Iterable[Counter[str]]) -> dict[str, int]:
    """Return the sums of counts, the largest first."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total.most_common())


def _known(groups: Sequence[object], name: str) -> list[float]:
    values = (getattr(group, name) for group in groups)
    return [value for value in values if value is not None]


def _stand_out(groups: Sequence[GroupFigures]) -> dict[str, tuple[tuple[str, float], ...]]:
    """Return the groups that stand out most, by measure; those without a value are left out."""
    columns: dict[str, Callable[[GroupFigures], float | None]] = {
        "lowest reliability": lambda group: group.measures.reliability,
        "strongest length effect": lambda group: group.measures.length_effect,
        "most failures": lambda group: group.failures.total() or None,
        "most repeated responses": lambda group: group.duplicates or None,
    }
    listed = {}
    for name, measure in columns.items():
        values = [(group.key, measure(group)) for group in groups]
        ranked = [(key, value) for key, value in values if value is not None]
        ranked.sort(key=lambda each: each[1] if name.startswith("lowest") else -abs(each[1]))
        if ranked:
            listed[name] = tuple(ranked[:_LISTED])
    return listed
