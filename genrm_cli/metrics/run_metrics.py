"""Counts and statistics of a run."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.metrics.component_metrics import ComponentMetrics
from genrm_cli.metrics.intervals import wilson_interval
from genrm_cli.metrics.latency import Latencies
from genrm_cli.metrics.panel_metrics import PanelMetrics
from genrm_cli.metrics.running_stats import Mergeable, RunningStats
from genrm_cli.verdicts import (
    Failure,
    Outcome,
    Reason,
    StoppedBy,
    Verdict,
    contradicts_itself,
    echoes_score,
    preference,
)

_REFERENCE_METRICS = ("mean_individual_score", "std_individual_score", "tiebreak_usage_rate")


@dataclass(slots=True)
class Agreement(Mergeable):
    """How often two verdicts on one pair prefer the same response; a tie agrees with a tie only."""

    pairs: int = 0
    agreeing: int = 0

    def add(self, pairs: Iterable[tuple[Verdict, Verdict]]) -> None:
        """Add pairs of verdicts."""
        for one, other in pairs:
            self.pairs += 1
            self.agreeing += _sign(one) == _sign(other)

    def rate(self) -> float | None:
        """Return the share that agree; None without pairs."""
        return self.agreeing / self.pairs if self.pairs else None


def _sign(verdict: Verdict) -> int:
    lead = preference(verdict)
    return (lead > 0) - (lead < 0)


@dataclass(slots=True)
class RunMetrics(Mergeable):
    """Counts and statistics of a run over one input. Those of several inputs can be merged."""

    lines: int = 0
    rollouts: int = 0
    rejects: int = 0
    duplicates: int = 0
    blank: int = 0
    truncated: int = 0
    excluded: int = 0
    with_media: int = 0
    stripped_tokens: int = 0
    groups_mostly_blank: int = 0
    views: Counter[str] = field(default_factory=Counter)
    dialects: Counter[str] = field(default_factory=Counter)
    groups: int = 0
    group_sizes: Counter[int] = field(default_factory=Counter)
    groups_done: int = 0
    groups_single: int = 0
    groups_left_out: int = 0
    groups_with_mixed_prompts: int = 0
    groups_without_spread: int = 0
    contradicting_ids: int = 0
    planned: int = 0
    planned_calls: int = 0
    known: int = 0
    known_calls: int = 0
    prompt_chars: int = 0
    verdicts: int = 0
    journal_hits: int = 0
    stopped_by: StoppedBy | None = None
    latencies: Latencies = field(default_factory=Latencies)
    failures: Counter[str] = field(default_factory=Counter)
    failure_examples: dict[str, str] = field(default_factory=dict)
    calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    first_wins: int = 0
    second_wins: int = 0
    score_ties: int = 0
    in_order: int = 0
    contradictions: int = 0
    echoes: int = 0
    both_orders: Agreement = field(default_factory=Agreement)
    repeats: Agreement = field(default_factory=Agreement)
    individual_scores: RunningStats = field(default_factory=RunningStats)
    rewards: RunningStats = field(default_factory=RunningStats)
    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[Reason] = field(default_factory=Counter)
    reason_examples: dict[str, str] = field(default_factory=dict)
    unscored_in_groups: int = 0
    rollouts_in_groups: int = 0
    rewards_on_defaults: int = 0
    lines_dropped: int = 0
    redactions: Counter[str] = field(default_factory=Counter)
    reliabilities: RunningStats = field(default_factory=RunningStats)
    forecast: dict[str, RunningStats] = field(default_factory=dict)
    groups_noisy: int = 0
    groups_unknown: int = 0
    groups_not_converged: int = 0
    panel: PanelMetrics | None = None
    components: ComponentMetrics = field(default_factory=ComponentMetrics)
    component_failures: Counter[str] = field(default_factory=Counter)
    gated: int = 0
    shares: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def finished(self) -> int:
        """Comparisons that have a verdict, from the judge or the journal, or a failure."""
        return self.verdicts + self.journal_hits + self.failed

    @property
    def failed(self) -> int:
        """Comparisons that failed."""
        return self.failures.total()

    def add_outcome(self, outcome: Outcome) -> None:
        """Count a comparison: its verdict or failure, and its cost to this run."""
        if isinstance(outcome.result, Failure):
            self.failures[outcome.result.kind.value] += 1  # plain text, because it becomes a key in JSON
            self.failure_examples.setdefault(outcome.result.kind.value, outcome.result.detail)
        elif outcome.from_journal:
            self.journal_hits += 1
        else:
            self.verdicts += 1
        if not outcome.from_journal:
            self.calls += outcome.attempts
            self.retries += max(0, outcome.attempts - outcome.turns)
            self.prompt_tokens += outcome.prompt_tokens
            self.completion_tokens += outcome.completion_tokens
            self.cached_tokens += outcome.cached_tokens

    def add_verdict(self, verdict: Verdict, *, in_order: bool = True) -> None:
        """Count a verdict that was used for the rewards; `in_order` is False if each response was graded alone."""
        self.individual_scores.add(verdict.score_1)
        self.individual_scores.add(verdict.score_2)
        self.score_ties += verdict.score_1 == verdict.score_2
        if in_order:
            self.in_order += 1
            self.contradictions += contradicts_itself(verdict)
            self.echoes += echoes_score(verdict)
            lead = preference(verdict)
            self.first_wins += lead > 0
            self.second_wins += lead < 0

    def unscored_share(self) -> float:
        """Return the share of rollouts without a reward among those in groups of two or more; 0 without any."""
        return self.unscored_in_groups / self.rollouts_in_groups if self.rollouts_in_groups else 0.0


def reference_metrics(metrics: RunMetrics) -> dict[str, float]:
    """Return the three metrics of NeMo Gym's compare reply; empty without a verdict.

    Source: NVIDIA NeMo Gym, `genrm_compare`: mean and population standard deviation of all raw scores before
    the tiebreak, and the share of comparisons whose scores tied.
    """
    deviation = metrics.individual_scores.deviation()
    if metrics.individual_scores.mean is None or deviation is None:
        return {}
    usage = metrics.score_ties / (metrics.individual_scores.count // 2)
    return dict(zip(_REFERENCE_METRICS, (metrics.individual_scores.mean, deviation, usage), strict=True))


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    whole = math.fsum(parts.values())
    return {source: part / whole for source, part in sorted(parts.items())} if whole else {}


def summarise(metrics: RunMetrics, wall_time_s: float) -> dict[str, Any]:
    """Return the counts and statistics of a finished run as one JSON-ready object.

    Rates are null if nothing was counted. `first_place_win_rate` is the share of decided verdicts that prefer
    the response shown first, with its 95 % interval: 0.5 for a judge without position bias over balanced pairs; null
    if no judge compares pairs, as is `flip_rate`: the share of pairs judged in both orders whose verdicts disagree.
    `contradiction_rate` is the share of verdicts whose scores prefer one response and whose ranking prefers the
    other; `echoed_ranking_rate` is the share of rankings that only repeat the score of both. `repeat_agreement` is the
    share of pairs of repeats that agree. `reliability` is the share of a group's spread that is signal, if it is known;
    `reliability_forecast` predicts its mean with one more ring (`value`, its 95 % interval, and that `ring_k`).
    `groups_noisy` counts groups below one half. `contradicting_ids` counts the task ids of a set of files that name
    several prompts. `panel` is null for a single judge. `redactions` counts each masked text of the judged groups once.
    `reward_sources` are the shares of the weighted parts of all rewards by component.
    """
    decided = metrics.first_wins + metrics.second_wins
    first_rate = metrics.first_wins / decided if decided else None
    agreement = metrics.both_orders.rate()
    return {
        "lines": metrics.lines,
        "rejected_lines": metrics.rejects,
        "dropped_lines": metrics.lines_dropped,
        "formats": dict(sorted(metrics.dialects.items())),
        "dialects": dict(sorted(metrics.dialects.items())),  # the old name of `formats`
        "rollouts": metrics.rollouts,
        "duplicate_rollouts": metrics.duplicates,
        "blank_responses": metrics.blank,
        "truncated_responses": metrics.truncated,
        "excluded_rollouts": metrics.excluded,
        "rollouts_with_media": metrics.with_media,
        "stripped_tokens": metrics.stripped_tokens,
        "groups_mostly_blank": metrics.groups_mostly_blank,
        "views": dict(sorted(metrics.views.items())),
        "groups": metrics.groups,
        "group_sizes": {str(size): count for size, count in sorted(metrics.group_sizes.items())},
        "groups_single": metrics.groups_single,
        "groups_left_out": metrics.groups_left_out,
        "groups_with_mixed_prompts": metrics.groups_with_mixed_prompts,
        "groups_without_spread": metrics.groups_without_spread,
        "contradicting_ids": metrics.contradicting_ids,
        **{status: metrics.statuses[status] for status in ("scored", "single", "unscored")},
        "unscored_share": metrics.unscored_share(),
        "unscored_reasons": {reason.value: count for reason, count in sorted(metrics.reasons.items())},
        "unscored_examples": dict(sorted(metrics.reason_examples.items())),
        "rewards_on_defaults": metrics.rewards_on_defaults,
        "comparisons_planned": metrics.planned,
        "stopped_by": metrics.stopped_by,
        "redactions": dict(sorted(metrics.redactions.items())),
        "verdicts": metrics.verdicts,
        "journal_hits": metrics.journal_hits,
        "failures": metrics.failed,
        "failures_by_kind": dict(sorted(metrics.failures.items())),
        "failure_examples": dict(sorted(metrics.failure_examples.items())),
        "calls": metrics.calls,
        "retries": metrics.retries,
        "prompt_tokens": metrics.prompt_tokens,
        "completion_tokens": metrics.completion_tokens,
        "cached_prompt_tokens": metrics.cached_tokens,
        **dict.fromkeys(_REFERENCE_METRICS),
        **reference_metrics(metrics),
        "first_place_win_rate": first_rate,
        "first_place_win_rate_interval": None if first_rate is None else list(wilson_interval(first_rate, decided)),
        "pairs_in_both_orders": metrics.both_orders.pairs,
        "flip_rate": None if agreement is None else 1.0 - agreement,
        "contradiction_rate": metrics.contradictions / metrics.in_order if metrics.in_order else None,
        "echoed_ranking_rate": metrics.echoes / metrics.in_order if metrics.in_order else None,
        "repeat_agreement": metrics.repeats.rate(),
        "panel": None if metrics.panel is None else metrics.panel.as_dict(),
        "reliability": metrics.reliabilities.as_dict(),
        "reliability_forecast": {name: stats.mean for name, stats in metrics.forecast.items()} or None,
        "groups_noisy": metrics.groups_noisy,
        "groups_of_unknown_reliability": metrics.groups_unknown,
        "groups_not_converged": metrics.groups_not_converged,
        "components": metrics.components.as_dict() or None,
        "component_failures": dict(sorted(metrics.component_failures.items())),
        "gated": metrics.gated,
        "reward_sources": _shares(metrics.shares),
        "reward": metrics.rewards.as_dict(),
        "latency": metrics.latencies.as_dict(),
        "wall_time_s": round(wall_time_s, 3),
        "calls_per_s": round(metrics.calls / wall_time_s, 2) if wall_time_s > 0 else None,
        "comparisons_per_s": round(metrics.finished / wall_time_s, 2) if wall_time_s > 0 else None,
    }
