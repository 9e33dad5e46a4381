"""Compute the reward of each rollout of a group, or the reason why it has none."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from genrm_cli.groups.plan import GENRM, GroupPlan, RewardPlan
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
from genrm_cli.settings.components import find_kind, order_of
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


def reward_groups(
    groups: Sequence[JudgedGroup], plan: GroupPlan, calibration: Calibration
) -> list[GroupRewards]:
    """Return the rewards of judged groups, faster together than one by one.

    Args:
        groups: results of `judge_group` under the same plan.
        plan: plan of the run.
        calibration: calibration of the judge on the verdicts of all groups judged so far.
    """
    return reward_verdicts([verdicts_of(judged, plan) for judged in groups], plan, calibration)


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
    has_failures = any(
        outcome.reasks or isinstance(outcome.result, Failure) for _, outcome in judged.results
    )
    if has_failures:
        causes = known_causes(judged, plan)
    if has_failures and plan.tests_failures:
        judged = without_selected(judged, plan)
    by_judge = verdicts_by_judge(judged, plan)
    lists = lists_of(judged, plan) if plan.is_listwise else ()
    used = used_verdicts(by_judge, plan)
    return JudgedVerdicts(judged, causes, trials, by_judge, used, lists)


def reward_verdicts(
    groups: Sequence[JudgedVerdicts], plan: GroupPlan, calibration: Calibration
) -> list[GroupRewards]:
    """Return the rewards of several groups with known verdicts; otherwise like `reward_groups`."""
    try:
        made = _reward(groups, plan, calibration)
    except (GenrmError, StoppedError):
        raise
    except Exception:  # noqa: BLE001  (a bug in one group must not cost the others their rewards)
        made = [_reward_alone(group, plan, calibration) for group in groups]
    return [rewards.scaled(plan.rewards.advantage, calibration.reward_variance) for rewards in made]


def _reward(
    groups: Sequence[JudgedVerdicts], plan: GroupPlan, calibration: Calibration
) -> list[GroupRewards]:
    failed: dict[str, str] = {}
    if calibration.failed is not None:
        failed = dict.fromkeys(NOISE_FIGURES, calibration.failed)
        if plan.rewards.uses_reliability:
            return [_without_rewards(group, plan, calibration.failed) for group in groups]
    groups = [_tested(group, plan, calibration) for group in groups]
    loses = plan.rewards.on_caused_failures == "lose"
    losing = [_losing(group, plan) for group in groups if group.causes and loses]
    estimates = _estimate([*groups, *losing], plan, calibration)
    lost = iter(zip(losing, estimates[len(groups) :], strict=True))
    return [
        _GroupWork(
            group, plan, estimate, next(lost) if group.causes and loses else None, failed
        ).rewards()
        for group, estimate in zip(groups, estimates, strict=False)
    ]


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
    judged = group.judged
    why = Explanation(Reason.NOT_COMPUTED, failed)
    scores = [
        RolloutScore(
            index=index,
            numbers=NO_REWARD,
            status="unscored",
            why_unscored=judged.not_compared[index] or why,
            standard_error=None,
            comparisons=compared,
            failed=lost,
            defaulted=defaulted,
        )
        for index, (compared, lost, defaulted) in enumerate(
            count_results(judged, group.used, len(plan.judges))
        )
    ]
    return GroupRewards(
        key=judged.key,
        scores=scores,
        verdicts=group.used,
        by_judge=group.by_judge,
        reliability=None,
        columns={},
        comparisons=results_of(judged, plan, group.causes),
        failed_figures={REWARDS: failed},
    )


def _tested(group: JudgedVerdicts, plan: GroupPlan, calibration: Calibration) -> JudgedVerdicts:
    """Return a group with the rollouts that the test convicts at the rates of the run."""
    if not any(trial.has_failed for trial in group.trials):
        return group
    pairwise = sum(judge.grading is None for judge in plan.judges)
    found = tested_causes(group.trials, calibration.failures.rates(pairwise))
    return replace(group, causes={**found, **group.causes})


def _losing(group: JudgedVerdicts, plan: GroupPlan) -> JudgedVerdicts:
    """Return a group with the verdicts that it has if rollouts lose the comparisons that failed
    because of them.
    """
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
    # If all verdicts come from grades, a base score is the mean of the rollout's own grades.
    estimator = plan.rewards.estimator if plan.compares_pairs else "simple_tiebreaker"
    known = calibration if plan.compares_pairs else Calibration()
    estimates = estimate_many(
        estimator, [(group.judged.size, group.used) for group in groups], known
    )
    return (
        [each.without_errors() for each in estimates]
        if plan.pairing.goal != "rewards"
        else estimates
    )


@dataclass(slots=True)
class _GroupWork:
    """The state of one group while its rewards are computed.

    Attributes:
        lost: the group as it is if rollouts lose the requests that they made fail, with its
            estimate; None if they do not.
        failed_figures: what a bug kept from being computed, with the reason.
    """

    group: JudgedVerdicts
    plan: GroupPlan
    estimate: Estimate
    lost: tuple[JudgedVerdicts, Estimate] | None
    failed_figures: Mapping[str, str]

    @property
    def judged(self) -> JudgedGroup:
        return self.group.judged

    @property
    def culprits(self) -> Counter[int]:
        """The number of failed requests that each rollout caused."""
        return Counter(index for culprits in self.group.causes.values() for index in culprits)

    def rewards(self) -> GroupRewards:
        judged = self.judged
        rewards = self._composed_rewards()
        columns: dict[str, Column] = {}
        clusters = self._clusters()
        totals: list[Total] | None = None
        lifts: Mapping[str, float] = {}
        if self.plan.rewards.is_composed:
            columns = self._columns([reward.reward for reward in rewards])
        if columns or judged.gated:
            weighed = columns or {GENRM: Column([reward.reward for reward in rewards])}
            lifts = _lifts(weighed, clusters, judged, self.plan.rewards)
            totals = _totals(weighed, clusters, judged, self.plan.rewards, lifts)
            rewards = with_totals(rewards, [total.value for total in totals])
        if not self.plan.shows_as_gym:  # whose numbers are reproduced to the last digit
            rewards = [reward.rounded() for reward in rewards]
        caused_failures = self.culprits
        counts = count_results(judged, self.group.used, len(self.plan.judges))
        reasons = Reasons(
            judged,
            self.plan,
            self.group.by_judge,
            columns,
            self._base_scores(),
            caused_failures,
            noisy=self._is_noisy(),
        )
        errors = self._with_copies(self.estimate.standard_errors)
        scores = []
        for index, reward in enumerate(rewards):
            total = None if totals is None else totals[index]
            why = None if reward.reward is not None else reasons.of(index, total)
            status: Status = "unscored" if why else "single" if self._has_default() else "scored"
            error = None if reward.base_score is None else errors[index]
            own = judged.copies.get(index, index)
            compared, failed, defaulted = counts[own]
            scores.append(
                RolloutScore(
                    index=index,
                    numbers=reward,
                    status=status,
                    why_unscored=why,
                    standard_error=error,
                    comparisons=compared,
                    failed=failed,
                    defaulted=defaulted,
                    caused_failures=caused_failures[own],
                    total=total,
                    shortened=judged.shortened.get(own, 0),
                    neutralised=judged.neutralised.get(own, 0),
                    equal_to=judged.copies.get(index),
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
            comparisons=results_of(judged, self.plan, self.group.causes),
            uncertainty=self.estimate.uncertainty,
            chance=self.estimate.chance,
            raised=tuple(lifts),
            failed_figures=self.failed_figures,
        )

    def _composed_rewards(self) -> list[RolloutReward]:
        judged = self.judged
        terms = self.plan.rewards
        if self._has_default():
            return [RolloutReward(terms.single_score, Adjustments(), terms.single_score, 1, 0.0)]
        base_scores = [None if self._is_noisy() else score for score in self._base_scores()]
        known = [score for score in base_scores if score is not None]
        if known:
            for index in self._failed_losers():
                base_scores[index] = min(known)
            for index in self._blank_losers():
                base_scores[index] = min(MIN_SCORE, *known)
        return compose_rewards(base_scores, judged.shapes, terms.shaping)

    def _base_scores(self) -> Values:
        """Return the base scores; rollouts that cause failures have those that they get by losing,
        or none.
        """
        scores = [*self.estimate.base_scores]
        if self.lost is not None:
            scores = scores_of_losers(scores, self.lost[1].base_scores, self.culprits)
        elif self.plan.rewards.on_caused_failures == "unscored":
            scores = [
                None if index in self.culprits else score for index, score in enumerate(scores)
            ]
        single = self.plan.rewards.single_score
        if self._is_equal:
            scores[self.judged.answered[0]] = _MIDDLE_SCORE if single is None else single
        return self._with_copies(scores)

    @property
    def _is_equal(self) -> bool:
        """Whether there is nothing to compare: its responses are equal, except for blank ones that
        lose.
        """
        is_one = len(self.judged.answered) == 1 and bool(self.plan.judges)
        return is_one and bool(self.judged.copies or self._blank_losers())

    def _failed_losers(self) -> list[int]:
        """Return the rollouts without a score because requests about them failed, if these lose."""
        if not self.plan.rewards.failed_lose:
            return []
        unscored = self.culprits if self.plan.rewards.on_caused_failures == "unscored" else ()
        failed = {
            index
            for id_, outcome in self.judged.results
            if isinstance(outcome.result, Failure)
            and outcome.result.kind is not FailureKind.NOT_ASKED
            for index in id_.shown
            if id_.judge < len(self.plan.judges) and index not in unscored
        }
        owners = [self.judged.copies.get(index, index) for index in range(self.judged.size)]
        return [
            index
            for index, score in enumerate(self._base_scores())
            if score is None and owners[index] in failed
        ]

    def _with_copies(self, values: Values) -> Values:
        return (
            Column(values).with_copies(self.judged.copies).values if self.judged.copies else values
        )

    def _blank_losers(self) -> tuple[int, ...]:
        return self.judged.blank if self.plan.blank_loses else ()

    def _has_default(self) -> bool:
        """Whether the only rollout of the group gets the user's default score."""
        judged = self.judged
        is_alone = judged.size == 1 and judged.not_compared[0] is None and judged.key is not None
        return is_alone and self.plan.rewards.single_score is not None

    def _is_noisy(self) -> bool:
        """Whether surely too little of the spread of the base scores is signal, for all that is
        known of the judge.
        """
        least = self.plan.rewards.min_reliability
        reliability = self.estimate.reliability
        if least is None or reliability is None:
            return False
        return rounded(odds_interval(reliability, self.estimate.uncertainty or 0.0)[1]) < least

    def _clusters(self) -> Clusters | None:
        diversity = self.plan.rewards.diversity
        judged = self.judged
        if diversity is None or not judged.is_comparable:
            return None
        if diversity.method == "ngram":
            found = judged.clusters
        else:
            graded = self._graded() if judged.answered else ()
            found = next((each.clusters() for each in graded if each.grader.kind == DIVERSITY), [])
        if found is not None:
            number_of = dict(zip(judged.answered, found, strict=True))
            copied = [number_of[original] for original in judged.copies.values()]
            found = [
                *found,
                *copied,
                *[-1] * len(judged.blank),
            ]  # blank responses share one cluster
        answered = (*judged.answered, *judged.copies, *judged.blank)
        return clusters_of(
            found, answered, judged.size, uniform_fallback=diversity.fallback == "uniform"
        )

    def _graded(self) -> list[GradedGroup]:
        judged = self.judged
        first = len(self.plan.judges)
        failed = self.group.causes if self.lost is not None else {}
        results = [result for result in judged.results if result[0].judge >= first]
        return [
            GradedGroup(
                grader,
                judged.answered,
                (
                    *self._blank_losers(),
                    *(
                        index
                        for id_, culprits in failed.items()
                        if id_.judge == number
                        for index in culprits
                    ),
                ),
                [r for r in results if r[0].judge == number],
            )
            for number, grader in enumerate(self.plan.graders, first)
        ]

    def _columns(self, verdict_rewards: Values) -> dict[str, Column]:
        """Return all components of the group, in the plan's order."""
        judged = self.judged
        rewards = self.plan.rewards
        used = self.group.used
        if self._is_equal:
            used = {Comparison(judged.answered[0], judged.answered[0], 0): MEANINGS["tie"]}
        columns = dict(judged.columns)
        if self.plan.judges:
            columns = {GENRM: Column(verdict_rewards)} | columns
        for graded in self._graded() if judged.answered else ():
            found = graded.columns(judged.size)
            columns |= {name: column.with_copies(judged.copies) for name, column in found.items()}
        for name in rewards.names:
            columns.setdefault(name, Column([None] * judged.size))
        for component in order_of(rewards.components):
            kind = find_kind(component.kind)
            if isinstance(kind, GroupKind) and judged.is_comparable:
                values = kind.compute(component, judged.size, used, columns)
                if self.group.causes and rewards.on_caused_failures != "keep":
                    lost = {} if self.lost is None else self.lost[0].used
                    instead = kind.compute(component, judged.size, lost, columns)
                    for index in self.culprits:
                        values[index] = instead[index]
                columns[component.name] = Column(values).with_copies(judged.copies)
        return {name: columns[name] for name in rewards.names}


def _lifts(
    columns: Mapping[str, Column],
    clusters: Clusters | None,
    judged: JudgedGroup,
    rewards: RewardPlan,
) -> dict[str, float]:
    """Return by how much each weighted component with a negative value is raised, so that its
    lowest is 1.

    Otherwise a gated rollout, with 0, would not be the worst, and dividing among near-duplicates
    would reward copying. A constant for the whole group leaves its ranks and advantages as they
    are. 1 is the least score of a judge."""
    if not (rewards.has_total or clusters is not None or judged.gated):
        return {}
    values = {
        name: [value for value in columns[name].values if value is not None]
        for name in rewards.total.weights
    }
    return {
        name: MIN_SCORE - min(known) for name, known in values.items() if known and min(known) < 0
    }


def _totals(
    columns: Mapping[str, Column],
    clusters: Clusters | None,
    judged: JudgedGroup,
    rewards: RewardPlan,
    lifts: Mapping[str, float],
) -> list[Total]:
    """Combine the components of each rollout.

    An optional component that a rollout lacks is dropped for the whole group: otherwise it would
    favour the others."""
    excluded = set(judged.excluded)
    rows = [
        index
        for index in range(judged.size)
        if judged.has_response[index] and index not in excluded
    ]
    omitted = {
        name
        for name in rewards.optional
        if any(columns[name].values[index] is None for index in rows)
    }
    weights = {
        name: weight for name, weight in rewards.total.weights.items() if name not in omitted
    }
    terms = replace(rewards.total, weights=weights)
    return [
        compose_total(
            {
                name: None
                if (value := column.values[index]) is None
                else value + lifts.get(name, 0.0)
                for name, column in columns.items()
            },
            terms,
            None if clusters is None else dict.fromkeys(rewards.divided, clusters.sizes[index]),
            judged.gated.get(index, ()),
        )
        for index in range(judged.size)
    ]
