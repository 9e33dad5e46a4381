"""Groups that are judged without a judge's server, failed comparisons replaced as in a run."""

from collections.abc import Callable
from itertools import chain

from genrm_cli.groups.asking.replacements import iter_replacements
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, JudgePlan, RewardPlan
from genrm_cli.judging.requests import ExtraCalls, RequestId
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.settings.reward_settings import RewardSettings
from genrm_cli.verdicts import Outcome

_SHAPE = measure_text("", "x", with_style=False, as_gym=False)


def plan_of(pairing: PairingPlan, settings: RewardSettings) -> GroupPlan:
    """Return the plan of one judge."""
    return GroupPlan(pairing=pairing, judges=(JudgePlan("m"),), rewards=RewardPlan(settings))


def judge_in_stages(
    key: str, size: int, plan: GroupPlan, answer: Callable[[tuple[int, ...]], Outcome]
) -> JudgedGroup:
    """Judge a group of so many different responses."""
    fields = tuple(range(size)), (True,) * size, (None,) * size, "answer", [_SHAPE] * size
    extra = ExtraCalls(plan.extra_calls(size))
    group = JudgedGroup(key, size, None, *fields, extra=extra)
    planned = [RequestId(0, repeat, (i, j)) for i, j, repeat in plan.pairing.iter_pairs(size, key)]
    # A stage is planned once the results of the one before are there.
    for stage in chain([planned], iter_replacements(group, plan)):
        group.results += [(id_, answer(id_.shown)) for id_ in stage]
    group.sort()
    return group
