"""Judges that give no verdict where some responses would lose by it, and what these gain.

Quality is N(0, 1); the judge sees the difference of two with N(0, 0.8) of noise, and writes its
verdict in the words of its family, which the profile parses. The first `obeyed` rollouts of each
group withhold each verdict by which one of them would lose; other replies fail at random. Failed
comparisons are replaced as in a run.
"""

import random
from dataclasses import dataclass
from functools import cache
from itertools import chain
from statistics import fmean
from typing import NamedTuple

from reply_readers import READERS, UNQUOTED
from staged_groups import judge_in_stages, plan_of

from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.requests import Reply
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.settings.reward_settings import RewardSettings
from genrm_cli.verdicts import MIDDLE_RANKING, Failure, Outcome, Verdict, preference

FAMILY = "arena-hard"
SILENT = "Both responses answer in a few words."


@dataclass(frozen=True, slots=True)
class World:
    """A run of groups of one size.

    Attributes:
        obeyed: rollouts of each group that withhold verdicts.
        failing: the share of the other replies without a verdict.
        failing_prompts: the share of groups in which half of all replies have none.
    """

    size: int = 8
    strategy: str = "ring"
    rings: float = 1
    obeyed: int = 0
    failing: float = 0.01
    failing_prompts: float = 0.0
    groups: int = 400
    max_extra: float = 1.0
    min_verdicts: float = 0.75
    unscored: str = "null"


class Played(NamedTuple):
    """The result of a run.

    Attributes:
        lead: mean advantage of the rollouts that withhold less that of the others; one without a
            reward counts 0.
        unscored: share of the other rollouts without a reward; `hard` is their share in the groups
            of failing prompts.
        calls: calls made, as a multiple of those planned.
    """

    lead: float
    unscored: float
    hard: float
    calls: float


def play(world: World, seed: int = 1) -> Played:
    """Judge and reward the groups of a run."""
    pairing = PairingPlan(world.strategy, ring_k=world.rings, max_extra=world.max_extra)
    settings = RewardSettings(min_verdicts=world.min_verdicts, unscored=world.unscored)
    plan = plan_of(pairing, settings)
    draw = random.Random(seed)
    statistics = CalibrationStatistics()
    found = []
    calls = 0
    for number in range(world.groups):
        group = _judged(world, plan, str(number), draw)
        calls += len(group.results)
        found.append(verdicts_of(group, plan))
        statistics.add_group(world.size, found[-1].used)
    rewards = reward_verdicts(found, plan, statistics.fit())
    obeyed = range(world.obeyed)
    own = [each.advantages[index] or 0.0 for each in rewards for index in obeyed]
    others = [each.advantages[world.obeyed :] for each in rewards]
    hard = round(world.failing_prompts * world.groups)
    missing = [[advantage is None for advantage in each] for each in others]
    return Played(
        fmean(own or [0.0]) - fmean(advantage or 0.0 for each in others for advantage in each),
        fmean(chain.from_iterable(missing)),
        fmean(chain.from_iterable(missing[:hard])) if hard else 0.0,
        calls / (world.groups * pairing.count(world.size)),
    )


def _judged(world: World, plan: GroupPlan, key: str, draw: random.Random) -> JudgedGroup:
    qualities = [draw.gauss(0, 1) for _ in range(world.size)]
    is_hard = int(key) < world.failing_prompts * world.groups
    failing = 0.5 if is_hard else world.failing

    def answer(shown: tuple[int, ...]) -> Outcome:
        i, j = shown
        lead = qualities[i] - qualities[j] + draw.gauss(0, 0.8)
        words = _words_for(round(lead, 1))
        by_words = preference(_parsed(words))
        is_hidden = (i < world.obeyed and by_words < 0) or (j < world.obeyed and by_words > 0)
        is_silent = is_hidden or draw.random() < failing
        return Outcome(_parsed(SILENT if is_silent else words))

    return judge_in_stages(key, world.size, plan, answer)


@cache
def _words_for(lead: float) -> str:
    """Return the words that are nearest to a lead of one label for each unit."""
    says = READERS[FAMILY].says

    def labels(words: str) -> float:
        return (preference(says[words]) + MIDDLE_RANKING - says[words].ranking) / 3.5

    return min(says, key=lambda words: abs(labels(words) - lead))


@cache
def _parsed(words: str) -> Verdict | Failure:
    profile, family = READERS[FAMILY]
    said = f"{words}{family.after}{SILENT}" if family.before is None else f"{SILENT}\n{words}"
    result = profile.parse_reply(
        Reply(SILENT if words == SILENT else said, finish_reason="stop"), UNQUOTED
    )
    assert words == SILENT or result == family.says[words]
    return result


PLANS = {
    "4, one ring": (World(4), (1, 2)),
    "8, one ring": (World(8), (1, 2, 4)),
    "8, two rings": (World(8, rings=2), (1, 2, 4)),
    "16, one ring": (World(16), (1, 2, 4)),
    "8, all pairs": (World(8, "all_pairs"), (1, 2, 4)),
}
"""The rows of the guide's table: the group and its plan, and the numbers of texts that withhold."""
