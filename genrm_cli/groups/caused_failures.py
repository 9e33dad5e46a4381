"""Attribute failures to the rollouts that are suspected of causing them, and let these lose the
comparisons.

A policy under training may write texts on which the judge fails. Such a failure must pay neither
this rollout, by hiding a loss, nor its opponents, by a win that the judge did not declare."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from genrm_cli.groups.comparisons import JudgeVerdicts
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.requests import RequestId
from genrm_cli.pairing import PairingPlan
from genrm_cli.rewards.estimators.list_scores import ListScores
from genrm_cli.verdicts import (
    MIDDLE_RANKING,
    Failure,
    FailureKind,
    Outcome,
    Verdict,
    preference,
    preferred,
)

Causes = Mapping[RequestId, tuple[int, ...]]
"""The rollouts whose texts made a request fail, by request; requests that failed for other reasons
are absent.
"""

# The expected number of suspects is simulated on so many rollouts of each size of group: with 1 in
# 300 suspected, that is accurate to 12 %. Large groups are drawn at least so often.
_DRAWN_ROLLOUTS = 20_000
_LEAST_DRAWS = 20
_MANY_GROUPS = 20  # so many that a few suspects change the rates of failures by little
_CHANCE = 0.001  # the probability with which a run of innocents blames anybody
_BETTER = Verdict(4.0, 2.0, 2.0)  # the margin where no verdict of the group prefers either response


def find_causes(judged: JudgedGroup, plan: GroupPlan) -> Causes:
    """Attribute the failed requests of a group to rollouts; none under `compat`.

    The parser names the responses that make a reply ambiguous. Other failures that depend on the
    texts are attributed
    - of a request that shows one response: to it, if the judge refused it or failed more than once,
      and answered most of the others of its group;
    - of comparisons: to a rollout with at least two of them, in all its comparisons, or at least
      three, in half of them, if at least half of them are with opponents that have a smaller share
      of failures. An honest rollout meets that by chance in at most 0.3 % of cases if 5 % of
      comparisons fail, and hardly ever with two rings.

    A verdict after replies without one counts as a failure for a rollout that does not lose by it,
    unless it counts
    anyway (`keep`): a judge that answers only where a response wins is asked until it does.
    """
    causes: dict[RequestId, tuple[int, ...]] = {}
    pairs: list[tuple[RequestId, tuple[int, ...]]] = []
    alone: dict[int, list[tuple[RequestId, bool, bool]]] = defaultdict(list)
    for request, outcome in judged.results if plan.default_score is None else ():
        failure = outcome.result if isinstance(outcome.result, Failure) else None
        if failure is not None and failure.caused_by:
            causes[request] = tuple(request.shown[position - 1] for position in failure.caused_by)
        elif failure is not None and not failure.kind.depends_on_texts:
            continue
        elif len(request.shown) == 1:
            is_certain = failure is not None and (
                failure.kind is FailureKind.REFUSED or outcome.attempts > 1
            )
            alone[request.judge].append((request, failure is not None, is_certain))
        elif len(request.shown) == 2 and request.judge < len(plan.judges):
            pairs.append(
                (request, _failed_for(request, outcome, plan.rewards.on_caused_failures != "keep"))
            )
    for asked in alone.values():
        if 2 * sum(is_failed for _, is_failed, _ in asked) < len(asked):
            causes |= {request: request.shown for request, _, is_certain in asked if is_certain}
    blamed = _blamed(pairs) if plan.rewards.attributes else set()
    causes |= {
        request: culprits
        for request, failed in pairs
        if (culprits := tuple(index for index in failed if index in blamed))
    }
    return causes


def without_selected(judged: JudgedGroup, causes: Causes) -> JudgedGroup:
    """Return a group in which the verdicts of requests that rollouts made fail are failures."""
    selected = Failure(
        FailureKind.NO_VERDICT, "a verdict for the response only after replies without one"
    )
    results = [
        (id_, replace(outcome, result=selected))
        if id_ in causes and not isinstance(outcome.result, Failure)
        else (id_, outcome)
        for id_, outcome in judged.results
    ]
    return replace(judged, results=results)


def _failed_for(request: RequestId, outcome: Outcome, verdicts_fail: bool) -> tuple[int, ...]:
    """Return the rollouts of a pair for which its comparison counts as failed."""
    if isinstance(outcome.result, Failure):
        return request.shown
    if not (verdicts_fail and outcome.reasks and isinstance(outcome.result, Verdict)):
        return ()
    winner = preferred(outcome.result)
    return request.shown if not winner else request.shown[:1] if winner > 0 else request.shown[1:]


def _blamed(pairs: Sequence[tuple[RequestId, tuple[int, ...]]]) -> set[int]:
    """Return the rollouts that cause failures; comparisons come with the rollouts for which they
    failed.
    """
    requests = Counter[int]()
    failures = Counter[int]()
    ahead = Counter[int]()
    for request, failed in pairs:
        requests.update(request.shown)
        failures.update(failed)
    shares = {index: failures[index] / count for index, count in requests.items()}
    for request, failed in pairs:
        least = min(shares[index] for index in request.shown)
        ahead.update(index for index in failed if shares[index] > least)
    return {
        index
        for index, count in failures.items()
        if 2 * ahead[index] >= count >= 2
        and (count == requests[index] or 2 * count >= max(6, requests[index]))
    }


def suspects_by_chance(
    pairing: PairingPlan, group_sizes: Mapping[int, int], failing: float, reasked: float
) -> float:
    """Return how many rollouts of a run would be suspected if no text had any influence.

    Simulated with a fixed seed: each comparison fails independently.

    Args:
        group_sizes: number of groups by size.
        failing: share of the requests that end without a verdict.
        reasked: share of the requests that get a verdict only after a reply without one.
    """
    rng = random.Random(0)
    total = 0.0
    for n, groups in sorted(group_sizes.items()):
        shown = [(i, j) for i, j, _ in pairing.iter_pairs(n)]
        draws = max(_LEAST_DRAWS, _DRAWN_ROLLOUTS // n) if shown else 0
        suspected = 0
        for _ in range(draws):
            results = []
            for number, pair in enumerate(shown):
                drawn = rng.random()
                failed: tuple[int, ...] = pair if drawn < failing else ()
                if failing <= drawn < failing + reasked:
                    failed = pair[:1]  # the winner's; who it is makes no difference here
                results.append((RequestId(0, number, pair), failed))
            suspected += len(_blamed(results))
        total += groups * suspected / draws if draws else 0.0
    return total


@dataclass(slots=True)
class SuspectCounts:
    """Counts over the comparisons of a run, to tell suspects from chance."""

    groups: int = 0
    suspects: int = 0
    results: Counter[str] = field(default_factory=Counter)

    def add_group(self, judged: JudgedGroup, causes: Causes) -> None:
        """Add a group with the causes that were found in it."""
        self.groups += 1
        suspects = set[int]()
        for request, outcome in judged.results:
            if len(request.shown) != 2 or not _may_be_suspicious(outcome):
                continue
            suspects.update(causes.get(request, ()))
            kind = "answered"
            if isinstance(outcome.result, Failure):
                kind = "failed"
            elif outcome.reasks:
                kind = "reasked"
            self.results[kind] += 1
        self.suspects += len(suspects)

    def expected(self, pairing: PairingPlan, group_sizes: Mapping[int, int]) -> float | None:
        """Return how many suspects chance explains; see `suspects_by_chance`.

        None for few groups: a suspect's own failures would be most of those that give the rates.
        """
        total = self.results.total()
        if self.groups < _MANY_GROUPS or not total:
            return None
        rates = (self.results["failed"] / total, self.results["reasked"] / total)
        return suspects_by_chance(pairing, group_sizes, *rates)

    def is_chance(self, expected: float | None) -> bool:
        """Return whether chance alone gives as many suspects in more than 1 of 1,000 runs; False if
        it is unknown what chance gives.

        Their number is taken as a Poisson variable: suspects are rare, and groups independent.
        """
        if not expected:
            return False
        below = 0.0
        for count in range(self.suspects):
            below += math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
        return 1 - below > _CHANCE


def _may_be_suspicious(outcome: Outcome) -> bool:
    """Return whether a text may have caused the outcome, or there is a verdict."""
    result = outcome.result
    return not isinstance(result, Failure) or (
        result.kind.depends_on_texts and not result.caused_by
    )


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
    of_all = defaultdict[tuple[int, int], set[int]](
        set
    )  # by judge and repeat: of requests that show a whole group
    for (judge, repeat, shown), culprits in causes.items():
        of_all[judge, repeat].update(culprits if len(shown) > 2 else ())
    filled = {pair: list(given) for pair, given in by_judge.items()}
    for (i, j, repeat), given in filled.items():
        for number, verdict in enumerate(given):
            if verdict is None:
                at_fault = {
                    index
                    for shown in ((i, j), (i,), (j,))
                    for index in causes.get(RequestId(number, repeat, shown), ())
                } | (of_all[number, repeat] & {i, j})
                if at_fault:
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
    scores: Sequence[float | None], if_lost: Sequence[float | None], losers: Collection[int]
) -> list[float | None]:
    """Return the base scores of a group, with those of the losers from the estimate in which they
    lose.

    The wins of the others in that estimate, which the judge did not declare, count for none of
    them, but keep the losers' distance to their mean."""
    gaps = [
        own - other
        for index, (own, other) in enumerate(zip(scores, if_lost, strict=True))
        if index not in losers and own is not None and other is not None
    ]
    shift = math.fsum(gaps) / len(gaps) if gaps else 0.0
    return [
        other + shift if index in losers and other is not None else own
        for index, (own, other) in enumerate(zip(scores, if_lost, strict=True))
    ]
