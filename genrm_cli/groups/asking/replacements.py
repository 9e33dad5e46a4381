"""Replace failed requests, and find the rollouts that are left with too few verdicts.

A failure is replaced stage by stage, as long as a rollout lacks planned verdicts: first by the same
pair in the other order, then by a pair of the rollout that lacks most with an opponent that it has
not met, then by the same pair again. A list is shown in the other order, and a single response
again. No response is penalised: intended and accidental failures look the same. A rollout with too
few verdicts has no reward and says why.

Each stage depends on the results of the group alone, so shards, servers and resumed runs plan the
same. Replacements have repeats that no plan has.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor

from genrm_cli.errors import counted
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.requests import RequestId
from genrm_cli.verdicts import Explanation, Failure, FailureKind, Grades, Outcome, Reason

# How often a request that shows one response, or a grader's, is made again: nothing else can
# replace it.
_MOST_AGAIN = 3
_LEAST_TRIES = 2  # for a rollout with a single planned verdict
_ROUNDING = 1e-9


def is_missing(outcome: Outcome) -> bool:
    """Whether an answer lacks a verdict: it failed, or leaves responses of a list out."""
    result = outcome.result
    return isinstance(result, Failure) or (isinstance(result, Grades) and bool(result.places))


def iter_replacements(judged: JudgedGroup, plan: GroupPlan) -> Iterator[list[RequestId]]:
    """Yield the requests that replace failed ones by stages; the results of each must be there for
    the next.

    They take from the further calls of the group. Under
    `compat` a failed comparison has a default, and nothing is replaced.
    """
    if plan.default is not None:
        return
    missing = any(is_missing(outcome) for _, outcome in judged.results)
    if not missing:
        return
    numbers = range(len(plan.asked))
    judges = [_JudgeReplacements(number, judged, plan) for number in numbers]
    while True:
        stage = [id_ for judge in judges for id_ in judge.plan_stage()]
        if not stage:
            return
        yield stage


class _JudgeReplacements:
    """The replacements for the failed requests to one judge."""

    def __init__(self, number: int, judged: JudgedGroup, plan: GroupPlan) -> None:
        self._number = number
        self._turns = plan.turns_of(number)
        self._judged = judged
        self._planned_repeats = plan.planned_repeats(number)
        self._is_grader = number >= len(plan.judges)
        self._is_paired = not self._is_grader and plan.compares_pairs
        planned, _ = count_verdicts(self._own(), self._planned_repeats)
        self._planned = planned
        # Of a rollout: it may not take the whole group's share.
        self._most = {
            index: max(_LEAST_TRIES, floor(plan.pairing.max_extra * count + _ROUNDING))
            if self._is_paired or (plan.is_listwise and not self._is_grader)
            else _MOST_AGAIN * count
            for index, count in planned.items()
        }
        self._spent = Counter[int]()

    def _own(self) -> list[tuple[RequestId, Outcome]]:
        own = [result for result in self._judged.results if result[0].judge == self._number]
        # Results come in the order of the answers, which must not decide what is asked next.
        return sorted(own, key=lambda result: result[0])

    def plan_stage(self) -> list[RequestId]:
        """Choose the requests of the next stage, as many as the group's further calls allow."""
        own = self._own()
        failed = [id_.shown for id_, outcome in own if is_missing(outcome)]
        if not failed or not self._answers(own):
            return []
        _, given = count_verdicts(own, self._planned_repeats)
        self._given = given
        self._chosen: list[RequestId] = []
        self._lacks = Counter(
            {
                index: self._planned[index] - given[index]
                for index in self._planned
                if self._planned[index] > given[index]
            }
        )
        self._asked = Counter(id_.shown for id_, _ in own)
        self._repeats = Counter(id_.shown for id_, _ in own if id_.repeat >= self._planned_repeats)
        if not self._is_paired:
            for shown in failed:
                self._choose(shown if self._is_grader else shown[::-1])
            return self._chosen
        for shown in failed:
            if not self._asked[shown[::-1]]:
                self._choose(shown[::-1])
        for index in sorted(self._lacks, key=lambda index: (-self._lacks[index], index)):
            while self._may_ask(index) and self._choose(self._next_pair(index, failed)):
                pass
        return self._chosen

    def _answers(self, own: Sequence[tuple[RequestId, Outcome]]) -> bool:
        """Whether the judge can be asked: it is not stopped, and its server has replied."""
        kinds = [each.result.kind for _, each in own if isinstance(each.result, Failure)]
        if FailureKind.NOT_ASKED in kinds:
            return False
        return len(kinds) < len(own) or any(kind.depends_on_texts for kind in kinds)

    def _may_ask(self, index: int) -> bool:
        return self._lacks[index] > 0 and self._spent[index] < self._most[index]

    def _choose(self, shown: tuple[int, ...]) -> bool:
        """Choose a request if it serves a rollout that lacks verdicts, and return whether it was
        chosen.
        """
        if not any(map(self._may_ask, shown)) or not self._judged.extra.take(self._turns):
            return False
        for index in shown:
            if self._lacks[index] > 0:
                self._lacks[index] -= 1
                self._spent[index] += 1
        repeat = self._planned_repeats + self._repeats[shown]
        self._chosen.append(RequestId(self._number, repeat, shown))
        self._repeats[shown] += 1
        self._asked[shown] += 1
        return True

    def _next_pair(self, index: int, failed: Sequence[tuple[int, ...]]) -> tuple[int, int]:
        """Return the pair that replaces a failed one of a rollout.

        Opponents that it has not met come first, and then those with which its pairs failed. One
        that has no verdict at all most likely caused that: with only such ones, known opponents
        are met again. Of these, one that lacks verdicts, too, comes first, then the one in fewest
        comparisons.
        """
        met = Counter[int]()
        total = Counter[int]()
        firsts = Counter[int]()
        for shown, times in self._asked.items():
            total.update(dict.fromkeys(shown, times))
            firsts[shown[0]] += times
            if index in shown:
                met.update(dict.fromkeys(shown, times))
        silent = {other for shown in failed if index in shown for other in shown}
        others = [other for other in self._judged.answered if other != index]
        unmet = [other for other in others if not met[other]]
        again = [other for other in others if other in silent and self._given[other]]
        known = [other for other in others if other not in silent]
        size = self._judged.size
        other = min(
            unmet or again or known or others,
            key=lambda each: (
                met[each],
                not self._may_ask(each),
                total[each],
                (each - index) % size,
            ),
        )
        # The order asked less often; of two alike, the place in which it was shown less often.
        more = self._asked[index, other] - self._asked[other, index]
        is_second = more > 0 or (more == 0 and 2 * firsts[index] > total[index])
        return (other, index) if is_second else (index, other)


def count_verdicts(
    results: Iterable[tuple[RequestId, Outcome]], planned_repeats: int
) -> tuple[Counter[int], Counter[int]]:
    """Return the number of planned verdicts on each rollout, and of those that exist."""
    planned = Counter[int]()
    given = Counter[int]()
    for id_, outcome in results:
        if id_.repeat < planned_repeats:
            planned.update(id_.shown)
        result = outcome.result
        if isinstance(result, Grades) and result.places:
            given.update(id_.shown[place] for place in result.places)
        elif not isinstance(result, Failure):
            given.update(id_.shown)
    return planned, given


def find_incomplete(judged: JudgedGroup, plan: GroupPlan) -> dict[int, Explanation]:
    """Return why rollouts with less than `min_verdicts` of their planned verdicts have no reward,
    by index; none under `compat`.
    """
    if plan.default is not None or not any(is_missing(outcome) for _, outcome in judged.results):
        return {}
    planned = Counter[int]()
    given = Counter[int]()
    failed: dict[int, list[Failure]] = {}
    for number in range(len(plan.judges)):
        own = [result for result in judged.results if result[0].judge == number]
        of_judge = count_verdicts(own, plan.planned_repeats(number))
        planned.update(of_judge[0])
        given.update(of_judge[1])
        for id_, outcome in own:
            if isinstance(outcome.result, Failure):
                for index in id_.shown:
                    failed.setdefault(index, []).append(outcome.result)
    share = plan.rewards.settings.min_verdicts
    return {
        index: _explain(given[index], planned[index], failed.get(index, ()))
        for index in planned
        if given[index] < ceil(share * planned[index] - _ROUNDING)
    }


def _explain(given: int, planned: int, failures: Sequence[Failure]) -> Explanation:
    """Name the counts, and the three commonest causes."""
    if any(failure.kind is FailureKind.NOT_ASKED for failure in failures):
        return Explanation(Reason.NOT_ASKED)  # the run may be resumed
    causes = Counter(failure.cause for failure in failures)
    detail = f"{given} of {counted(planned, 'verdict')}"
    if failures:
        listed = ", ".join(f"{count:,} {cause}" for cause, count in causes.most_common(3))
        detail += f"; {counted(len(failures), 'request')} failed: {listed}"
    return Explanation(Reason.INCOMPLETE, detail)
