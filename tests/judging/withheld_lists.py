"""Listwise judges that give no score where a response would lose by it, and what it gains.

Quality is N(0, 1); a score in a list is 5.5 and 1.8 times the quality with N(0, 1) of noise, from 1
to 10. The judge writes its scores by the labels that it was shown, and the profile parses them.
Rollout 0 of each group withholds scores by a habit that the judge always obeys.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean, median
from typing import NamedTuple

from genrm_cli.groups.failures.caused_failures import verdicts_of
from genrm_cli.groups.failures.failure_test import FailureHistory
from genrm_cli.groups.failures.list_probes import iter_list_probes
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.profiles.families.listwise import PROFILE, list_labels
from genrm_cli.judging.requests import ListwisePrompt, Reply, RequestId
from genrm_cli.pairing.lists import ListPlan
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.verdicts import Failure, FailureKind, Outcome

SHAPE = measure_text("", "x", with_style=False, as_gym=False)
SILENT = "All of them answer in a few words."
REASKS = 3
_NOTHING = Failure(FailureKind.NOT_ASKED, "")

# Whether rollout 0 withholds, by its score and those of its list.
HABITS: Mapping[str, Callable[[float, Sequence[float]], bool]] = {
    "none": lambda own, every: False,
    "always": lambda own, every: True,
    "below the median": lambda own, every: own < median(every),
    "last": lambda own, every: own == min(every),
}


@dataclass(frozen=True, slots=True)
class World:
    """A run of groups.

    Attributes:
        failing: the share of replies without any score.
        omits: whether the judge leaves out the score of rollout 0 only, instead of all.
        quality: of rollout 0; None to draw it like the others.
    """

    size: int = 8
    repeats: int = 2
    failing: float = 0.01
    omits: bool = False
    quality: float | None = -1.0
    groups: int = 60


class Played(NamedTuple):
    """The result of a run.

    Attributes:
        advantage: mean of rollout 0, 0 without a reward.
        blamed: share of the groups in which rollout 0 is convicted.
        innocents: other rollouts that are convicted.
        extra: responses shown beyond the planned ones, as a share of these.
        unscored: share of rollouts without a reward.
    """

    advantage: float
    blamed: float
    innocents: int
    extra: float
    unscored: float


def play(world: World, habit: str = "none", seed: int = 1) -> Played:
    """Judge and reward the groups of a run."""
    pairing = PairingPlan("ring", repeats=world.repeats, max_extra=2.0)
    lists = ListPlan(repeats=world.repeats)
    grader = PROFILES["listwise"]
    plan = GroupPlan(pairing=pairing, lists=lists, judges=(JudgePlan("m", grader),))
    draw = random.Random(seed)
    everyone = tuple(range(world.size))
    fields = everyone, (True,) * world.size, (None,) * world.size, "answer", [SHAPE] * world.size
    statistics = CalibrationStatistics(is_listwise=plan.is_listwise)
    history = FailureHistory()
    found = []
    shown_count = planned_count = 0
    for number in range(world.groups):
        judge = _Judge(world, habit, draw)
        group = JudgedGroup(str(number), world.size, None, *fields)
        planned = list(lists.iter_lists(world.size, str(number)))
        planned_count += sum(len(shown) for shown, _ in planned)
        for stage in chain([planned], iter_list_probes(group, plan)):
            for shown, repeat in stage:
                outcome = judge.answer(shown)
                shown_count += len(shown)
                group.results.append((RequestId(0, repeat, shown), outcome))
        found.append(verdicts_of(group, plan))
        statistics.add_group(world.size, found[-1].used, found[-1].lists)
        history.add_group(found[-1].trials)
    calibration = replace(statistics.fit(), failures=history.fit())
    rewards = reward_verdicts(found, plan, calibration)
    scores = [score for each in rewards for score in each.scores]
    blamed = sum(each.scores[0].caused_failures > 0 for each in rewards)
    convicted = sum(score.caused_failures > 0 for score in scores)
    return Played(
        fmean(each.advantages[0] or 0.0 for each in rewards),
        blamed / world.groups,
        convicted if habit == "none" else convicted - blamed,
        shown_count / planned_count - 1,
        fmean(score.reward is None for score in scores),
    )


class _Judge:
    """The judge of one group."""

    def __init__(self, world: World, habit: str, draw: random.Random) -> None:
        self._world = world
        self._habit = HABITS[habit]
        self._draw = draw
        self._qualities = [draw.gauss(0, 1) for _ in range(world.size)]
        if world.quality is not None:
            self._qualities[0] = world.quality

    def answer(self, shown: tuple[int, ...]) -> Outcome:
        """Answer a request, and the further ones after a reply without a verdict."""
        prompt = ListwisePrompt([], tuple(f"Response {index}." for index in shown))
        labels = list_labels(prompt)
        reasks = -1
        result = _NOTHING
        while isinstance(result, Failure) and reasks < REASKS:
            reasks += 1
            scores = {
                index: min(
                    10.0, max(1.0, 5.5 + 1.8 * self._qualities[index] + self._draw.gauss(0, 1))
                )
                for index in shown
            }
            hides = 0 in shown and self._habit(scores[0], list(scores.values()))
            said = {
                label: round(scores[index], 1)
                for label, index in zip(labels, shown, strict=True)
                if not (hides and index == 0)
            }
            order = sorted(said, key=lambda label: -said[label])
            words = json.dumps({"scores": said, "best_to_worst": order})
            is_silent = self._draw.random() < self._world.failing
            if is_silent or (hides and not self._world.omits):
                words = SILENT
            result = PROFILE.parse_reply(Reply(words, finish_reason="stop"), prompt)
        if isinstance(result, Failure) and result.partial is not None:
            result = result.partial
        return Outcome(result, attempts=1 + reasks, reasks=reasks)
