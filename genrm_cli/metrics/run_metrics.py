"""Counts and statistics of a run, and the metrics object they become."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from genrm_cli.judging.requests import Outcome
from genrm_cli.metrics.agreement import PanelMetrics
from genrm_cli.metrics.component_metrics import ComponentMetrics
from genrm_cli.metrics.intervals import wilson_interval
from genrm_cli.metrics.latency import Latencies
from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.verdicts import Failure, Verdict, preference


@dataclass(slots=True)
class Agreement:
    """How often two verdicts on one pair prefer the same response; a tie agrees with a tie only."""

    pairs: int = 0
    agreeing: int = 0

    def add(self, pairs: Iterable[tuple[Verdict, Verdict]]) -> None:
        """Take in pairs of verdicts."""
        for one, other in pairs:
            self.pairs += 1
            self.agreeing += _sign(preference(one)) == _sign(preference(other))

    def rate(self) -> float | None:
        """Return the share that agree; None without a pair."""
        return self.agreeing / self.pairs if self.pairs else None


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


class Pace(Protocol):
    """How hard the judge is being asked at the moment."""

    @property
    def in_flight(self) -> int:
        """Calls in flight."""

    @property
    def limit(self) -> int:
        """Calls that may be in flight."""


@dataclass(slots=True)
class RunMetrics:
    """What happened so far in a run. Written by the run, read by whoever shows progress."""

    lines: int = 0
    rollouts: int = 0
    rejects: int = 0
    duplicates: int = 0
    dialects: Counter[str] = field(default_factory=Counter)
    groups: int = 0
    group_sizes: Counter[int] = field(default_factory=Counter)
    groups_done: int = 0
    groups_single: int = 0
    groups_with_mixed_prompts: int = 0
    groups_without_spread: int = 0
    planned: int = 0
    planned_calls: int = 0
    known: int = 0
    exhibit_chars: int = 0
    verdicts: int = 0
    journal_hits: int = 0
    hedged: int = 0
    stopped_by: str | None = None
    pace: Pace | None = None
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
    swapped: Agreement = field(default_factory=Agreement)
    repeated: Agreement = field(default_factory=Agreement)
    individual_scores: RunningStats = field(default_factory=RunningStats)
    rewards: RunningStats = field(default_factory=RunningStats)
    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    unscored_in_groups: int = 0
    rollouts_in_groups: int = 0
    rewards_on_defaults: int = 0
    lines_dropped: int = 0
    redactions: Counter[str] = field(default_factory=Counter)
    reliabilities: RunningStats = field(default_factory=RunningStats)
    groups_noisy: int = 0
    groups_unknown: int = 0
    groups_not_converged: int = 0
    weights_fitted: bool = False
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
        """Count a comparison: its verdict or failure, and what it cost this run."""
        if isinstance(outcome.result, Failure):
            self.failures[outcome.result.kind.value] += 1  # plain text, as it becomes a key in JSON
            self.failure_examples.setdefault(outcome.result.kind.value, outcome.result.detail)
        elif outcome.from_journal:
            self.journal_hits += 1
        else:
            self.verdicts += 1
        if not outcome.from_journal:
            self.calls += outcome.attempts
            self.retries += max(0, outcome.attempts - outcome.turns)
            self.hedged += outcome.hedged
            self.prompt_tokens += outcome.prompt_tokens
            self.completion_tokens += outcome.completion_tokens
            self.cached_tokens += outcome.cached_tokens

    def add_scores(self, verdict: Verdict, *, in_order: bool = True) -> None:
        """Count the scores that a comparison brought into the rewards, and who won.

        Args:
            verdict: the one that counts.
            in_order: whether a judge was shown the two, one first; False where each was graded alone.
        """
        self.individual_scores.add(verdict.score_1)
        self.individual_scores.add(verdict.score_2)
        self.score_ties += verdict.score_1 == verdict.score_2
        if in_order:
            lead = preference(verdict)
            self.first_wins += lead > 0
            self.second_wins += lead < 0

    def unscored_share(self) -> float:
        """Return the share of rollouts without a reward among those in groups of two and more; 0 if none are."""
        return self.unscored_in_groups / self.rollouts_in_groups if self.rollouts_in_groups else 0.0


class RunProgress:
    """The tallies of all inputs of a run: those at work, and the sum of those that are done."""

    def __init__(self) -> None:
        self._done = RunMetrics()
        self._at_work: list[RunMetrics] = []

    def begin(self) -> RunMetrics:
        """Open the tally of one more input."""
        tally = RunMetrics()
        self._at_work.append(tally)
        return tally

    def end(self, tally: RunMetrics) -> None:
        """Close the tally of an input; its counts stay in the total."""
        self._at_work.remove(tally)
        self._done = _sum_of([self._done, tally])

    def total(self) -> RunMetrics:
        """Return the counts of all inputs together; not their spreads."""
        return _sum_of([self._done, *self._at_work])


def _sum_of(tallies: list[RunMetrics]) -> RunMetrics:
    total = RunMetrics()
    for tally in tallies:
        for count in fields(RunMetrics):
            value = getattr(tally, count.name)
            if isinstance(value, Counter):
                getattr(total, count.name).update(value)
            elif isinstance(value, int):
                setattr(total, count.name, getattr(total, count.name) + value)
        total.pace, total.latencies = tally.pace or total.pace, tally.latencies if tally.pace else total.latencies
    return total


def reference_metrics(tally: RunMetrics) -> dict[str, float]:
    """Return the three metrics of the reference's compare reply; empty without a verdict.

    Source: NVIDIA NeMo Gym, `genrm_compare`: mean and population standard deviation of all raw scores before
    the tiebreak, and the share of comparisons whose scores tied.
    """
    deviation = tally.individual_scores.deviation()
    if tally.individual_scores.mean is None or deviation is None:
        return {}
    return {
        "mean_individual_score": tally.individual_scores.mean,
        "std_individual_score": deviation,
        "tiebreak_usage_rate": tally.score_ties / (tally.individual_scores.count // 2),
    }


def _interval(count: int, of: int) -> list[float] | None:
    return list(wilson_interval(count / of, of)) if of else None


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    whole = math.fsum(parts.values())
    return {source: part / whole for source, part in sorted(parts.items())} if whole else {}


def _complement(share: float | None) -> float | None:
    return None if share is None else 1.0 - share


def summarise(tally: RunMetrics, wall_time_s: float) -> dict[str, Any]:
    """Return the counts and statistics of a finished run as one JSON-ready object.

    Rates are null where nothing was counted. `first_place_win_rate` is the share of decided verdicts that favoured
    the response shown first, with Wilson's 95 % interval: 0.5 for a judge without position bias over balanced
    pairs; null where no judge compares pairs, as is `flip_rate`. `flip_rate` is the share of
    pairs judged in both orders whose two verdicts disagree, `repeat_agreement` the share of pairs of repeats that
    agree. `reliability` is the share of a group's spread that is signal, where it can be said; `groups_noisy` counts
    those below a half. `panel` is null for a single judge. `redactions` are what was masked in the texts of the judged
    groups, each text of a group counted once. `reward_sources` are the shares of the weighted parts of all rewards by
    where they come from.
    """
    decided = tally.first_wins + tally.second_wins
    metrics = {"mean_individual_score": None, "std_individual_score": None, "tiebreak_usage_rate": None}
    return {
        "lines": tally.lines,
        "rejected_lines": tally.rejects,
        "dropped_lines": tally.lines_dropped,
        "dialects": dict(sorted(tally.dialects.items())),
        "rollouts": tally.rollouts,
        "duplicate_rollouts": tally.duplicates,
        "groups": tally.groups,
        "group_sizes": {str(size): count for size, count in sorted(tally.group_sizes.items())},
        "groups_single": tally.groups_single,
        "groups_with_mixed_prompts": tally.groups_with_mixed_prompts,
        "groups_without_spread": tally.groups_without_spread,
        "scored": tally.statuses["scored"],
        "single": tally.statuses["single"],
        "unscored": tally.statuses["unscored"],
        "unscored_share": tally.unscored_share(),
        "unscored_reasons": dict(sorted(tally.reasons.items())),
        "rewards_on_defaults": tally.rewards_on_defaults,
        "comparisons_planned": tally.planned,
        "stopped_by": tally.stopped_by,
        "redactions": dict(sorted(tally.redactions.items())),
        "verdicts": tally.verdicts,
        "journal_hits": tally.journal_hits,
        "failures": tally.failed,
        "failures_by_kind": dict(sorted(tally.failures.items())),
        "failure_examples": dict(sorted(tally.failure_examples.items())),
        "calls": tally.calls,
        "retries": tally.retries,
        "hedged_comparisons": tally.hedged,
        "prompt_tokens": tally.prompt_tokens,
        "completion_tokens": tally.completion_tokens,
        "cached_prompt_tokens": tally.cached_tokens,
        **metrics,
        **reference_metrics(tally),
        "first_place_win_rate": tally.first_wins / decided if decided else None,
        "first_place_win_rate_interval": list(wilson_interval(tally.first_wins / decided, decided))
        if decided
        else None,
        "pairs_in_both_orders": tally.swapped.pairs,
        "flip_rate": _complement(tally.swapped.rate()),
        "repeat_agreement": tally.repeated.rate(),
        "panel": None if tally.panel is None else tally.panel.as_dict(),
        "reliability": tally.reliabilities.as_dict(),
        "groups_noisy": tally.groups_noisy,
        "groups_of_unknown_reliability": tally.groups_unknown,
        "groups_not_converged": tally.groups_not_converged,
        "weights_fitted": tally.weights_fitted,
        "components": tally.components.as_dict() or None,
        "component_failures": dict(sorted(tally.component_failures.items())),
        "gated": tally.gated,
        "reward_sources": _shares(tally.shares),
        "reward": tally.rewards.as_dict(),
        "latency": tally.latencies.as_dict(),
        "wall_time_s": round(wall_time_s, 3),
        "calls_per_s": round(tally.calls / wall_time_s, 2) if wall_time_s > 0 else None,
        "comparisons_per_s": round(tally.finished / wall_time_s, 2) if wall_time_s > 0 else None,
    }
