"""The result of a group: its rewards, their basis, and the reasons for missing ones."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.groups.comparisons import JudgedVerdicts, JudgeVerdicts, verdict_of
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.line_records import FORMAT, ComparisonRecord, ScoredLine, outcome_fields
from genrm_cli.groups.plan import GroupPlan, RewardPlan
from genrm_cli.metrics.half_plans import HalfSums
from genrm_cli.metrics.running_stats import ExpectedSignal, sample_variance
from genrm_cli.rewards.component import Column
from genrm_cli.rewards.compose import Total, weight_of
from genrm_cli.rewards.diversity import Clusters
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.verdicts import Explanation, Grades, Reason


def comparisons_of(judged: JudgedGroup, plan: GroupPlan) -> list[ComparisonRecord]:
    """Return the requests about a group and their results, judges before graders."""
    records = []
    for request, outcome in judged.results:
        judge = plan.asked[request.judge]
        shown = request.shown
        is_pair = judge.component is None and len(shown) == 2
        fields = outcome_fields(outcome, verdict_of(outcome, plan.default) if is_pair else None)
        if isinstance(outcome.result, Grades) and outcome.result.places:
            # Graders answer in the order shown, and may leave out responses.
            by_place = dict(outcome.result.by_place())
            fields["grades"] = tuple(by_place.get(place) for place in range(len(shown)))
        # Where the reply can be found, if it does not stand here.
        key = None if plan.keep_replies or not outcome.journal_key else outcome.journal_key.hex()
        records.append(
            ComparisonRecord(
                format=FORMAT,
                group=judged.key,
                component=judge.component,
                i=shown[0] if len(shown) <= 2 else None,
                j=shown[1] if len(shown) == 2 else None,
                shown=shown if len(shown) > 2 else None,
                judge_idx=request.repeat,
                judge=judge.name,
                reply=outcome.reply_text,
                journal_key=key,
                **fields,
            )
        )
    return records


class GroupRewards(Struct, frozen=True):
    """The rewards of a group of n rollouts; every list of n is in the order of the rollouts.

    Attributes:
        key: key of the group.
        scores: n scored lines, with everything known about each rollout.
        verdicts: verdicts behind the rewards, by comparison.
        by_judge: the verdicts of each judge by comparison, None for a failure.
        reliability: share of the spread of the base scores that is signal, 0 to 1; None if unknown,
            as it is without a calibration.
        columns: all components by name; empty if rewards come from verdicts alone.
        clusters: near-duplicates; None if diversity is not configured.
        comparisons: every request about the group, with its verdict, grades or failure; of these,
            `recalled` have their answer from the journal.
        calls: made for the others.
        expected: the reliability that the judge's noise lets expect; None if unknown.
        chance: probability that responses of equal quality spread as much; None if unknown.
        halves: how far two halves of its verdicts agree; None where that was not computed.
        unscored_details: the details of the first rollout without a reward, by reason.
        failed_figures: what a bug kept from being computed, with the reason; `reward` if the group
            has no rewards because of it.
    """

    key: str | None
    scores: list[ScoredLine]
    verdicts: Verdicts
    by_judge: JudgeVerdicts
    reliability: float | None
    columns: Mapping[str, Column]
    clusters: Clusters | None = None
    comparisons: list[ComparisonRecord] = []
    recalled: int = 0
    calls: int = 0
    expected: ExpectedSignal | None = None
    chance: float | None = None
    halves: HalfSums | None = None
    unscored_details: Mapping[Reason, str] = {}
    failed_figures: Mapping[str, str] = {}

    @property
    def rewards(self) -> list[float | None]:
        """n rewards; None for an unscored rollout, never a number in place of a failure.

        They are on the scale of the judge's scores, 1 to 5, which they may leave; components and
        terms change it."""
        return [score.reward for score in self.scores]

    @property
    def advantages(self) -> list[float | None]:
        """n advantages: reward less the group's mean, scaled as the setting `advantage` says; None
        where unscored.

        0 if all rewards are equal, or only one rollout has a reward.
        """
        return [score.advantage for score in self.scores]

    @property
    def variance(self) -> float | None:
        """Sample variance of the rewards; None for fewer than two."""
        known = [reward for reward in self.rewards if reward is not None]
        return sample_variance(known) if len(known) > 1 else None

    def scaled(self, kind: str, pool: float | None) -> "GroupRewards":
        """Return the same rewards, with advantages of unit variance scaled for a run in which
        rewards have this mean variance.
        """
        weight = weight_of(kind, self.variance, pool, self.reliability)
        if weight == 1.0:
            return self
        scores = [
            score if score.advantage is None else replace(score, advantage=weight * score.advantage)
            for score in self.scores
        ]
        return replace(self, scores=scores)

    @property
    def standard_errors(self) -> list[float | None]:
        """n standard errors of the base scores against the group mean; None if unknown.

        They depend on the noise of the judge, and so require a calibration.
        """
        return [score.standard_error for score in self.scores]

    @property
    def reasons(self) -> list[Reason | None]:
        """n reasons why a rollout has no reward; None for a rollout with a reward. `reason.text` is
        the sentence.
        """
        return [score.reason for score in self.scores]

    def __repr__(self) -> str:
        rewards = ", ".join(
            "None" if reward is None else f"{reward:.3f}" for reward in self.rewards
        )
        counts = f"{len(self.verdicts)} verdicts, {len(self.failures)} failures"
        return f"<GroupRewards {self.key!r}: rewards [{rewards}], {counts}>"

    @property
    def failures(self) -> list[ComparisonRecord]:
        """The requests without a verdict or grades; `failure.kind` and `failure.detail` say why."""
        return [comparison for comparison in self.comparisons if comparison.failure is not None]


def why_unscored(
    index: int,
    group: JudgedVerdicts,
    rewards: RewardPlan,
    total: Total | None,
    columns: Mapping[str, Column],
    *,
    is_noisy: bool,
) -> Explanation:
    """Return why a rollout has no reward; the first reason in the order of the pipeline counts.

    Args:
        index: of the rollout.
        group: all planned comparisons of its group, with their verdicts.
        rewards: how verdicts become rewards.
        total: the total of its components; None if its reward comes from verdicts alone.
        columns: the components of the group.
        is_noisy: whether it has a base score, in a group whose reliability is too low.
    """
    judged = group.judged
    not_compared = judged.not_compared[index]
    if not_compared is not None and not_compared.reason.is_exclusion:
        return not_compared
    if total is not None and not total.missing:
        return Explanation(Reason.NO_COMPONENT)
    missing = () if total is None else total.missing
    if missing and not any(
        _follows_from_verdicts(index, name, judged, rewards) for name in missing
    ):
        failure = columns[missing[0]].failure if missing[0] in columns else None
        detail = f"{missing[0]} ({failure})" if failure else missing[0]
        return Explanation(Reason.COMPONENT_MISSING, detail)
    if not judged.has_response[index]:
        return Explanation(Reason.NO_RESPONSE)
    if not_compared is not None:
        return not_compared
    if judged.mixed:
        return Explanation(judged.mixed)
    if judged.key is None:
        return Explanation(Reason.NO_GROUP)
    if is_noisy:
        return Explanation(Reason.TOO_NOISY)
    return _why_no_verdict(judged.copies.get(index, index), group)


def _follows_from_verdicts(index: int, name: str, judged: JudgedGroup, rewards: RewardPlan) -> bool:
    """Whether a component is missing for the same reason as verdicts."""
    source = rewards.sources[name]
    is_missing = name in rewards.from_verdicts
    if judged.not_compared[index] is not None:
        return is_missing or source in ("judge", "rules", "responses")
    is_mixed = judged.mixed is not None and source in ("judge", "responses")
    return is_missing or is_mixed


def _why_no_verdict(index: int, group: JudgedVerdicts) -> Explanation:
    judged = group.judged
    if not any(index in (i, j) for i, j, _ in group.by_judge):
        if judged.size == 1:
            return Explanation(Reason.ALONE)
        is_only = len(judged.answered) == 1
        return Explanation(Reason.NO_OPPONENT if is_only else Reason.NOT_PLANNED)
    if index in group.incomplete:
        return group.incomplete[index]
    # A judge that grades one response may have failed on its opponents alone.
    if any(why.reason is Reason.NOT_ASKED for why in group.incomplete.values()):
        return Explanation(Reason.NOT_ASKED)
    return Explanation(Reason.INCOMPLETE, "no opponent has one")
