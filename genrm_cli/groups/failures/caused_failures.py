"""Attribute failures to the rollouts that cause them, and let these lose the comparisons.

A policy under training may write texts on which the judge fails. Such a failure must pay neither
this rollout, by hiding a loss, nor its opponents, by a win that the judge did not declare.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from genrm_cli.groups.comparisons import (
    JudgeVerdicts,
    lists_of,
    used_verdicts,
    verdicts_by_judge,
)
from genrm_cli.groups.failures.failure_test import (
    Causes,
    Trial,
    failures_of,
    find_culprits,
    find_suspects,
    trials_of,
)
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.requests import RequestId
from genrm_cli.metrics.figures import rounded
from genrm_cli.rewards.estimators.failure_rates import FailureRates
from genrm_cli.rewards.estimators.list_scores import ListScores
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.verdicts import (
    MIDDLE_RANKING,
    Failure,
    FailureKind,
    Grades,
    Verdict,
    preference,
)

_BETTER = Verdict(4.0, 2.0, 2.0)  # the margin where no verdict of the group prefers either response
_AFTER_FAILURE = Failure(FailureKind.NO_VERDICT, "a verdict only after replies without one")


@dataclass(frozen=True, slots=True)
class JudgedVerdicts:
    """A judged group with its verdicts: all of each judge, and the `used` ones that count.

    Attributes:
        causes: the rollouts that made requests fail, as far as that needs no test.
        trials: the requests that tell who causes failures; none if that is not tested.
        lists: the scores of listwise judges; empty if others judge, too.
        suspects: the probability that other rollouts make requests fail, as far as it matters.
    """

    judged: JudgedGroup
    causes: Causes
    trials: Sequence[Trial]
    by_judge: JudgeVerdicts
    used: Verdicts
    lists: Sequence[ListScores] = ()
    suspects: Mapping[int, float] = field(default_factory=dict)

    @property
    def culprits(self) -> Counter[int]:
        """The number of failed requests that each rollout caused."""
        caused = Counter[int]()
        for culprits in self.causes.values():
            caused.update(culprits)
        return caused

    def tested(self, rates: FailureRates) -> "JudgedVerdicts":
        """Return the group with the rollouts that the test convicts or suspects."""
        culprits = find_culprits(self.trials, rates)
        causes = {**failures_of(self.trials, culprits), **self.causes}
        suspects = find_suspects(self.trials, culprits, rates)
        return replace(self, causes=causes, suspects=suspects)

    def lost(self, plan: GroupPlan) -> "JudgedVerdicts":
        """Return the group as it is if rollouts lose the comparisons that they made fail."""
        causes = {**failures_of(self.trials, self.suspects), **self.causes}
        by_judge = with_losses(self.by_judge, self.used.values(), causes)
        lists = with_lost_lists(self.lists, causes) if plan.is_listwise else ()
        used = used_verdicts(by_judge)
        return replace(self, by_judge=by_judge, used=used, lists=lists)


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
    return JudgedVerdicts(judged, causes, trials, by_judge, used_verdicts(by_judge), lists)


def known_causes(judged: JudgedGroup, plan: GroupPlan) -> Causes:
    """Attribute failures whose cause is known without a test; none under `compat`.

    The parser names the responses that make a reply ambiguous. A request that shows one response
    failed because of it if the judge refused it or failed more than once, and answered most of the
    others of its group."""
    causes: dict[RequestId, tuple[int, ...]] = {}
    alone: dict[int, list[tuple[RequestId, bool, bool]]] = defaultdict(list)
    for request, outcome in judged.results if plan.default is None else ():
        failure = outcome.result if isinstance(outcome.result, Failure) else None
        if failure is not None and failure.caused_by:
            causes[request] = tuple(request.shown[position - 1] for position in failure.caused_by)
        elif len(request.shown) == 1 and (failure is None or failure.kind.depends_on_texts):
            is_certain = failure is not None and (
                failure.kind is FailureKind.REFUSED or outcome.attempts > 1
            )
            alone[request.judge].append((request, failure is not None, is_certain))
    for asked in alone.values():
        if 2 * sum(is_failed for _, is_failed, _ in asked) < len(asked):
            causes |= {request: request.shown for request, _, is_certain in asked if is_certain}
    return causes


def without_selected(judged: JudgedGroup, plan: GroupPlan) -> JudgedGroup:
    """Return a group in which verdicts and lists that came only after replies without one are
    failures. A list without some of its scores is no better for that, and stays.
    """
    results = []
    for request, outcome in judged.results:
        is_selected = outcome.reasks > 0
        if plan.compares_pairs:
            is_selected = is_selected or request.repeat >= plan.pairing.repeats
        result = outcome.result
        is_complete = isinstance(result, Verdict) or (
            isinstance(result, Grades) and plan.is_listwise and not result.places
        )
        if is_selected and is_complete and request.judge < len(plan.judges):
            outcome = replace(outcome, result=_AFTER_FAILURE)
        results.append((request, outcome))
    return replace(judged, results=results)


def with_losses(
    by_judge: JudgeVerdicts, used: Collection[Verdict], causes: Causes
) -> JudgeVerdicts:
    """Return the verdicts by judge as they are if rollouts lose the comparisons that failed because
    of them.

    They lose by the widest margin and with the lowest score in `used`, the verdicts of the group:
    by less, a text that hides only the worst verdicts would pay. Two rollouts that both caused a
    failure tie."""
    decided = [verdict for verdict in used if preference(verdict)] or [_BETTER]
    margin = max(decided, key=lambda verdict: abs(preference(verdict)))
    low = min(min(verdict.score_1, verdict.score_2) for verdict in decided)
    high = low + abs(margin.score_1 - margin.score_2)
    lead = abs(MIDDLE_RANKING - margin.ranking)
    verdicts = {
        1: Verdict(high, low, MIDDLE_RANKING - lead),
        0: Verdict((high + low) / 2, (high + low) / 2, MIDDLE_RANKING),
        -1: Verdict(low, high, MIDDLE_RANKING + lead),
    }
    # A request that shows one response or a list is behind all pairs of its responses.
    beside_pairs = defaultdict[tuple[int, int], set[int]](set)
    for (judge, repeat, shown), culprits in causes.items():
        if len(shown) != 2:
            beside_pairs[judge, repeat].update(culprits)
    filled = {pair: list(given) for pair, given in by_judge.items()}
    for (i, j, repeat), given in filled.items():
        for number, verdict in enumerate(given):
            own = causes.get(RequestId(number, repeat, (i, j)), ())
            at_fault = beside_pairs[number, repeat].intersection((i, j)).union(own)
            if verdict is None and at_fault:
                given[number] = verdicts[(j in at_fault) - (i in at_fault)]
    return filled


def with_lost_lists(lists: Sequence[ListScores], causes: Causes) -> list[ListScores]:
    """Return the lists of a group as they are if rollouts lose the lists that failed because of
    them.

    They have the lowest score of the group there, and each other one the mean of its own scores.
    """
    scores = defaultdict[int, list[float]](list)
    for each in lists:
        for index, score in zip(each.rollouts, each.scores, strict=True):
            scores[index].append(score)
    every = [score for of_one in scores.values() for score in of_one]
    every = every or [_BETTER.score_1, _BETTER.score_2]
    lost = []
    for (_, _, shown), culprits in causes.items():
        filled = [
            min(every) if index in culprits else fmean(scores.get(index, every)) for index in shown
        ]
        lost.append(ListScores(shown, range(len(shown)), filled))
    return [*lists, *lost]


def scores_of_losers(
    scores: Sequence[float | None],
    if_lost: Sequence[float | None],
    losers: Collection[int],
    suspects: Mapping[int, float],
) -> list[float | None]:
    """Return the base scores of a group, with those of the losers from the estimate in which they
    lose, and those of suspects in between.

    The wins of the others in that estimate, which the judge did not declare, count for none of
    them, but keep the losers' distance to their mean."""
    gaps = [
        own - other
        for index, (own, other) in enumerate(zip(scores, if_lost, strict=True))
        if not (index in losers or index in suspects) and own is not None and other is not None
    ]
    shift = math.fsum(gaps) / len(gaps) if gaps else 0.0
    blended = list(scores)
    for index, (own, other) in enumerate(zip(scores, if_lost, strict=True)):
        if other is not None and index in losers:
            blended[index] = other + shift
        elif other is not None and own is not None and index in suspects:
            blended[index] = rounded(own + suspects[index] * (other + shift - own))
    return blended
