"""Counts and statistics of a run."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import field

from genrm_cli.metrics.component_metrics import ComponentMetrics
from genrm_cli.metrics.figures import attempt
from genrm_cli.metrics.group_measures import GroupMeasures
from genrm_cli.metrics.half_plans import HalfPlans
from genrm_cli.metrics.panel_metrics import PanelMetrics
from genrm_cli.metrics.running_stats import (
    ExpectedSignal,
    Latencies,
    Mergeable,
    RunningStats,
)
from genrm_cli.metrics.session_metrics import SessionMetrics
from genrm_cli.metrics.verdict_counts import CountOf, FailingText, VerdictCounts
from genrm_cli.verdicts import Failure, Outcome, Reason, StoppedBy, Verdict

_T = TypeVar("_T")
# Figures that one computation gives: if it fails, all of them are null.
LENGTH_FIGURES = ("length_effect", "length_effect_interval")
SCORE_FIGURES = ("mean_individual_score", "std_individual_score", "tiebreak_usage_rate")
VERDICT_FIGURES = (
    "first_place_win_rate",
    "flip_rate",
    "contradiction_rate",
    "tie_rate",
    "repeat_agreement",
)
COMPONENT_FIGURES = ("components", "reward_sources")
MOST_FAILING = 10  # texts with most failures, which a run names


class RunMetrics(Mergeable):
    """Counts and statistics of a run over one input. Those of several inputs can be merged.

    A count or property that `RunTotals` has, too, is a figure of the run, described there.

    Attributes:
        failed_figures: why figures of the run cannot be computed, by name.
    """

    lines: int = 0
    rollouts: int = 0
    rejected_lines: int = 0
    duplicate_rollouts: int = 0
    blank_responses: int = 0
    truncated_responses: int = 0
    rollouts_with_media: int = 0
    missing_fields: Counter[str] = field(default_factory=Counter)
    stripped_tokens: int = 0
    not_numbers: int = 0
    not_numbers_first: str | None = None
    groups_mostly_blank: int = 0
    views: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    groups: int = 0
    group_sizes: Counter[int] = field(default_factory=Counter)
    groups_done: int = 0
    groups_left_out: int = 0
    groups_with_mixed_prompts: int = 0
    groups_without_spread: int = 0
    contradicting_ids: int = 0
    groups_over_steps: int = 0
    comparisons_planned: int = 0
    planned_calls: int = 0
    known: int = 0
    known_calls: int = 0
    prompt_chars: int = 0
    verdicts: int = 0
    journal_hits: int = 0
    stopped_by: StoppedBy | None = None
    latency: Latencies = field(default_factory=Latencies)
    failures_by_kind: Counter[str] = field(default_factory=Counter)
    failure_examples: dict[str, str] = {}
    failed_requests: CountOf = field(default_factory=CountOf)
    failing_texts: dict[str, FailingText] = {}
    calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated_replies: int = 0
    score_ties: int = 0
    pairs: VerdictCounts = field(default_factory=VerdictCounts)
    individual_scores: RunningStats = field(default_factory=RunningStats)
    reward: RunningStats = field(default_factory=RunningStats)
    statuses: Counter[str] = field(default_factory=Counter)
    unscored_reasons: Counter[Reason] = field(default_factory=Counter)
    unscored_examples: dict[str, str] = {}
    unscored_in_groups: int = 0
    rollouts_in_groups: int = 0
    rewards_on_defaults: int = 0
    shortened_rollouts: int = 0
    extra_comparisons: int = 0
    neutralised: int = 0
    copies: int = 0
    dropped_lines: int = 0
    redactions: Counter[str] = field(default_factory=Counter)
    reliability: RunningStats = field(default_factory=RunningStats)
    expected_share: RunningStats = field(default_factory=RunningStats)
    expected_distance: RunningStats = field(default_factory=RunningStats)
    half_plans: HalfPlans = field(default_factory=HalfPlans)
    verdict_sums: list[float] | None = None
    length_effect: RunningStats = field(default_factory=RunningStats)
    groups_noisy: int = 0
    groups_of_unknown_reliability: int = 0
    panel: PanelMetrics | None = None
    components: dict[str, ComponentMetrics] = {}
    component_failures: Counter[str] = field(default_factory=Counter)
    gated: int = 0
    sessions: SessionMetrics = field(default_factory=SessionMetrics)
    shares: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    failed_figures: dict[str, str] = {}

    @property
    def finished(self) -> int:
        """Comparisons that have a verdict, from the judge or the journal, or a failure."""
        return self.verdicts + self.journal_hits + self.failures

    @property
    def failures(self) -> int:
        """Comparisons that failed."""
        return self.failures_by_kind.total()

    @property
    def tokens(self) -> int:
        """Tokens of prompts and replies."""
        return self.prompt_tokens + self.completion_tokens

    def add_group(self, size: int, *, is_left_out: bool = False) -> None:
        """Count a group of `size` rollouts, which a trial may leave out."""
        self.groups += 1
        self.group_sizes[size] += 1
        self.groups_left_out += is_left_out
        if size > 1 and not is_left_out:
            self.rollouts_in_groups += size

    def add_group_without_file(self, size: int, planned: int) -> None:
        """Count a group that no file holds, with its rollouts and planned comparisons."""
        self.add_group(size)
        self.rollouts += size
        self.comparisons_planned += planned

    def add_failing(self, name: str, text: FailingText) -> None:
        """Keep a rollout if it is one of the ten with most failures."""
        kept = self.failing_texts
        kept[name] = text
        if len(kept) > MOST_FAILING:
            del kept[min(kept, key=lambda each: (kept[each].failed, each))]

    def add_outcome(self, outcome: Outcome) -> None:
        """Count a comparison: its verdict or failure, and its cost to this run."""
        if isinstance(outcome.result, Failure):
            kind = outcome.result.kind.value  # plain text, because it becomes a key in JSON
            self.failures_by_kind[kind] += 1
            self.failure_examples.setdefault(kind, outcome.result.detail)
        elif outcome.from_journal:
            self.journal_hits += 1
        else:
            self.verdicts += 1
        # What the journal knows was paid by the run that asked.
        if not outcome.from_journal:
            self.calls += outcome.attempts
            # The first call of each turn of a conversation is no retry.
            self.retries += max(0, outcome.attempts - outcome.turns)
            self.prompt_tokens += outcome.prompt_tokens
            self.completion_tokens += outcome.completion_tokens
            self.estimated_replies += outcome.estimated_replies

    def add_scores(self, verdict: Verdict) -> None:
        """Count the scores of a verdict that was used for the rewards."""
        self.individual_scores.add(verdict.score_1)
        self.individual_scores.add(verdict.score_2)
        self.score_ties += verdict.score_1 == verdict.score_2

    def attempt(self, figures: Iterable[str], compute: Callable[[], _T]) -> _T | None:
        """Return what some figures of the run need; if that fails, they are null in the end."""
        return attempt(self.failed_figures, figures, compute)

    def add_measures(self, group: GroupMeasures) -> None:
        """Add the measurement of a group."""
        verdicts = group.verdicts
        self.pairs.merge(verdicts)
        if group.reliability is not None:
            self.reliability.add(group.reliability)
        if group.expected is not None:
            self.expected_share.add(group.expected.share)
            self.expected_distance.add(group.expected.distance)
        effect = self.attempt(LENGTH_FIGURES, lambda: group.length_effect)
        if effect is not None:
            self.length_effect.add(effect)
        self.groups_noisy += group.is_noisy
        self.groups_without_spread += group.is_flat

    @property
    def scored(self) -> int:
        """Rollouts with a reward, in groups of two or more."""
        return self.statuses["scored"]

    @property
    def single(self) -> int:
        """Rollouts alone in their group with the score that the user asked for."""
        return self.statuses["single"]

    @property
    def unscored(self) -> int:
        """Rollouts without a reward."""
        return self.statuses["unscored"]

    @property
    def unscored_share(self) -> float:
        """Share of rollouts without a reward, of those in groups of two or more; 0 without any."""
        return self.unscored_in_groups / self.rollouts_in_groups if self.rollouts_in_groups else 0.0

    @property
    def mean_individual_score(self) -> float | None:
        """Mean of all scores of the verdicts behind rewards, before the tiebreak."""
        return self.individual_scores.mean

    @property
    def std_individual_score(self) -> float | None:
        """Population standard deviation of these scores."""
        return self.individual_scores.deviation()

    @property
    def tiebreak_usage_rate(self) -> float | None:
        """Share of these verdicts whose two scores tie."""
        comparisons = self.individual_scores.count // 2
        return self.score_ties / comparisons if comparisons else None

    @property
    def first_place_win_rate(self) -> float | None:
        """Share of decided verdicts that prefer the response shown first.

        It is 0.5 for a judge without position bias over balanced pairs, and None if no judge
        compares pairs.
        """
        return self.pairs.first_share

    @property
    def pairs_in_both_orders(self) -> int:
        """Pairs judged in both orders."""
        return self.pairs.both_orders.pairs

    @property
    def flip_rate(self) -> float | None:
        """Share of pairs judged in both orders whose verdicts disagree."""
        agreement = self.pairs.both_orders.rate()
        return None if agreement is None else 1.0 - agreement

    @property
    def contradiction_rate(self) -> float | None:
        """Share of verdicts whose scores prefer one response and whose ranking the other."""
        return self.pairs.share_of(self.pairs.contradictions)

    @property
    def tie_rate(self) -> float | None:
        """Share of verdicts that prefer neither response."""
        return self.pairs.share_of(self.pairs.ties)

    @property
    def pairs_of_repeats(self) -> int:
        """Pairs of repeats of a comparison."""
        return self.pairs.repeats.pairs

    @property
    def repeat_agreement(self) -> float | None:
        """Share of pairs of repeats that agree."""
        return self.pairs.repeats.rate()

    @property
    def expected_signal(self) -> ExpectedSignal | None:
        """The reliability that the noise of the judge let expect, over the groups."""
        share = self.expected_share.mean
        distance = self.expected_distance.mean
        return None if share is None or distance is None else ExpectedSignal(share, distance)

    @property
    def reward_sources(self) -> Mapping[str, float]:
        """Shares of the weighted parts of all rewards by component."""
        whole = math.fsum(self.shares.values())
        if not whole:
            return {}
        return {source: part / whole for source, part in sorted(self.shares.items())}

    @property
    def length_effect_interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean correlation of reward and length, within -1 to 1."""
        interval = self.length_effect.interval()
        if interval is None:
            return None
        low, high = interval
        return max(low, -1.0), min(high, 1.0)


def reference_metrics(metrics: RunMetrics) -> dict[str, float]:
    """Return the three metrics of NeMo Gym's compare reply; empty without a verdict.

    Source: NVIDIA NeMo Gym, `genrm_compare`: mean and population standard deviation of all raw
    scores before the tiebreak, and the share of comparisons whose scores tied."""
    has_scores = metrics.individual_scores.count > 0
    return {name: getattr(metrics, name) for name in SCORE_FIGURES} if has_scores else {}
