"""The comparisons of a group: the requests to its judges, and the verdicts that count."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, permutations

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.groups.asking.replacements import find_incomplete
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import MAX_GRADED_ALL_PAIRS, GroupPlan
from genrm_cli.judging.profiles.answer import verdict_of_grades
from genrm_cli.judging.requests import ListwisePrompt, PairwisePrompt, Prompt, RequestId
from genrm_cli.pairing.lists import RolloutList
from genrm_cli.pairing.pairs import (
    Comparison,
    PairingPlan,
    further_at_once,
    generator_of,
    permutation,
    plan_further,
)
from genrm_cli.rewards.estimators.least_squares import weigh_alone
from genrm_cli.rewards.estimators.list_scores import ListScores
from genrm_cli.rewards.estimators.verdict_batch import Verdicts, batch_of, verdict_array
from genrm_cli.rollouts.views import SharedView
from genrm_cli.verdicts import Explanation, Grades, Outcome, Reason, Verdict, join_verdicts

JudgeVerdicts = Mapping[Comparison, Sequence[Verdict | None]]
"""The verdict of each judge on each comparison, None for a failure."""

_GradeId = tuple[int, int, int]  # judge, repeat and rollout


class JudgedVerdicts(Struct, frozen=True):
    """A judged group with its verdicts: all of each judge, and the `used` ones that count.

    Attributes:
        lists: the scores of listwise judges; empty if others judge, too.
        incomplete: why rollouts have too few verdicts, by index.
    """

    judged: JudgedGroup
    by_judge: JudgeVerdicts
    used: Verdicts
    lists: Sequence[ListScores] = ()
    incomplete: Mapping[int, Explanation] = {}

    @property
    def silent(self) -> list[int]:
        """Indices of the rollouts that have too few verdicts although the run was not stopped."""
        return [index for index, why in self.incomplete.items() if why.reason is Reason.INCOMPLETE]


def verdicts_of(judged: JudgedGroup, plan: GroupPlan) -> JudgedVerdicts:
    """Return a judged group with its verdicts."""
    by_judge = verdicts_by_judge(judged, plan)
    return JudgedVerdicts(
        judged,
        by_judge,
        used_verdicts(by_judge),
        lists_of(judged, len(plan.judges)) if plan.is_listwise else (),
        find_incomplete(judged, plan),
    )


def plan_group(key: str | None, answered: Sequence[int], pairing: PairingPlan) -> list[Comparison]:
    """Plan the comparisons that do not depend on verdicts; those that share a first response are
    adjacent.

    A server with prefix caching then reads that response once.

    Args:
        key: key of the group; it determines which rollouts are compared.
        answered: indices of the rollouts that have a response.
        pairing: the plan.
    """
    n = len(answered)
    planned = islice(pairing.iter_pairs(n, key or ""), pairing.count(n) - pairing.count_further(n))
    ordered = sorted(planned, key=lambda comparison: comparison.i)
    return [Comparison(answered[i], answered[j], repeat) for i, j, repeat in ordered]


def iter_further(judged: JudgedGroup, plan: GroupPlan) -> Iterator[list[Comparison]]:
    """Yield the comparisons that depend on verdicts, a few at a time; the results of each must be
    there for the next.

    They depend on the group's own verdicts alone, so that shards, servers and resumed runs plan the
    same. A failed comparison counts as asked, and is replaced later; a rollout without a verdict
    counts as average.
    """
    answered = judged.answered
    left = plan.pairing.count_further(len(answered)) if plan.judges else 0
    order = (
        permutation(len(answered), generator_of(judged.key or "", plan.pairing.seed))
        if left
        else ()
    )
    while left:
        by_judge = verdicts_by_judge(judged, plan)
        scores = scores_alone(judged.size, by_judge)
        known = {answered[each]: scores[answered[each]] for each in order}
        count = min(left, further_at_once(len(answered)))
        asked = [(i, j) for i, j, _ in by_judge]
        pairs = plan_further(known, asked, plan.pairing.goal, count)
        yield [Comparison(i, j, 0) for i, j in pairs]
        left -= count


def scores_alone(size: int, by_judge: JudgeVerdicts) -> list[float]:
    """Return the base scores of a group of this size by its own verdicts alone, less their mean."""
    verdicts = verdict_array(used_verdicts(by_judge))
    scores: list[float] = weigh_alone(batch_of(size, [verdicts]))[0].tolist()
    return scores


def planned_lists(
    key: str | None, answered: Sequence[int], list_size: int | None, plan: GroupPlan
) -> Iterable[RolloutList]:
    """Return what judges whose verdicts count are shown, but what depends on verdicts.

    Args:
        key: key of the group.
        answered: indices of the rollouts that have a response.
        list_size: size of lists that fit into the judges' context; None for that of the plan.
        plan: plan of the run.
    """
    if len(answered) < 2 or not plan.judges:
        return []
    if plan.compares_pairs:
        return map(list_of, plan_group(key, answered, plan.pairing))
    if not plan.is_listwise:
        return chain.from_iterable(
            (RolloutList((index,), repeat) for index in answered)
            for repeat in range(plan.pairing.repeats)
        )
    lists = replace(plan.lists, list_size=list_size or plan.lists.list_size)
    return (
        RolloutList(tuple(answered[place] for place in places), repeat)
        for places, repeat in lists.iter_lists(len(answered), key or "")
    )


def list_of(comparison: Comparison) -> RolloutList:
    """Return the two rollouts of a comparison as they are shown."""
    return RolloutList((comparison.i, comparison.j), comparison.judge_idx)


def to_each_judge(lists: Iterable[RolloutList], judges: int) -> Iterator[RequestId]:
    """Yield the requests to show lists to each judge whose verdicts count."""
    for shown, repeat in lists:
        for number in range(judges):
            yield RequestId(number, repeat, shown)


def iter_requests(
    answered: Sequence[int], view: SharedView, ids: Iterable[RequestId], *, in_pairs: bool
) -> Iterator[tuple[RequestId, Prompt]]:
    """Yield requests about pairs or lists to judges whose verdicts count, with their prompts.

    Args:
        answered: indices of the rollouts that have a response.
        view: the responses of `answered` in their order, and what else is shown.
        ids: of requests that show some of `answered`.
        in_pairs: whether judges are shown pairs.
    """
    response_of = dict(zip(answered, view.responses, strict=True))
    principle = view.comparing_principle
    for id_ in ids:
        responses = tuple(response_of[index] for index in id_.shown)
        prompt: Prompt
        if in_pairs:
            prompt = PairwisePrompt(
                view.conversation,
                responses[0],
                responses[1],
                principle,
                view.reference,
                view.images,
            )
        else:
            prompt = ListwisePrompt(
                view.conversation,
                responses,
                principle,
                reference=view.reference,
                images=view.images,
            )
        yield id_, prompt


def lists_of(judged: JudgedGroup, judges: int) -> list[ListScores]:
    """Return the scores of so many listwise judges, list by list.

    Those of a panel are the means over the judges that scored a response.
    """
    scores: dict[tuple[int, tuple[int, ...]], dict[int, list[float]]] = {}
    for (number, repeat, shown), outcome in judged.results:
        if number < judges and isinstance(outcome.result, Grades):
            of_list = scores.setdefault((repeat, shown), {})
            for place, grade in outcome.result.by_place():
                of_list.setdefault(place, []).append(grade)
    lists = []
    for (_, shown), of_list in sorted(scores.items()):
        places = sorted(of_list)
        means = [math.fsum(of_list[place]) / len(of_list[place]) for place in places]
        lists.append(ListScores([shown[place] for place in places], places, means))
    return lists


def verdicts_by_judge(judged: JudgedGroup, plan: GroupPlan) -> JudgeVerdicts:
    """Return the verdicts of each judge, by repeat, first and second rollout.

    Judges that grade responses are asked about each once; two grades give a verdict on a pair."""
    count = len(plan.judges)
    if not plan.compares_pairs:
        return _verdicts_of_grades(judged, plan) if count else {}
    pairs: dict[Comparison, list[Verdict | None]] = {}
    for (number, repeat, shown), outcome in judged.results:
        if number < count:
            verdicts = pairs.setdefault(Comparison(shown[0], shown[1], repeat), [None] * count)
            verdicts[number] = verdict_of(outcome, plan.default)
    # Results come in the order of the answers; sums must not depend on it.
    return {pair: pairs[pair] for pair in sorted(pairs, key=_by_repeat)}


def _by_repeat(comparison: Comparison) -> tuple[int, int, int]:
    return comparison.judge_idx, comparison.i, comparison.j


def _verdicts_of_grades(judged: JudgedGroup, plan: GroupPlan) -> JudgeVerdicts:
    """Return the verdicts derived from grades: of pairs in one list, or of any pair of responses
    that were graded one by one.
    """
    judges = range(len(plan.judges))
    grades: dict[_GradeId, float] = {}
    pairs = set[Comparison]()
    pairs_of = permutations if plan.pairing.both_orders else combinations
    for (number, repeat, shown), outcome in judged.results:
        if number in judges:
            pairs.update(Comparison(i, j, repeat) for i, j in pairs_of(shown, 2))
            if isinstance(outcome.result, Grades):
                for place, grade in outcome.result.by_place():
                    grades[number, repeat, shown[place]] = grade
    if not plan.is_listwise:
        grades = _filled(grades, plan.pairing.repeats)
    if not plan.is_listwise and len(judged.answered) > 1:
        # Grades are already paid for, and give a verdict on every pair.
        strategy = "all_pairs" if len(judged.answered) <= MAX_GRADED_ALL_PAIRS else "ring"
        pairing = replace(plan.pairing, strategy=strategy, ring_k=max(plan.pairing.ring_k, 1.0))
        pairs.update(plan_group(judged.key, judged.answered, pairing))
    by_judge: dict[Comparison, list[Verdict | None]] = {}
    for pair in sorted(pairs, key=_by_repeat):
        verdicts = by_judge[pair] = [None] * len(judges)
        for number in judges:
            first = grades.get((number, pair.judge_idx, pair.i))
            second = grades.get((number, pair.judge_idx, pair.j))
            if first is not None and second is not None:
                verdicts[number] = verdict_of_grades(first, second)
    return by_judge


def _filled(grades: Mapping[_GradeId, float], repeats: int) -> dict[_GradeId, float]:
    """Return the grades of responses shown alone, with those that replace failed ones in the
    repeats of these.
    """
    filled = {id_: grade for id_, grade in grades.items() if id_[1] < repeats}
    for (number, repeat, index), grade in sorted(grades.items()):
        if repeat >= repeats:
            missing = (each for each in range(repeats) if (number, each, index) not in filled)
            free = next(missing, None)
            if free is not None:
                filled[number, free, index] = grade
    return filled


def verdict_of(outcome: Outcome, default: Verdict | None) -> Verdict | None:
    """Return the verdict of a pairwise request, or the default that the user asked for; None for a
    failure.
    """
    return outcome.result if isinstance(outcome.result, Verdict) else default


def used_verdicts(by_judge: JudgeVerdicts) -> Verdicts:
    """Return the verdicts behind the rewards: repeat by repeat, by first and then by second
    rollout.

    A panel's verdict is the mean of its judges'. With `both_orders`, a verdict counts
    without that of the other order."""
    joined = {comparison: join_verdicts(verdicts) for comparison, verdicts in by_judge.items()}
    return {comparison: verdict for comparison, verdict in joined.items() if verdict is not None}
