"""Whatever a judge answers, a run ends: rewards are finite, and every figure can be computed."""

import asyncio
import math
from random import Random

import orjson
import pytest
from answering_judge import AnsweringJudge

from genrm_cli.catalog import ESTIMATORS
from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.count_group import count_whole_group
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.plan import GroupPlan, JudgePlan, RewardPlan
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.requests import JudgeRequest
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing.pairs import STRATEGIES, PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.scored.json_form import to_json
from genrm_cli.settings.components import Shaping
from genrm_cli.settings.reward_settings import RewardSettings
from genrm_cli.settings.table import settings_from
from genrm_cli.verdicts import Failure, FailureKind, Grades, Verdict

SHAPING = Shaping(answer_bonus=0.5, group_answer_length_penalty_coeff=0.1)
LOST = Failure(FailureKind.TIMEOUT, "none")
SETTINGS = settings_from(judge="lexical")
GRADER = PROFILES["nemotron-principle"]
TIE = Verdict(3.0, 3.0, 3.5)
SIZES = ((2,), (3, 5), (6,), (8,), (4, 4, 2), (12, 3, 1), (64, 2, 2, 2, 2, 2, 2, 2))
KINDS = ("ties", "first", "first", "one", "cycle", "decimal", "inverted", "useless", "quality")


def draw_judge(random: Random, kind: str, lean: float, lost_share: float) -> AnsweringJudge:
    """Draw a judge of one kind; `lean` is what the first gains."""

    def answer(request: JudgeRequest) -> Verdict | Grades | Failure:
        # The index of a rollout tells its quality.
        places = [int(text.partition(" ")[0]) for text in request.prompt.responses]
        if random.random() < lost_share:
            return LOST
        if len(places) == 1:
            return Grades((3.0 if kind in ("ties", "one") else 1.0 + 7 * places[0] % 5,))
        return compare(*places)

    def compare(i: int, j: int) -> Verdict:
        chance = random.random()
        gap = (7 * i % 5 - 7 * j % 5) / 2
        if kind == "ties":
            return TIE
        if kind == "one":
            return Verdict(5.0, 1.0, 1.0) if (i, j) == (0, 1) else TIE
        if kind == "first":
            # Decimals leave rounding of 1e-17 where differences are all alike.
            second = round(1 + 3 * chance, 1)
            return Verdict(second + lean, second, 3.5 - lean)
        if kind == "cycle":
            return Verdict(4.0, 2.0, 2.0) if (j - i) % 3 == 1 else Verdict(2.0, 4.0, 5.0)
        if kind == "decimal":
            return Verdict(1 + 4 * chance, 5 - 4 * chance, 6 - 5 * chance)
        if kind == "useless":
            return Verdict(4.0, 3.0, 2.0) if chance < 0.5 else Verdict(3.0, 4.0, 5.0)
        gap = -gap if kind == "inverted" else gap + chance - 0.5
        return Verdict(3 + gap / 2, 3 - gap / 2, 3.5 - gap)

    return AnsweringJudge(answer)


def draw_plan(random: Random, *, is_even: bool) -> GroupPlan:
    """Draw a strategy, an estimator, an advantage, a goal, a panel and the defaults of `compat`."""
    is_gym = random.random() < 0.3
    profile = GRADER if random.random() < 0.2 else None
    judges = tuple(
        JudgePlan(f"judge {number}", profile) for number in range(random.choice((1, 1, 2, 3)))
    )
    if is_even:
        judges = (JudgePlan("judge"),)
    is_directed = not is_gym and len(judges) == 1 and judges[0].grading is None
    pairing = PairingPlan(
        random.choice((*STRATEGIES, "all_pairs", "ring")),
        ring_k=random.choice((0.5, 1.0, 2.0, 2.0, 3.0)),
        both_orders=random.random() < 0.25,
        repeats=random.choice((1, 1, 2)),
    )
    if is_even:
        pairing = PairingPlan(ring_k=random.choice((2.0, 3.0)))
    elif is_directed and random.random() < 0.25:
        goal = random.choice(("best", "pair"))
        pairing = PairingPlan(ring_k=random.choice((1.0, 2.0)), goal=goal)
    is_shaped = random.random() < 0.3
    rewards = RewardSettings(
        estimator="simple_tiebreaker" if is_gym else random.choice(sorted(ESTIMATORS)),
        advantage=random.choice(("unit", "pooled", "reliability", "raw")),
        min_reliability=random.choice((None, None, 0.5)),
        default_score=3.0 if is_gym else None,
        unscored="lowest" if random.random() < 0.2 else "null",
        shaping=SHAPING if is_shaped else Shaping(),
    )
    return GroupPlan(
        pairing=pairing,
        judges=judges,
        rewards=RewardPlan(rewards),
        default=Verdict(3.0, 3.0, 3.5, defaulted=True) if is_gym else None,
        shows_as_gym=is_gym,
    )


def draw_group(random: Random, key: str, size: int, equal_share: float) -> Group:
    """Draw a group; some of its texts may be equal."""
    texts = [f"{index} {'word ' * random.choice((0, 2, 60))}" for index in range(size)]
    if random.random() < equal_share:
        texts[1::2] = texts[: size - 1 : 2]
    return Group.of("Why?", texts, key=key)


async def judge_run(random: Random, plan: GroupPlan, *, is_even: bool) -> list[JudgedGroup]:
    """Draw groups and judges, and let these judge those."""
    judges = [
        draw_judge(
            random,
            "first" if is_even else random.choice(KINDS),
            random.choice((0.1, 0.7, 1.0)),
            0.0 if is_even else random.choice((0.0, 0.25)),
        )
        for _ in plan.judges
    ]
    sizes = (random.choice((6, 8)),) if is_even else random.choice(SIZES)
    count = random.choice((8, 12)) if is_even else random.choice((1, 2, 8, 8))
    judged = []
    for number in range(count):
        size = sizes[number % len(sizes)]
        group = draw_group(random, str(number), size, 0.0 if is_even else 0.1)
        judged.append(await judge_group(group, plan, JudgeSet(judges)))
    return judged


def check_run(seed: int) -> None:
    """Draw a run, and compute all that the last step of a job computes."""
    random = Random(seed)
    # Where groups are all alike, and nothing fails, sums that should cancel do, but for rounding.
    is_even = random.random() < 0.3
    plan = draw_plan(random, is_even=is_even)
    groups = asyncio.run(judge_run(random, plan, is_even=is_even))
    judged = [verdicts_of(group, plan) for group in groups]
    statistics = CalibrationStatistics()
    for verdicts in judged:
        statistics.add_group(verdicts.judged.size, verdicts.used)
    metrics = RunMetrics()
    metrics.verdict_sums = statistics.numbers()
    for group, rewards in zip(groups, reward_verdicts(judged, plan, statistics.fit()), strict=True):
        for line in rewards.scores:
            assert orjson.dumps(to_json(line))
            assert (line.reward is None) == (line.reason is not None)
            for number in (line.reward, line.advantage, line.standard_error):
                assert number is None or math.isfinite(number)
        metrics.group_sizes[group.size] += 1
        count_whole_group(metrics, group, rewards, plan)
    totals = run_totals(SETTINGS, metrics, plan, (), 1.0)
    assert totals.failed_figures is None, totals.failed_figures
    low, high = totals.reliability_interval or (0.0, 1.0)
    assert 0 <= low <= high <= 1
    # JSON has neither NaN nor infinity: orjson would write null for them.
    assert "NaN" not in str(to_json(totals))


def check_runs(seeds: range) -> None:
    """Check many runs; the first that fails is named."""
    for seed in seeds:
        try:
            check_run(seed)
        except Exception as error:
            error.add_note(f"check_run({seed})")
            raise


def test_any_verdicts_give_a_run_that_ends():
    """Ties, cycles, decimals, grades, useless and inverted judges, panels, lost verdicts and equal
    texts, under every strategy, estimator, advantage and goal, and with the defaults of `compat`.
    """
    check_runs(range(7))


@pytest.mark.slow
def test_many_runs_end():
    """The same claim, on more draws."""
    check_runs(range(250))


@pytest.mark.weekly
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_runs_end(part):
    """The same claim, on more draws than a minute allows."""
    check_runs(range(1_000 * part, 1_000 * (part + 1)))
