"""Count a finished group: its verdicts, judges, components and rewards."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.judging.requests import RequestId
from genrm_cli.metrics.component_metrics import ComponentMetrics
from genrm_cli.metrics.group_measures import GroupMeasures, count_verdicts
from genrm_cli.metrics.panel_metrics import PanelMetrics
from genrm_cli.metrics.run_metrics import (
    COMPONENT_FIGURES,
    SCORE_FIGURES,
    VERDICT_FIGURES,
    RunMetrics,
)
from genrm_cli.metrics.verdict_counts import FailingText, VerdictCounts
from genrm_cli.settings.components import Source
from genrm_cli.verdicts import Failure, Reason


def count_whole_group(
    metrics: RunMetrics, judged: JudgedGroup, rewards: GroupRewards, plan: GroupPlan
) -> None:
    """Add a finished group that was in no file, with its rollouts and requests."""
    metrics.add_group_without_file(judged.size, len(judged.results))
    metrics.groups_done += 1
    metrics.lines += judged.size
    for _, outcome in judged.results:
        metrics.add_outcome(outcome)
    count_group(metrics, judged, rewards, plan)


def count_group(
    metrics: RunMetrics, judged: JudgedGroup, rewards: GroupRewards, plan: GroupPlan
) -> None:
    """Add a finished group to the metrics of a run."""
    metrics.failed_figures |= rewards.failed_figures
    # A figure that a bug keeps from being counted is null; the run goes on.
    metrics.attempt(SCORE_FIGURES, lambda: _count_scores(metrics, rewards))
    known = {score.index: score.reward for score in rewards.scores if score.reward is not None}
    verdicts = metrics.attempt(
        VERDICT_FIGURES,
        lambda: count_verdicts([rewards.verdicts], in_order=plan.compares_pairs),
    )
    shapes = [judged.shapes[index] for index in known]
    measures = GroupMeasures(
        [*known.values()],
        [shape.answer_chars for shape in shapes],
        rewards.reliability,
        rewards.expected,
        verdicts or VerdictCounts(),
    )
    metrics.add_measures(measures)
    if rewards.halves is not None:
        metrics.half_plans.add(rewards.halves)
    failed = sum(isinstance(outcome.result, Failure) for _, outcome in judged.results)
    metrics.failed_requests.add(failed, len(judged.results))
    if failed:
        _count_failing(metrics, judged)
    metrics.redactions.update(judged.redactions)
    if rewards.verdicts:
        metrics.views[judged.view] += 1
    if plan.is_panel:
        names = tuple(judge.name for judge in plan.judges)
        in_pairs = plan.compares_pairs
        metrics.attempt(["panel"], lambda: _count_panel(metrics, judged, rewards, names, in_pairs))
    if plan.rewards.is_composed:
        metrics.attempt(
            COMPONENT_FIGURES, lambda: _count_components(metrics, rewards, plan.rewards.sources)
        )
    if rewards.clusters is not None and rewards.clusters.failed:
        metrics.component_failures["diversity"] += 1
    # Replacements of failed comparisons are in no plan.
    planned = plan.count_requests(len(judged.answered))
    metrics.extra_comparisons += max(0, len(judged.results) - planned)
    _count_rewards(metrics, judged, rewards)


def _count_scores(metrics: RunMetrics, rewards: GroupRewards) -> None:
    for verdict in rewards.verdicts.values():
        metrics.add_scores(verdict)


def _count_failing(metrics: RunMetrics, judged: JudgedGroup) -> None:
    shown = Counter[int]()
    causes: dict[int, Counter[str]] = defaultdict(Counter)
    for id_, outcome in judged.results:
        shown.update(id_.shown)
        if isinstance(outcome.result, Failure):
            for index in id_.shown:
                causes[index][outcome.result.cause] += 1
    for index, own in causes.items():
        cause = own.most_common(1)[0][0]
        text = FailingText(own.total(), shown[index], cause)
        metrics.add_failing(f"{judged.key} [{index}]", text)


def _count_rewards(metrics: RunMetrics, judged: JudgedGroup, rewards: GroupRewards) -> None:
    metrics.groups_of_unknown_reliability += bool(rewards.verdicts) and rewards.reliability is None
    for reason, detail in rewards.unscored_details.items():
        metrics.unscored_examples.setdefault(reason.value, detail)
    scores = rewards.scores
    for score in scores:
        total = score.total
        metrics.gated += total is not None and total.value is not None and bool(total.gated_by)
        metrics.statuses[score.status] += 1
        metrics.rewards_on_defaults += score.defaulted > 0
        metrics.shortened_rollouts += score.shortened is not None
        metrics.neutralised += score.neutralised is not None
        metrics.copies += score.equal_to is not None
        if score.status == "scored" and score.reward is not None:
            metrics.reward.add(score.reward)
        if score.reason is not None:
            metrics.unscored_reasons[score.reason] += 1
            # Another line stands for a superseded one.
            counts = score.reason not in (Reason.NOT_IN_TRIAL, Reason.SUPERSEDED)
            metrics.unscored_in_groups += counts and (len(scores) > 1 or judged.key is None)


def _count_components(
    metrics: RunMetrics, rewards: GroupRewards, sources: Mapping[str, Source]
) -> None:
    for name, column in rewards.columns.items():
        metrics.components.setdefault(name, ComponentMetrics()).add_group(column.values)
        if column.failure is not None:
            metrics.component_failures[name] += 1
    for score in rewards.scores:
        total = score.total
        # A gated reward has no source.
        if total is not None and total.value is not None and not total.gated_by:
            for name, term in total.terms.items():
                metrics.shares[sources[name]] += abs(term)


def _count_panel(
    metrics: RunMetrics,
    judged: JudgedGroup,
    rewards: GroupRewards,
    names: tuple[str, ...],
    in_pairs: bool,
) -> None:
    if metrics.panel is None:
        metrics.panel = PanelMetrics(names, in_pairs)
    requests = {id_ for id_, _ in judged.results}
    for comparison, verdicts in rewards.by_judge.items():
        i, j, repeat = comparison
        asked = [
            not in_pairs or RequestId(number, repeat, (i, j)) in requests
            for number in range(len(names))
        ]
        metrics.panel.add_comparison(verdicts, asked)
    metrics.panel.add_leads(rewards.by_judge)
