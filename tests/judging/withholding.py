"""Judges that give no verdict where a response would lose by it, and what that response gains.

Quality is N(0, 1); the judge sees the difference of two, .2 for the first position and N(0, 1) of
noise, and writes its verdict in the words of its family, which the profile parses. Rollout 0 of
each group withholds verdicts by a habit that the judge always obeys. Other replies fail at random.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from statistics import fmean
from typing import NamedTuple

from reply_readers import READERS, UNQUOTED

from genrm_cli.groups.failures.caused_failures import verdicts_of
from genrm_cli.groups.failures.failure_test import FailureHistory
from genrm_cli.groups.failures.probes import iter_probes
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.requests import Reply, RequestId
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.verdicts import MIDDLE_RANKING, Failure, FailureKind, Outcome, Verdict, preference

SHAPE = measure_text("", "x", with_style=False, as_gym=False)
SILENT = "Both responses answer in a few words."
REASKS = 3
_NOTHING = Failure(FailureKind.NOT_ASKED, "")
_BROKEN = Outcome(Failure(FailureKind.HTTP, "500"), attempts=3)


class Seen(NamedTuple):
    """What a habit may depend on: the lead of rollout 0, its position and its opponent."""

    lead: float
    is_first: bool
    opponent: float
    chance: float


HABITS: Mapping[str, Callable[[Seen], bool]] = {
    "none": lambda seen: False,
    "loses": lambda seen: seen.lead < 0,
    "first and loses": lambda seen: seen.is_first and seen.lead < 0,
    "second and loses": lambda seen: not seen.is_first and seen.lead < 0,
    "first": lambda seen: seen.is_first,
    "clear losses": lambda seen: seen.lead < -1,
    "strong opponents": lambda seen: seen.opponent > 0.5,
    "half of its losses": lambda seen: seen.lead < 0 and seen.chance < 0.5,
    "HTTP 500": lambda seen: seen.lead < 0,
}


@dataclass(frozen=True, slots=True)
class World:
    """A run of groups of one size.

    Attributes:
        family: of the judge.
        failing: the share of replies without a verdict.
        failing_again: their share among replies to texts for which one had none.
        quality: of rollout 0; None to draw it like the others.
    """

    size: int = 8
    rings: float = 1
    family: str = "arena-hard"
    failing: float = 0.01
    failing_again: float = 0.3
    quality: float | None = -1.0
    groups: int = 400
    both_orders: bool = False


class Played(NamedTuple):
    """The result of a run.

    Attributes:
        advantage: mean of rollout 0, 0 without a reward.
        blamed: share of the groups in which rollout 0 is convicted.
        innocents: other rollouts that are convicted.
        extra: calls beyond the planned comparisons, as a share of these.
    """

    advantage: float
    blamed: float
    innocents: int
    extra: float


def play(world: World, habit: str = "none", seed: int = 1) -> Played:
    """Judge and reward the groups of a run."""
    pairing = PairingPlan("ring", ring_k=world.rings, both_orders=world.both_orders, max_extra=2.0)
    plan = GroupPlan(pairing=pairing, judges=(JudgePlan("m"),))
    draw = random.Random(seed)
    everyone = tuple(range(world.size))
    fields = everyone, (True,) * world.size, (None,) * world.size, "answer", [SHAPE] * world.size
    statistics = CalibrationStatistics()
    history = FailureHistory()
    found = []
    calls = 0
    planned_calls = 0
    for number in range(world.groups):
        judge = _Judge(world, habit, draw)
        group = JudgedGroup(str(number), world.size, None, *fields)
        planned = [*pairing.iter_pairs(world.size, group.key)]
        planned_calls += len(planned)
        for stage in chain([planned], iter_probes(group, plan)):
            for i, j, repeat in stage:
                outcome = judge.answer(i, j)
                calls += 1 + outcome.reasks
                group.results.append((RequestId(0, repeat, (i, j)), outcome))
        found.append(verdicts_of(group, plan))
        statistics.add_group(world.size, found[-1].used)
        history.add_group(found[-1].trials)
    calibration = replace(statistics.fit(), failures=history.fit())
    rewards = reward_verdicts(found, plan, calibration)
    blamed = sum(each.scores[0].caused_failures > 0 for each in rewards)
    convicted = sum(score.caused_failures > 0 for each in rewards for score in each.scores)
    return Played(
        fmean(each.advantages[0] or 0.0 for each in rewards),
        blamed / world.groups,
        convicted if habit == "none" else convicted - blamed,
        calls / planned_calls - 1,
    )


class _Judge:
    """The judge of one group."""

    def __init__(self, world: World, habit: str, draw: random.Random) -> None:
        self._world = world
        self._habit = habit
        self._draw = draw
        self._qualities = [draw.gauss(0, 1) for _ in range(world.size)]
        if world.quality is not None:
            self._qualities[0] = world.quality
        self._failed = set[tuple[int, int]]()

    def answer(self, i: int, j: int) -> Outcome:
        """Answer a request, and the further ones after a reply without a verdict."""
        reasks = -1
        result = _NOTHING
        while isinstance(result, Failure) and reasks < REASKS:
            reasks += 1
            lead = self._qualities[i] - self._qualities[j] + 0.2 + self._draw.gauss(0, 1)
            is_hidden = 0 in (i, j) and self._hides(i, j, lead)
            if is_hidden and self._habit == "HTTP 500":
                return replace(_BROKEN)
            often = (i, j) in self._failed
            share = self._world.failing_again if often else self._world.failing
            is_silent = is_hidden or self._draw.random() < share
            if is_silent:
                self._failed.add((i, j))
            words = SILENT if is_silent else _words_for(self._world.family, round(lead, 1))
            result = _parsed(self._world.family, words)
        return Outcome(result, attempts=1 + reasks, reasks=reasks)

    def _hides(self, i: int, j: int, lead: float) -> bool:
        seen = Seen(
            lead=lead if i == 0 else -lead,
            is_first=i == 0,
            opponent=self._qualities[j if i == 0 else i],
            chance=self._draw.random(),
        )
        return HABITS[self._habit](seen)


@cache
def _words_for(family: str, lead: float) -> str:
    """Return the words that are nearest to a lead of one label for each unit."""
    says = READERS[family][1].says

    def labels(words: str) -> float:
        ranking = says[words].ranking
        return (preference(says[words]) + MIDDLE_RANKING - ranking) / 3.5

    return min(says, key=lambda words: abs(labels(words) - lead))


@cache
def _parsed(name: str, words: str) -> Verdict | Failure:
    profile, family = READERS[name]
    if words == SILENT:
        return profile.parse_reply(Reply(words, finish_reason="stop"), UNQUOTED)
    said = f"{words}{family.after}{SILENT}" if family.before is None else f"{SILENT}\n{words}"
    result = profile.parse_reply(Reply(said, finish_reason="stop"), UNQUOTED)
    assert result == family.says[words]
    return result
