"""Plan the lists that replace failed ones, and that show which text causes failures.

A list that got no verdict at its first reply is replaced by lists of half its responses, and those
that fail are replaced in turn, down to pairs. So every rollout keeps scores, and a text that makes
its lists fail is in every failed list, each time among others. Least squares joins the scores. As
with pairs, the stages depend on the results of the group alone, and the test that convicts
(`failure_test.py`) is valid whatever was asked.
"""

from collections.abc import Iterator
from math import floor

from genrm_cli.groups.failures.failure_test import trials_of
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.pairing.lists import ListPlan, RolloutList

# With fewer repeats, too few lists may be asked to convict any text.
_LEAST_REPEATS = 2
_SMALLEST_SPLIT = 4  # smaller lists are replaced by pairs, as a half of one response says nothing


def iter_list_probes(judged: JudgedGroup, plan: GroupPlan) -> Iterator[list[RolloutList]]:
    """Yield the further lists by stages; the results of each must be there for the next.

    Together they show at most `max_extra` times as many responses as two repeats do, or as the
    planned ones if there are more.
    """
    repeats = max(plan.pairing.repeats, _LEAST_REPEATS)
    left = floor(plan.pairing.max_extra * repeats * len(judged.answered))
    repeat = repeats  # no plan has it or a later one, so that each request is new
    replaced: set[tuple[int, tuple[int, ...]]] = set()
    while plan.tests_failures:
        stage: list[RolloutList] = []
        for trial in trials_of(judged, plan):
            failed = trial.request.repeat, trial.shown
            if not trial.has_failed or failed in replaced:
                continue
            replaced.add(failed)
            # One way leaves the halves unconnected, unless another planned list joins them.
            is_planned = trial.request.repeat < plan.pairing.repeats
            is_joined = (
                is_planned and plan.pairing.repeats > 1 and len(trial.shown) > _SMALLEST_SPLIT
            )
            for shown in _parts_of(trial.shown, 1 if is_joined else 2, plan.lists.seed):
                if len(shown) <= left:
                    left -= len(shown)
                    stage.append(RolloutList(shown, repeat))
                    repeat += 1
        if not stage:
            return
        yield stage


def _parts_of(shown: tuple[int, ...], ways: int, seed: int) -> list[tuple[int, ...]]:
    count = len(shown)
    if count < _SMALLEST_SPLIT:
        return [(shown[(place + 1) % count], index) for place, index in enumerate(shown)]
    # The order of the list, which differs from that of others, decides.
    halves = ListPlan(-(-count // 2), ways, seed).iter_lists(count, f"{shown}")
    return [tuple(shown[place] for place in part) for part, repeat in halves if repeat < ways]
