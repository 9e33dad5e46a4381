"""Compute the reward of each rollout of a group, or the reason why it has none.

Rewards are computed in this order: base scores from the verdicts; the terms of length and style;
components and their total; ranks and advantages. A rollout with too few verdicts has no base score,
though its verdicts count for its opponents."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from genrm_cli.groups.comparisons import JudgedVerdicts
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.group_components import GroupComponents
from genrm_cli.groups.line_records import FORMAT, DiversityRecord, ScoredLine, Status
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards, comparisons_of, why_unscored
from genrm_cli.metrics.figures import attempt, rounded
from genrm_cli.rewards.component import Column, Values
from genrm_cli.rewards.compose import (
    NO_REWARD,
    RolloutReward,
    Total,
    compose_rewards,
    with_totals,
)
from genrm_cli.rewards.diversity import Clusters
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import Estimate, estimate_many
from genrm_cli.rewards.estimators.list_estimates import estimate_lists
from genrm_cli.settings.components import GENRM
from genrm_cli.verdicts import (
    MAX_SCORE,
    MIN_SCORE,
    Explanation,
    Failure,
    Reason,
)

# The figures of a run that need the noise of the judge, which rewards do not.
_NOISE_FIGURES = ("standard_errors", "reliability", "reliability_interval")
_REWARDS = "rewards"
_MIDDLE_SCORE = (MIN_SCORE + MAX_SCORE) / 2


def reward_verdicts(
    groups: Sequence[JudgedVerdicts],
    plan: GroupPlan,
    calibration: Calibration,
    *,
    has_halves: bool = True,
) -> list[GroupRewards]:
    """Return the rewards of judged groups, faster together than one by one.

    Args:
        groups: results of `judge_group` under the same plan, with their verdicts.
        plan: plan of the run.
        calibration: calibration of the judge on the verdicts of all groups judged so far.
        has_halves: whether halves of the verdicts are compared, for the metrics of a run.
    """
    made = attempt({}, [_REWARDS], lambda: _reward(groups, plan, calibration, has_halves))
    if made is None:  # a bug in one group must not cost the others their rewards
        made = [_reward_alone(group, plan, calibration) for group in groups]
    kind = plan.rewards.settings.advantage
    return [rewards.scaled(kind, calibration.reward_variance) for rewards in made]


def _reward(
    groups: Sequence[JudgedVerdicts],
    plan: GroupPlan,
    calibration: Calibration,
    has_halves: bool = False,
) -> list[GroupRewards]:
    failed: dict[str, str] = {}
    if calibration.failed is not None:
        failed = dict.fromkeys(_NOISE_FIGURES, calibration.failed)
        if plan.rewards.uses_reliability:
            return [_without_rewards(group, plan, calibration.failed) for group in groups]
    estimates = _estimate(groups, plan, calibration, has_halves=has_halves)
    return [
        _EstimatedGroup(group, plan, estimate, failed).rewards()
        for group, estimate in zip(groups, estimates, strict=True)
    ]


def _reward_alone(group: JudgedVerdicts, plan: GroupPlan, calibration: Calibration) -> GroupRewards:
    """Return the rewards of a group of which something cannot be computed.

    Rewards that do not depend on the reliability are the same without it. Otherwise the rollouts
    have none: a wrong reward is worse than a missing one.
    """
    failed: dict[str, str] = {}
    made = attempt(failed, _NOISE_FIGURES, lambda: _reward([group], plan, calibration))
    if made is None:
        alike = calibration.without_noise(failed["reliability"])
        made = attempt(failed, [_REWARDS], lambda: _reward([group], plan, alike))
    return made[0] if made else _without_rewards(group, plan, failed["reliability"])


def _without_rewards(group: JudgedVerdicts, plan: GroupPlan, failed: str) -> GroupRewards:
    """Return a group's rewards after a computation failed."""
    size = group.judged.size
    unknown: Values = [None] * size
    estimated = _EstimatedGroup(group, plan, Estimate(unknown, unknown), {_REWARDS: failed})
    return estimated.result([NO_REWARD] * size, [None] * size, {}, None)


def _estimate(
    groups: Sequence[JudgedVerdicts],
    plan: GroupPlan,
    calibration: Calibration,
    *,
    has_halves: bool,
) -> list[Estimate]:
    """Turn the verdicts of each group into base scores."""
    if plan.is_listwise:
        return [estimate_lists(group.judged.size, group.lists, calibration) for group in groups]
    pairs = [(group.judged.size, group.used) for group in groups]
    if not plan.compares_pairs:
        # All verdicts come from grades: a base score is the mean of the rollout's own grades.
        return estimate_many("simple_tiebreaker", pairs, Calibration())
    estimator = plan.rewards.settings.estimator
    estimates = estimate_many(estimator, pairs, calibration, has_halves=has_halves)
    if plan.pairing.goal == "rewards":
        return estimates
    return [each.without_errors() for each in estimates]


class _EstimatedGroup(Struct, frozen=True):
    """A group with its base scores.

    Attributes:
        failed_figures: what a bug kept from being computed, with the reason.
    """

    group: JudgedVerdicts
    plan: GroupPlan
    estimate: Estimate
    failed_figures: Mapping[str, str]

    @property
    def judged(self) -> JudgedGroup:
        return self.group.judged

    @property
    def blank_losers(self) -> tuple[int, ...]:
        return self.judged.blank if self.plan.blank_loses else ()

    @property
    def is_equal(self) -> bool:
        """Whether there is nothing to compare: its responses are equal, except for blank ones that
        lose.
        """
        is_one = len(self.judged.answered) == 1 and bool(self.plan.judges)
        return is_one and bool(self.judged.copies or self.blank_losers)

    @property
    def has_default(self) -> bool:
        """Whether it is the only rollout of its group, with the score that the user asked for."""
        judged = self.judged
        is_alone = judged.size == 1 and judged.not_compared[0] is None and judged.key is not None
        return is_alone and self.plan.rewards.settings.default_score is not None

    @property
    def is_noisy(self) -> bool:
        """Whether surely too little of the spread of the base scores is signal, for all that is
        known of the judge.
        """
        least = self.plan.rewards.settings.min_reliability
        reliability = self.estimate.reliability
        if least is None or reliability is None:
            return False
        expected = self.estimate.expected
        most = reliability if expected is None else expected.interval_of(reliability)[1]
        return rounded(most) < least

    def rewards(self) -> GroupRewards:
        judged = self.judged
        base_scores = self._base_scores()
        composed = self._with_lowest(base_scores)
        rewards = compose_rewards(composed, judged.shapes, self.plan.rewards.settings.shaping)
        parts = GroupComponents(self.group, self.plan, self.blank_losers, self.is_equal)
        clusters = parts.clusters()
        columns: dict[str, Column] = {}
        totals: Sequence[Total | None] = [None] * judged.size
        if self.plan.rewards.is_composed:
            columns = parts.columns([reward.reward for reward in rewards])
        # Gates of a collected session hold without any component, too.
        if columns or judged.gated:
            weighed = columns or {GENRM: Column([reward.reward for reward in rewards])}
            made = parts.totals(weighed, clusters)
            rewards = with_totals(rewards, [total.value for total in made])
            totals = made
        if not self.plan.shows_as_gym:  # whose numbers are reproduced to the last digit
            rewards = [reward.rounded() for reward in rewards]
        return self.result(rewards, totals, columns, clusters)

    def result(
        self,
        rewards: Sequence[RolloutReward],
        totals: Sequence[Total | None],
        columns: Mapping[str, Column],
        clusters: Clusters | None,
    ) -> GroupRewards:
        """Return all that is known about the group and each of its rollouts."""
        judged = self.judged
        errors = self._with_copies(self.estimate.standard_errors)
        compared = Counter[int]()
        defaulted = Counter[int]()
        for (i, j, _), verdict in self.group.used.items():
            (defaulted if verdict.defaulted else compared).update((i, j))
        failed = Counter[int]()
        for request, outcome in judged.results:
            if request.judge < len(self.plan.judges) and isinstance(outcome.result, Failure):
                failed.update(request.shown)
        scored: Status = "single" if self.has_default else "scored"
        judge = self.plan.judge_name
        is_baseline = self.plan.is_baseline
        failures = {name: each.failure for name, each in columns.items() if each.failure} or None
        scores = []
        details: dict[Reason, str] = {}
        for index, (reward, total) in enumerate(zip(rewards, totals, strict=True)):
            # A copy counts what was asked about its original.
            own = judged.copies.get(index, index)
            why = self._why_unscored(index, total, columns) if reward.reward is None else None
            if why is not None and why.detail:
                details.setdefault(why.reason, why.detail)
            notes = {name: column.note(index) for name, column in columns.items()}
            # Most rollouts have nothing of what is None here, and their lines stay short.
            scores.append(
                ScoredLine(
                    format=FORMAT,
                    reliability=self.estimate.reliability,
                    adjustments=reward.adjustments,
                    group=judged.key,
                    group_size=judged.size,
                    index=index,
                    defaulted=defaulted[own],
                    judge=judge,
                    is_baseline=is_baseline,
                    component_notes={name: note for name, note in notes.items() if note}
                    if columns
                    else None,
                    component_failures=failures,
                    total=total,
                    diversity=None if clusters is None else _diversity_of(index, clusters),
                    neutralised=judged.neutralised.get(own) or None,
                    equal_to=judged.copies.get(index),
                    reward=reward.reward,
                    status="unscored" if why else scored,
                    reason=None if why is None else why.reason,
                    reason_text=None if why is None else why.text,
                    base_score=reward.base_score,
                    standard_error=None if reward.base_score is None else errors[index],
                    rank=reward.rank,
                    advantage=reward.advantage,
                    comparisons=compared[own],
                    failed=failed[own],
                    components={name: column.values[index] for name, column in columns.items()}
                    or None,
                    shortened=judged.shortened.get(own) or None,
                )
            )
        return GroupRewards(
            key=judged.key,
            scores=scores,
            verdicts=self.group.used,
            by_judge=self.group.by_judge,
            reliability=self.estimate.reliability,
            columns=columns,
            clusters=clusters,
            comparisons=comparisons_of(judged, self.plan),
            recalled=sum(outcome.from_journal for _, outcome in judged.results),
            calls=sum(
                outcome.attempts for _, outcome in judged.results if not outcome.from_journal
            ),
            expected=self.estimate.expected,
            chance=self.estimate.chance,
            halves=self.estimate.halves,
            unscored_details=details,
            failed_figures=self.failed_figures,
        )

    def _why_unscored(
        self, index: int, total: Total | None, columns: Mapping[str, Column]
    ) -> Explanation:
        failed = self.failed_figures.get(_REWARDS)
        if failed is not None:
            why = Explanation(Reason.NOT_COMPUTED, failed)
            return self.judged.not_compared[index] or why
        own = self.judged.copies.get(index, index)
        is_noisy = self.is_noisy and self.estimate.base_scores[own] is not None
        return why_unscored(index, self.group, self.plan.rewards, total, columns, is_noisy=is_noisy)

    def _base_scores(self) -> Values:
        """Return the base scores, none of rollouts with too few verdicts."""
        scores = [*self.estimate.base_scores]
        for index in self.group.incomplete:
            scores[index] = None
        if self.is_equal or self.has_default:
            single = self.plan.rewards.settings.default_score
            scores[self.judged.answered[0]] = _MIDDLE_SCORE if single is None else single
        return self._with_copies(scores)

    def _with_copies(self, values: Values) -> Values:
        return Column(values).with_copies(self.judged.copies).values

    def _with_lowest(self, base_scores: Values) -> Values:
        """Return the scores that become rewards: the lowest of the group for rollouts that lose
        without verdicts, none if the group is too noisy.
        """
        known = [score for score in base_scores if score is not None]
        # Without any score in the group there is no lowest one to give.
        if self.is_noisy or not known:
            return [None] * self.judged.size
        scores = [*base_scores]
        if self.plan.rewards.settings.unscored == "lowest":
            silent = self.group.silent
            for index in range(self.judged.size):
                if self.judged.copies.get(index, index) in silent:
                    scores[index] = min(known)
        for index in self.blank_losers:
            scores[index] = min(MIN_SCORE, *known)
        return scores


def _diversity_of(index: int, clusters: Clusters) -> DiversityRecord:
    return DiversityRecord(
        cluster=clusters.numbers[index], size=clusters.sizes[index], failed=clusters.failed
    )
