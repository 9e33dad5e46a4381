"""Why a rollout has no reward."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from genrm_cli.groups.comparisons import JudgeVerdicts
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.rewards.component import Column
from genrm_cli.rewards.estimators import Verdicts
from genrm_cli.rewards.total import Total
from genrm_cli.verdicts import Explanation, Failure, FailureKind, Reason


@dataclass(frozen=True, slots=True)
class ResultCounts:
    """For each rollout: comparisons that count, failed requests, and defaults among the former."""

    comparisons: list[int]
    failed: list[int]
    defaulted: list[int]

    def of(self, index: int) -> tuple[int, int, int]:
        """Return the comparisons without defaults, the failures and the defaults of a rollout."""
        defaulted = self.defaulted[index]
        return self.comparisons[index] - defaulted, self.failed[index], defaulted


def count_results(judged: JudgedGroup, used: Verdicts, judges: int) -> ResultCounts:
    """Count the results of each rollout of a group.

    Args:
        judged: the group.
        used: verdicts that count.
        judges: number of judges that compare; requests to graders of components are not counted.
    """
    counts = ResultCounts([0] * judged.size, [0] * judged.size, [0] * judged.size)
    for (i, j, _), verdict in used.items():
        for index in (i, j):
            counts.comparisons[index] += 1
            counts.defaulted[index] += verdict.defaulted
    for (judge, _, shown), outcome in judged.results:
        if judge < judges and isinstance(outcome.result, Failure):
            for index in shown:
                counts.failed[index] += 1
    return counts


@dataclass(slots=True)
class Reasons:
    """Find the reason why a rollout of a group has no reward.

    Attributes:
        judged: the group.
        plan: plan of the run.
        by_judge: the verdicts of each judge.
        columns: all components.
        base_scores: base scores from the estimator.
        noisy: whether the group's reliability is below the limit.
    """

    judged: JudgedGroup
    plan: GroupPlan
    by_judge: JudgeVerdicts
    columns: Mapping[str, Column]
    base_scores: Sequence[float | None]
    noisy: bool
    _evidence: "_Evidence | None" = None

    def of(self, index: int, total: Total | None) -> Explanation:
        """Return the reason for one rollout."""
        not_compared = self.judged.not_compared[index]
        if not_compared is not None and not_compared.reason.is_exclusion:
            return not_compared
        missing = () if total is None else total.missing
        if total is not None and not missing:
            return Explanation(Reason.NO_COMPONENT)
        if negative := [name for name in missing if self.columns[name].values[index] is not None]:
            return Explanation(Reason.COMPONENT_NEGATIVE, negative[0])
        if missing and not any(self._follows_from_verdicts(index, name) for name in missing):
            return Explanation(Reason.COMPONENT_MISSING, missing[0] + self._cause(missing[0]))
        if not self.judged.has_response[index]:
            return Explanation(Reason.NO_RESPONSE)
        if not_compared is not None:
            return not_compared
        if self.judged.mixed_prompts:
            return Explanation(Reason.MIXED_PROMPTS)
        if self.judged.key is None:
            return Explanation(Reason.NO_GROUP)
        if self.noisy and self.base_scores[index] is not None:
            return Explanation(Reason.TOO_NOISY)
        return Explanation(self._why_no_verdict(index))

    def _why_no_verdict(self, index: int) -> Reason:
        if self._evidence is None:
            self._evidence = _evidence_of(self.judged, self.plan, self.by_judge)
        evidence, plan = self._evidence, self.plan
        if index not in evidence.compared:
            if self.judged.size == 1:
                return Reason.ALONE
            return Reason.NO_OPPONENT if len(self.judged.answered) == 1 else Reason.NOT_PLANNED
        if evidence.failures[index] == {FailureKind.NOT_ASKED}:
            return Reason.NOT_ASKED
        if not plan.is_panel:
            paired = plan.pairing.both_orders and plan.compares_pairs
            return Reason.NO_BOTH_ORDERS if paired else Reason.NO_VERDICT
        if index not in evidence.with_quorum:
            return Reason.NO_QUORUM
        return Reason.DISAGREEMENT if plan.drops_disagreement else Reason.NO_BOTH_ORDERS

    def _follows_from_verdicts(self, index: int, name: str) -> bool:
        """Whether a component is missing for the same reason as verdicts."""
        source = self.plan.rewards.sources[name]
        if self.judged.not_compared[index] is not None and source in ("judge", "rules", "responses"):
            return True
        return name in self.plan.rewards.from_verdicts or (
            self.judged.mixed_prompts and source in ("judge", "responses")
        )

    def _cause(self, name: str) -> str:
        failure = self.columns[name].failure if name in self.columns else None
        return f" ({failure})" if failure else ""


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What the requests about a group say about its rollouts.

    Attributes:
        compared: rollouts with a planned comparison.
        with_quorum: rollouts with a comparison on which enough judges of the panel gave a verdict.
        failures: kinds of the failures that cost each rollout verdicts: failed requests that showed it, and failed
            grades of its opponents.
    """

    compared: set[int]
    with_quorum: set[int]
    failures: Mapping[int, set[FailureKind]]


def _evidence_of(judged: JudgedGroup, plan: GroupPlan, by_judge: JudgeVerdicts) -> _Evidence:
    compared: set[int] = set()
    with_quorum: set[int] = set()
    opponents: dict[int, set[int]] = defaultdict(set)
    for (i, j, _), verdicts in by_judge.items():
        compared |= {i, j}
        opponents[i].add(j)
        opponents[j].add(i)
        if sum(verdict is not None for verdict in verdicts) >= plan.quorum:
            with_quorum |= {i, j}
    failures: dict[int, set[FailureKind]] = defaultdict(set)
    for (judge, _, shown), outcome in judged.results:
        if judge < len(plan.judges) and isinstance(outcome.result, Failure):
            for index in (*shown, *opponents[shown[0]]) if len(shown) == 1 else shown:
                failures[index].add(outcome.result.kind)
    return _Evidence(compared, with_quorum, failures)
