"""Labelled lines as a judge sees them: each pair on its own, or all responses of a line in a
list.

A listwise judge sees lists, not pairs, when it scores groups, so it is measured on lists: each pair
of a line gets its verdict from the scores of the list that shows both. Lines that are longer than a
list are shown as pairs, so that each pair is seen in both orders."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from genrm_cli.groups.group import Group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.pairing.lists import ListPlan, RolloutList
from genrm_cli.products.evaluation.labelled_pairs import Case
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome

_LEFT_OUT = Failure(FailureKind.NO_VERDICT, "the judge left one of both responses out of its list")


@dataclass(frozen=True, slots=True)
class ListsInBothOrders(ListPlan):
    """Every second list is the reverse of the one before, so that both show each pair, in another
    order.
    """

    def iter_lists(self, n: int, key: str = "") -> Iterator[RolloutList]:
        """Yield the lists of n comparable rollouts; none if n < 2."""
        forward = ListPlan(self.list_size, self.repeats // 2, self.seed)
        for shown, repeat in forward.iter_lists(n, key):
            yield RolloutList(shown, 2 * repeat)
            yield RolloutList(shown[::-1], 2 * repeat + 1)


@dataclass(frozen=True, slots=True)
class AskedLine:
    """Pairs that are judged together, each with the indices of its chosen and its rejected response
    in the group.
    """

    cases: Sequence[tuple[Case, int, int]]
    group: Group


def iter_asked(pairs: Iterable[tuple[Case, Group]], plan: GroupPlan) -> Iterator[AskedLine]:
    """Yield what is judged together, from the pairs in the order of their lines."""
    for _, entries in groupby(pairs, key=lambda entry: entry[0].pair.item):
        line = list(entries)
        right = 1 + max(case.pair.places[0] for case, _ in line)
        wrong = 1 + max(case.pair.places[1] for case, _ in line)
        if not plan.is_listwise or right + wrong > plan.lists.list_size:
            for case, group in line:
                yield AskedLine([(case, 0, 1)], group)
            continue
        rollouts = dict.fromkeys(range(right + wrong), line[0][1].rollouts[0])
        cases = []
        for case, group in line:
            chosen = case.pair.places[0]
            rejected = right + case.pair.places[1]
            rollouts[chosen], rollouts[rejected] = group.rollouts
            cases.append((case, chosen, rejected))
        yield AskedLine(cases, Group(line[0][1].key, list(rollouts.values())))


def outcome_for(
    chosen: int, rejected: int, shown: Sequence[int], outcome: Outcome
) -> tuple[bool, Outcome] | None:
    """Return whether a request shows the chosen response of a pair before the other one, and its
    outcome for the pair; None if it does not show the pair.

    A request about one response shows the chosen one, or else the other one.
    """
    if len(shown) == 1:
        return shown[0] == chosen, outcome
    if chosen not in shown or rejected not in shown:
        return None
    result = outcome.result
    if isinstance(result, Grades):
        places = result.places or range(len(shown))
        graded = zip(places, result.values, strict=True)
        values = [value for place, value in graded if shown[place] in (chosen, rejected)]
        outcome = replace(outcome, result=Grades(tuple(values)) if len(values) == 2 else _LEFT_OUT)
    return shown.index(chosen) < shown.index(rejected), outcome


def without_cost(outcome: Outcome) -> Outcome:
    """Return an outcome whose cost counts for another pair of its list."""
    return replace(
        outcome,
        attempts=0,
        latency_s=0.0,
        prompt_tokens=0,
        completion_tokens=0,
        estimated_replies=0,
    )
