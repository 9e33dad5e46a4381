"""The counts and statistics of a finished run."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from genrm_cli.metrics.component_metrics import ComponentSummary
from genrm_cli.metrics.figures import attempt
from genrm_cli.metrics.panel_metrics import PanelSummary
from genrm_cli.metrics.plan_reliability import RingsNeeded
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.running_stats import (
    LatencySummary,
    Statistics,
    odds_interval,
    wilson_interval,
)
from genrm_cli.metrics.session_metrics import SessionSummary
from genrm_cli.metrics.verdict_counts import GroupedCount, VerdictCounts
from genrm_cli.verdicts import StoppedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The counts and statistics of a run. Rates are None if nothing was counted.

    Attributes:
        unscored_share: rollouts without a reward among those in groups of two or more.
        unscored_reasons: rollouts without a reward by the code of the reason; `unscored_examples`:
            details of one.
        verdicts_after_reask: verdicts that came only after a reply without one; of these,
            `verdicts_set_aside` do not count, since the rollout that they favour is suspected.
        suspects_cleared: rollouts with so many failures that they would be suspected, if chance
            did not explain as many; they do not count in `caused_failures`.
        caused_failures: rollouts suspected of making requests fail; `caused_failures_most` names
            the one with most of them; `caused_failures_by_chance` is the number that the run's own
            rates of failures give if texts have no influence; None without suspects, or below
            20 groups.
        comparisons_planned: `verdicts` + `journal_hits` + `failures`.
        expected_verdicts: of `verdicts` and `journal_hits`, those that are expected values over
            score tokens.
        neutralised: rollouts with text in the form of a verdict, a marker or a control token,
            broken up for the judge.
        copies: rollouts in which judges see no difference to an earlier one of their group; they
            share its comparisons.
        redactions: masked texts of the judged groups, each counted once, by pattern.
        shortened_rollouts: rollouts whose prompt or response was cut so that it fits into the
            judges' context.
        first_place_win_rate: share of decided verdicts that prefer the response shown first, with
            its 95 % interval: 0.5 for a judge without position bias over balanced pairs; None if no
            judge compares pairs.
        flip_rate: share of pairs judged in both orders whose verdicts disagree.
        contradiction_rate: share of verdicts whose scores prefer one response and whose ranking
            prefers the other.
        echoed_ranking_rate: share of rankings that only repeat the score of both responses.
        repeat_agreement: share of pairs of repeats that agree.
        panel: agreement of a panel; None for a single judge.
        reliability: share of a group's spread that is signal, over the groups where it is known;
            with the 95 % interval of its mean, as far as that depends on what is known of the
            judge's noise; `rings_needed` says with which `ring_k` it would be high.
        length_effect: correlation of reward and length within groups of three or more, with the 95
            % interval of its mean.
        markup_effect: mean correlation of reward and markup within groups; measured where judges
            are watched, as is `addressed_judge`, the number of responses that speak to a judge.
        tie_rate: share of verdicts that prefer neither response.
        failed_requests: requests about groups without a verdict, of all; a panel's judges each
            count.
        first_wins: verdicts that prefer the response shown first, of the decided ones.
        ties: verdicts that prefer neither response, of all.
        groups_noisy: groups whose reliability is below `NOISY_BELOW`.
        not_numbers: NaN, infinities and numbers beyond a double, read and written back as null; the
            first is named.
        contradicting_ids: task ids of a set of files that name several prompts.
        groups_over_steps: groups that compare rollouts of several training steps.
        reward_sources: shares of the weighted parts of all rewards by component.
        sessions: rewards of sessions by what was played; None without sessions.
        failed_figures: why figures are null that a bug kept from being computed, by name; None if
            there are none.
    """

    lines: int
    rejected_lines: int
    dropped_lines: int
    formats: Mapping[str, int]
    rollouts: int
    duplicate_rollouts: int
    blank_responses: int
    truncated_responses: int
    excluded_rollouts: int
    rollouts_with_media: int
    missing_fields: Mapping[str, int]
    stripped_tokens: int
    not_numbers: int
    not_numbers_first: str | None
    groups_mostly_blank: int
    views: Mapping[str, int]
    groups: int
    group_sizes: Mapping[str, int]
    groups_single: int
    groups_left_out: int
    groups_with_mixed_prompts: int
    groups_without_spread: int
    contradicting_ids: int
    groups_over_steps: int
    scored: int
    single: int
    unscored: int
    unscored_share: float
    unscored_reasons: Mapping[str, int]
    unscored_examples: Mapping[str, str]
    rewards_on_defaults: int
    verdicts_after_reask: int
    verdicts_set_aside: int
    suspects_cleared: int
    caused_failures: int
    caused_failures_most: str | None
    caused_failures_by_chance: float | None
    neutralised: int
    copies: int
    comparisons_planned: int
    stopped_by: StoppedBy | None
    redactions: Mapping[str, int]
    shortened_rollouts: int
    verdicts: int
    journal_hits: int
    expected_verdicts: int
    failures: int
    failures_by_kind: Mapping[str, int]
    failure_examples: Mapping[str, str]
    failed_requests: GroupedCount
    calls: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int
    mean_individual_score: float | None
    std_individual_score: float | None
    tiebreak_usage_rate: float | None
    first_place_win_rate: float | None
    first_place_win_rate_interval: tuple[float, ...] | None
    pairs_in_both_orders: int
    flip_rate: float | None
    contradiction_rate: float | None
    tie_rate: float | None
    first_wins: GroupedCount
    ties: GroupedCount
    echoed_ranking_rate: float | None
    pairs_of_repeats: int
    repeat_agreement: float | None
    panel: PanelSummary | None
    reliability: Statistics
    reliability_interval: tuple[float, ...] | None
    rings_needed: RingsNeeded | None
    groups_noisy: int
    groups_of_unknown_reliability: int
    groups_not_converged: int
    components: Mapping[str, ComponentSummary] | None
    component_failures: Mapping[str, int]
    gated: int
    raised: int
    reward_sources: Mapping[str, float]
    sessions: SessionSummary | None
    length_effect: Statistics
    length_effect_interval: tuple[float, ...] | None
    markup_effect: float | None
    addressed_judge: int
    reward: Statistics
    latency: LatencySummary
    wall_time_s: float
    calls_per_s: float | None
    comparisons_per_s: float | None
    failed_figures: Mapping[str, str] | None = None


def reference_metrics(metrics: RunMetrics) -> dict[str, float]:
    """Return the three metrics of NeMo Gym's compare reply; empty without a verdict.

    Source: NVIDIA NeMo Gym, `genrm_compare`: mean and population standard deviation of all raw
    scores before the tiebreak, and the share of comparisons whose scores tied."""
    scores = metrics.individual_scores
    deviation = scores.deviation()
    if scores.mean is None or deviation is None:
        return {}
    return {
        "mean_individual_score": scores.mean,
        "std_individual_score": deviation,
        "tiebreak_usage_rate": metrics.score_ties / (scores.count // 2),
    }


def summarise(metrics: RunMetrics, wall_time_s: float) -> RunSummary:
    """Return the counts and statistics of a run that took this long.

    A figure that cannot be computed is null, and named with its reason in `failed_figures`.
    """
    failed = dict(metrics.failed_figures)
    figures: dict[str, Any] = {}
    for name, compute in FIGURES.items():
        if name not in failed:
            figures[name] = attempt(failed, [name], partial(compute, metrics))
        if name in failed:
            figures[name] = _NULLS.get(name)
    return RunSummary(
        **{name: _count(getattr(metrics, name)) for name in _SAME_NAMES},
        **figures,
        rejected_lines=metrics.rejects,
        scored=metrics.statuses["scored"],
        single=metrics.statuses["single"],
        unscored=metrics.statuses["unscored"],
        unscored_share=metrics.unscored_share(),
        caused_failures_most=metrics.caused_failures_most.name or None,
        comparisons_planned=metrics.planned,
        failures=metrics.failed,
        failures_by_kind=_count(metrics.failures),
        pairs_in_both_orders=metrics.pairs.both_orders.pairs,
        pairs_of_repeats=metrics.pairs.repeats.pairs,
        rings_needed=None,
        wall_time_s=round(wall_time_s, 3),
        calls_per_s=round(metrics.calls / wall_time_s, 2) if wall_time_s > 0 else None,
        comparisons_per_s=round(metrics.finished / wall_time_s, 2) if wall_time_s > 0 else None,
        failed_figures=failed or None,
    )


def _first_place_interval(metrics: RunMetrics) -> tuple[float, ...] | None:
    rate = metrics.pairs.first_share
    return None if rate is None else wilson_interval(rate, metrics.pairs.decided)


def _reliability_interval(metrics: RunMetrics) -> tuple[float, ...] | None:
    mean = metrics.reliability.mean
    error = metrics.uncertainties.mean
    return None if mean is None or error is None else odds_interval(mean, error)


def _of_verdicts(count: Callable[[VerdictCounts], int]) -> Callable[[RunMetrics], float | None]:
    """Return what computes the share of the verdicts that are counted."""
    return lambda metrics: (
        count(metrics.pairs) / metrics.pairs.verdicts if metrics.pairs.verdicts else None
    )


def _flip_rate(metrics: RunMetrics) -> float | None:
    agreement = metrics.pairs.both_orders.rate()
    return None if agreement is None else 1.0 - agreement


SCORE_FIGURES = ("mean_individual_score", "std_individual_score", "tiebreak_usage_rate")
VERDICT_FIGURES = (
    "first_place_win_rate",
    "first_place_win_rate_interval",
    "flip_rate",
    "contradiction_rate",
    "tie_rate",
    "echoed_ranking_rate",
    "repeat_agreement",
)
COMPONENT_FIGURES = ("components", "reward_sources")
FIGURES: dict[str, Callable[[RunMetrics], Any]] = {
    "mean_individual_score": lambda run: reference_metrics(run).get("mean_individual_score"),
    "std_individual_score": lambda run: reference_metrics(run).get("std_individual_score"),
    "tiebreak_usage_rate": lambda run: reference_metrics(run).get("tiebreak_usage_rate"),
    "first_place_win_rate": lambda run: run.pairs.first_share,
    "first_place_win_rate_interval": _first_place_interval,
    "flip_rate": _flip_rate,
    "contradiction_rate": _of_verdicts(lambda pairs: pairs.contradictions),
    "tie_rate": _of_verdicts(lambda pairs: pairs.ties),
    "echoed_ranking_rate": _of_verdicts(lambda pairs: pairs.echoes),
    "repeat_agreement": lambda run: run.pairs.repeats.rate(),
    "panel": lambda run: None if run.panel is None else run.panel.summary(),
    "reward": lambda run: run.reward.statistics(),
    "reliability": lambda run: run.reliability.statistics(),
    "reliability_interval": _reliability_interval,
    "components": lambda run: run.components.summary() or None,
    "reward_sources": lambda run: _shares(run.shares),
    "sessions": lambda run: run.sessions.summary() if run.sessions.by else None,
    "length_effect": lambda run: run.length_effect.statistics(),
    "length_effect_interval": lambda run: run.length_effect.interval(),
    "markup_effect": lambda run: run.markup_effect.mean,
    "latency": lambda run: run.latencies.summary(),
}
"""The figures that describe a run, each with its computation from what was counted."""
_NO_STATISTICS = Statistics(count=0, mean=None, std=None, min=None, max=None)
_NULLS: Mapping[str, Any] = {
    "reward": _NO_STATISTICS,
    "reliability": _NO_STATISTICS,
    "length_effect": _NO_STATISTICS,
    "reward_sources": {},
    "latency": LatencySummary(mean_s=None, median_s=None, p99_s=None, histogram_s={}),
}
"""What stands for a figure that could not be computed, where it is not null itself."""
_SAME_NAMES = {each.name for each in fields(RunMetrics)} & {
    each.name for each in fields(RunSummary)
}
_SAME_NAMES -= {*FIGURES, "caused_failures_most", "failures", "failed_figures"}


def _count(value: Any) -> Any:
    """Return a count, or counts sorted by what they count."""
    if isinstance(value, GroupedCount):
        return replace(value)  # the metrics may go on counting
    return (
        {str(key): count for key, count in sorted(value.items())}
        if isinstance(value, Mapping)
        else value
    )


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    whole = math.fsum(parts.values())
    return {source: part / whole for source, part in sorted(parts.items())} if whole else {}
