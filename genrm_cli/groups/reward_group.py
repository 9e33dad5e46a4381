"""Compute the reward of each rollout of a group, or the reason why it has none.

Rewards are computed in this order: base scores from the verdicts; the terms of length and style;
components and their total; ranks and advantages. A rollout whose text made requests fail gets its
base score from a second estimate, in which it loses these."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from genrm_cli.errors import GenrmError, StoppedError
from genrm_cli.groups.comparisons import (
    JudgeVerdicts,
    lists_of,
    used_verdicts,
    verdicts_by_judge,
)
from genrm_cli.groups.failures.caused_failures import (
    Causes,
    known_causes,
    scores_of_losers,
    tested_causes,
    with_losses,
    with_lost_lists,
    without_selected,
)
from genrm_cli.groups.failures.failure_test import Trial, trials_of
from genrm_cli.groups.graders import DIVERSITY, GradedGroup
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, RewardPlan
from genrm_cli.groups.results import (
    GroupRewards,
    Reasons,
    RolloutScore,
    Status,
    count_results,
    results_of,
)
from genrm_cli.judging.profiles.answer import MEANINGS
from genrm_cli.metrics.figures import attempt, rounded
from genrm_cli.metrics.running_stats import odds_interval
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.rewards.component import Column, GroupKind, Values
from genrm_cli.rewards.compose import (
    NO_REWARD,
    RolloutReward,
    Total,
    compose_rewards,
    compose_total,
    with_totals,
)
from genrm_cli.rewards.diversity import Clusters, clusters_of
from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import Estimate, estimate_many
from genrm_cli.rewards.estimators.list_estimates import estimate_lists
from genrm_cli.rewards.estimators.list_scores import ListScores
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.rewards.shaping import Adjustments
from genrm_cli.settings.components import GENRM, find_kind, order_of
from genrm_cli.verdicts import (
    MAX_SCORE,
    MIN_SCORE,
    Explanation,
    Failure,
    FailureKind,
    Reason,
)

NOISE_FIGURES = ("standard_errors", "reliability", "reliability_interval")
"""The figures of a run that need the noise of the judge, which rewards do not."""
REWARDS = "rewards"
_MIDDLE_SCORE = (MIN_SCORE + MAX_SCORE) / 2


@dataclass(frozen=True, slots=True)
class JudgedVerdicts:
    """A judged group with its verdicts: all of each judge, and the `used` ones that count.

    Attributes:
        causes: the rollouts that made requests fail, as far as that needs no test.
        trials: the requests that tell who causes failures; none if that is not tested.
        lists: the scores of listwise judges; empty if others judge, too.
    """

    judged: JudgedGroup
    causes: Causes
    trials: Sequence[Trial]
    by_judge: JudgeVerdicts
    used: Verdicts
    lists: Sequence[ListScores] = ()


def statistics_for(plan: GroupPlan) -> CalibrationStatistics:
    """Return the statistics of no group yet, for the judges of a plan."""
    return CalibrationStatistics.of_no_group(is_listwise=plan.is_listwise)


def verdicts_of(judged: JudgedGroup, plan: GroupPlan) -> JudgedVerdicts:
    """Return a judged group with its verdicts."""
    causes: Causes = {}
    trials = trials_of(judged, plan) if plan.tests_failures else []
    if any(outcome.reasks or isinstance(outcome.result, Failure) for _, outcome in judged.results):
        causes = known_causes(judged, plan)
        if plan.tests_failures:
            judged = without_selected(judged, plan)
    by_judge = verdicts_by_judge(judged, plan)
    lists = lists_of(judged, plan) if plan.is_listwise else ()
    return JudgedVerdicts(judged, causes, trials, by_judge, used_verdicts(by_judge, plan), lists)


def reward_verdicts(
    groups: Sequence[JudgedVerdicts], plan: GroupPlan, calibration: Calibration
) -> list[GroupRewards]:
    """Return the rewards of judged groups, faster together than one by one.

    Args:
        groups: results of `judge_group` under the same plan, with their verdicts.
        plan: plan of the run.
        calibration: calibration of the judge on the verdicts of all groups judged so far.
    """
    try:
        made = _reward(groups, plan, calibration)
    except (GenrmError, StoppedError):
        raise
    except Exception:  # noqa: BLE001  (a bug in one group must not cost the others their rewards)
        made = [_reward_alone(group, plan, calibration) for group in groups]
    kind = plan.rewards.settings.advantage
    return [rewards.scaled(kind, calibration.reward_variance) for rewards in made]


def _reward(
    groups: Sequence[JudgedVerdicts], plan: GroupPlan, calibration: Calibration
) -> list[GroupRewards]:
    failed: dict[str, str] = {}
    if calibration.failed is not None:
        failed = dict.fromkeys(NOISE_FIGURES, calibration.failed)
        if plan.rewards.uses_reliability:
            return [_without_rewards(group, plan, calibration.failed) for group in groups]
    groups = [_tested(group, plan, calibration) for group in groups]
    # Losses that no judge declared count for the losers alone, so they need a second estimate.
    losing = [
        _losing(group, plan) if plan.rewards.settings.on_caused_failures == "lose" else None
        for group in groups
    ]
    estimates = _estimate(groups, plan, calibration)
    lost = [each for each in losing if each is not None]
    lost_estimates = iter(_estimate(lost, plan, calibration))
    made = []
    for group, estimate, loser in zip(groups, estimates, losing, strict=True):
        loss = None if loser is None else (loser, next(lost_estimates))
        made.append(_EstimatedGroup(group, plan, estimate, loss, failed).rewards())
    return made


def _reward_alone(group: JudgedVerdicts, plan: GroupPlan, calibration: Calibration) -> GroupRewards:
    """Return the rewards of a group of which something cannot be computed.

    Rewards that do not depend on the reliability are the same without it. Otherwise the rollouts
    have none: a wrong reward is worse than a missing one.
    """
    failed: dict[str, str] = {}
    made = attempt(failed, NOISE_FIGURES, lambda: _reward([group], plan, calibration))
    if made is None:
        alike = calibration.without_noise(failed["reliability"])
        made = attempt(failed, [REWARDS], lambda: _reward([group], plan, alike))
    return made[0] if made else _without_rewards(group, plan, failed["reliability"])


def _without_rewards(group: JudgedVerdicts, plan: GroupPlan, failed: str) -> GroupRewards:
    """Return a group whose rollouts have no rewards because of a bug."""
    why = Explanation(Reason.NOT_COMPUTED, failed)
    counts = count_results(group.judged, group.used, len(plan.judges))
    return GroupRewards(
        key=group.judged.key,
        scores=[
            RolloutScore(index, NO_REWARD, "unscored", not_compared or why, None, *counted)
            for index, (not_compared, counted) in enumerate(
                zip(group.judged.not_compared, counts, strict=True)
            )
        ],
        verdicts=group.used,
        by_judge=group.by_judge,
        reliability=None,
        columns={},
        comparisons=results_of(group.judged, plan, group.causes),
        failed_figures={REWARDS: failed},
    )


def _tested(group: JudgedVerdicts, plan: GroupPlan, calibration: Calibration) -> JudgedVerdicts:
    """Return a group with the rollouts that the test convicts at the rates of the run."""
    if not any(trial.has_failed for trial in group.trials):
        return group
    rates = calibration.failures.rates(len(plan.judges))
    found = tested_causes(group.trials, rates)
    return replace(group, causes={**found, **group.causes})


def _losing(group: JudgedVerdicts, plan: GroupPlan) -> JudgedVerdicts | None:
    """Return a group with the verdicts that it has if rollouts lose the comparisons that failed
    because of them; None if there are no such comparisons.
    """
    if not group.causes:
        return None
    by_judge = with_losses(group.by_judge, group.used.values(), group.causes)
    used = used_verdicts(by_judge, plan)
    lists = with_lost_lists(group.lists, group.causes) if plan.is_listwise else ()
    return replace(group, by_judge=by_judge, used=used, lists=lists)


def _estimate(
    groups: Sequence[JudgedVerdicts], plan: GroupPlan, calibration: Calibration
) -> list[Estimate]:
    """Turn the verdicts of each group into base scores."""
    if plan.is_listwise:
        return [
            estimate_lists(group.judged.size, group.lists, calibration.lists) for group in groups
        ]
    pairs = [(group.judged.size, group.used) for group in groups]
    if not plan.compares_pairs:
        # All verdicts come from grades: a base score is the mean of the rollout's own grades.
        return estimate_many("simple_tiebreaker", pairs, Calibration())
    estimates = estimate_many(plan.rewards.settings.estimator, pairs, calibration)
    if plan.pairing.goal == "rewards":
        return estimates
    # Verdicts decided which pairs follow: the noise that they selected is unknown.
    return [each.without_errors() for each in estimates]


@dataclass(frozen=True, slots=True)
class _EstimatedGroup:
    """A group with its base scores.

    Attributes:
        loss: the group as it is if rollouts lose the requests that they made fail, with its
            estimate; None if they do not.
        failed_figures: what a bug kept from being computed, with the reason.
    """

    group: JudgedVerdicts
    plan: GroupPlan
    estimate: Estimate
    loss: tuple[JudgedVerdicts, Estimate] | None
    failed_figures: Mapping[str, str]

    @property
    def judged(self) -> JudgedGroup:
        return self.group.judged

    @property
    def culprits(self) -> Counter[int]:
        """The number of failed requests that each rollout caused."""
        return Counter(index for culprits in self.group.causes.values() for index in culprits)

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
    def default(self) -> float | None:
        """The user's score for the only rollout of a group; None if that does not apply."""
        judged = self.judged
        is_alone = judged.size == 1 and judged.not_compared[0] is None and judged.key is not None
        return self.plan.rewards.settings.default_score if is_alone else None

    @property
    def is_noisy(self) -> bool:
        """Whether surely too little of the spread of the base scores is signal, for all that is
        known of the judge.
        """
        least = self.plan.rewards.settings.min_reliability
        reliability = self.estimate.reliability
        if least is None or reliability is None:
            return False
        return rounded(odds_interval(reliability, self.estimate.uncertainty or 0.0)[1]) < least

    def rewards(self) -> GroupRewards:
        judged = self.judged
        base_scores = self._base_scores()
        rewards = self._composed_rewards(base_scores)
        graded = self._graded() if judged.answered else []
        clusters = self._clusters(graded)
        columns: dict[str, Column] = {}
        totals: Sequence[Total | None] = [None] * judged.size
        if self.plan.rewards.is_composed:
            columns = self._columns([reward.reward for reward in rewards], graded)
        # Gates of a collected session hold without any component, too.
        if columns or judged.gated:
            weighed = columns or {GENRM: Column([reward.reward for reward in rewards])}
            made = _totals(weighed, clusters, judged, self.plan.rewards)
            rewards = with_totals(rewards, [total.value for total in made])
            totals = made
        if not self.plan.shows_as_gym:  # whose numbers are reproduced to the last digit
            rewards = [reward.rounded() for reward in rewards]
        return GroupRewards(
            key=judged.key,
            scores=self._scores(base_scores, rewards, totals, columns),
            verdicts=self.group.used,
            by_judge=self.group.by_judge,
            reliability=self.estimate.reliability,
            columns=columns,
            clusters=clusters,
            comparisons=results_of(judged, self.plan, self.group.causes),
            uncertainty=self.estimate.uncertainty,
            chance=self.estimate.chance,
            failed_figures=self.failed_figures,
        )

    def _scores(
        self,
        base_scores: Values,
        rewards: Sequence[RolloutReward],
        totals: Sequence[Total | None],
        columns: Mapping[str, Column],
    ) -> list[RolloutScore]:
        judged = self.judged
        counts = count_results(judged, self.group.used, len(self.plan.judges))
        errors = self._with_copies(self.estimate.standard_errors)
        culprits = self.culprits
        reasons = Reasons(
            judged, self.plan, self.group.by_judge, columns, base_scores, noisy=self.is_noisy
        )
        scores = []
        for index, (reward, total) in enumerate(zip(rewards, totals, strict=True)):
            own = judged.copies.get(index, index)
            compared, failed, defaulted = counts[own]
            why = None if reward.reward is not None else reasons.of(index, total)
            scored: Status = "scored" if self.default is None else "single"
            scores.append(
                RolloutScore(
                    index=index,
                    numbers=reward,
                    status="unscored" if why else scored,
                    why_unscored=why,
                    standard_error=None if reward.base_score is None else errors[index],
                    comparisons=compared,
                    failed=failed,
                    defaulted=defaulted,
                    caused_failures=culprits[own],
                    total=total,
                    shortened=judged.shortened.get(own, 0),
                    neutralised=judged.neutralised.get(own, 0),
                    equal_to=judged.copies.get(index),
                )
            )
        return scores

    def _base_scores(self) -> Values:
        """Return the base scores; rollouts that cause failures have those that they get by
        losing.
        """
        scores = [*self.estimate.base_scores]
        if self.loss is not None:
            scores = scores_of_losers(scores, self.loss[1].base_scores, self.culprits)
        if self.is_equal:
            single = self.plan.rewards.settings.default_score
            scores[self.judged.answered[0]] = _MIDDLE_SCORE if single is None else single
        return self._with_copies(scores)

    def _with_copies(self, values: Values) -> Values:
        return Column(values).with_copies(self.judged.copies).values

    def _composed_rewards(self, base_scores: Values) -> list[RolloutReward]:
        judged = self.judged
        if self.default is not None:
            return [RolloutReward(self.default, Adjustments(), self.default, 1, 0.0)]
        scores: Values = [None] * judged.size if self.is_noisy else [*base_scores]
        known = [score for score in scores if score is not None]
        # Without any score in the group there is no lowest one to give.
        if known:
            for index in self._failed_losers(base_scores):
                scores[index] = min(known)
            for index in self.blank_losers:
                scores[index] = min(MIN_SCORE, *known)
        return compose_rewards(scores, judged.shapes, self.plan.rewards.settings)

    def _failed_losers(self, base_scores: Values) -> list[int]:
        """Return the rollouts without a score because requests about them failed, if these lose."""
        if self.plan.rewards.settings.unscored != "lowest":
            return []
        failed = set[int]()
        for request, outcome in self.judged.results:
            was_asked = (
                isinstance(outcome.result, Failure)
                and outcome.result.kind is not FailureKind.NOT_ASKED
            )
            if was_asked and request.judge < len(self.plan.judges):
                failed.update(request.shown)
        return [
            index
            for index, score in enumerate(base_scores)
            if score is None and self.judged.copies.get(index, index) in failed
        ]

    def _graded(self) -> list[GradedGroup]:
        """Return the grades of each grader."""
        judged = self.judged
        causes = self.group.causes if self.loss is not None else {}
        graded = []
        for number, grader in enumerate(self.plan.graders, len(self.plan.judges)):
            here = [culprits for request, culprits in causes.items() if request.judge == number]
            losing = chain.from_iterable(here)
            results = [result for result in judged.results if result[0].judge == number]
            losers = (*self.blank_losers, *losing)
            graded.append(GradedGroup(grader, judged.answered, losers, results))
        return graded

    def _clusters(self, graded: Sequence[GradedGroup]) -> Clusters | None:
        diversity = self.plan.rewards.settings.diversity
        judged = self.judged
        if diversity is None or not judged.is_comparable:
            return None
        found: list[int] | None = judged.clusters
        if diversity.method == "llm":
            found = next((each.clusters() for each in graded if each.grader.kind == DIVERSITY), [])
        if found is not None:
            number_of = dict(zip(judged.answered, found, strict=True))
            copied = [number_of[original] for original in judged.copies.values()]
            found = [*found, *copied, *[-1] * len(judged.blank)]  # blank ones share one cluster
        answered = (*judged.answered, *judged.copies, *judged.blank)
        return clusters_of(
            found, answered, judged.size, uniform_fallback=diversity.fallback == "uniform"
        )

    def _columns(self, verdict_rewards: Values, graded: Sequence[GradedGroup]) -> dict[str, Column]:
        """Return all components of the group, in the plan's order."""
        judged = self.judged
        rewards = self.plan.rewards
        columns = dict(judged.columns)
        if self.plan.judges:
            columns = {GENRM: Column(verdict_rewards)} | columns
        for each in graded:
            found = each.columns(judged.size)
            columns |= {name: column.with_copies(judged.copies) for name, column in found.items()}
        for name in rewards.names:
            columns.setdefault(name, Column([None] * judged.size))
        used = self.group.used
        if self.is_equal:
            used = {Comparison(judged.answered[0], judged.answered[0], 0): MEANINGS["tie"]}
        for component in order_of(rewards.settings.components):
            kind = find_kind(component.kind)
            if isinstance(kind, GroupKind) and judged.is_comparable:
                values = kind.compute(component, judged.size, used, columns)
                if self.loss is not None:
                    lost = kind.compute(component, judged.size, self.loss[0].used, columns)
                    for index in self.culprits:
                        values[index] = lost[index]
                columns[component.name] = Column(values).with_copies(judged.copies)
        return {name: columns[name] for name in rewards.names}


def _totals(
    columns: Mapping[str, Column],
    clusters: Clusters | None,
    judged: JudgedGroup,
    rewards: RewardPlan,
) -> list[Total]:
    """Combine the components of each rollout.

    An optional component that a rollout lacks is dropped for the whole group: otherwise it would
    favour the others. Rewards from verdicts, of which one is negative, are raised until the lowest
    is the least score of a judge: else a gated rollout, with 0, would not be the worst, and
    dividing among near-duplicates would reward copying; ranks and advantages stay the same."""
    table = rewards.total
    values = {name: column.values for name, column in columns.items()}
    known = [value for value in values.get(GENRM, ()) if value is not None]
    has_zero = rewards.settings.total is not None or clusters is not None or bool(judged.gated)
    if has_zero and known and min(known) < 0:
        lift = MIN_SCORE - min(known)
        values[GENRM] = [None if value is None else value + lift for value in values[GENRM]]
    excluded = set(judged.excluded)
    rows = [
        index
        for index in range(judged.size)
        if judged.has_response[index] and index not in excluded
    ]
    weights = tuple(
        (name, weight)
        for name, weight in table.weights
        if name not in table.optional or all(values[name][index] is not None for index in rows)
    )
    table = replace(table, weights=weights)
    return [
        compose_total(
            {name: of_all[index] for name, of_all in values.items()},
            table,
            None if clusters is None else dict.fromkeys(rewards.divided, clusters.sizes[index]),
            judged.gated.get(index, ()),
        )
        for index in range(judged.size)
    ]
