"""Whatever a judge answers, a run ends: rewards are finite, and every figure can be computed."""

import math
from dataclasses import dataclass
from random import Random

import orjson
import pytest

from genrm_cli.catalog import ESTIMATORS
from genrm_cli.groups.comparisons import iter_further, plan_group, verdicts_of
from genrm_cli.groups.count_group import count_whole_group
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, JudgePlan, RewardPlan
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.requests import RequestId
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing.pairs import STRATEGIES, PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.shaping import TextShape
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.scored.json_form import to_json
from genrm_cli.settings.components import Shaping
from genrm_cli.settings.reward_settings import RewardSettings
from genrm_cli.settings.table import settings_from
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict

SHAPING = Shaping(answer_bonus=0.5, group_answer_length_penalty_coeff=0.1)
LOST = Failure(FailureKind.TIMEOUT, "none")
SETTINGS = settings_from(judge="lexical")
GRADER = PROFILES["nemotron-principle"]
TIE = Verdict(3.0, 3.0, 3.5)
SIZES = ((2,), (3, 5), (6,), (8,), (4, 4, 2), (12, 3, 1), (64, 2, 2, 2, 2, 2, 2, 2))
KINDS = ("ties", "first", "first", "one", "cycle", "decimal", "inverted", "useless", "quality")


@dataclass
class DrawnJudge:
    """A judge of one kind, which may grade instead of compare; `lean` is what the first gains."""

    kind: str
    grades: bool
    lean: float
    lost_share: float
    random: Random

    def compare(self, i: int, j: int) -> Verdict | Failure:
        """Return the verdict on two rollouts, whose quality their indices tell."""
        chance = self.random.random()
        gap = (7 * i % 5 - 7 * j % 5) / 2
        if self.random.random() < self.lost_share:
            return LOST
        if self.kind == "ties":
            return TIE
        if self.kind == "one":
            return Verdict(5.0, 1.0, 1.0) if (i, j) == (0, 1) else TIE
        if self.kind == "first":
            # Decimals leave rounding of 1e-17 where differences are all alike.
            second = round(1 + 3 * chance, 1)
            return Verdict(second + self.lean, second, 3.5 - self.lean)
        if self.kind == "cycle":
            return Verdict(4.0, 2.0, 2.0) if (j - i) % 3 == 1 else Verdict(2.0, 4.0, 5.0)
        if self.kind == "decimal":
            return Verdict(1 + 4 * chance, 5 - 4 * chance, 6 - 5 * chance)
        if self.kind == "useless":
            return Verdict(4.0, 3.0, 2.0) if chance < 0.5 else Verdict(3.0, 4.0, 5.0)
        gap = -gap if self.kind == "inverted" else gap + chance - 0.5
        return Verdict(3 + gap / 2, 3 - gap / 2, 3.5 - gap)

    def grade(self, index: int) -> Grades | Failure:
        """Return the grade of one rollout."""
        if self.random.random() < self.lost_share:
            return LOST
        return Grades((3.0 if self.kind in ("ties", "one") else 1.0 + 7 * index % 5,))


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


def judge_drawn(
    key: str, size: int, plan: GroupPlan, judges: list[DrawnJudge], equal_share: float
) -> JudgedGroup:
    """Judge a group; some of its texts may be equal."""
    random = judges[0].random
    copies = {i: i - 1 for i in range(1, size, 2)} if random.random() < equal_share else {}
    answered = tuple(index for index in range(size) if index not in copies)
    shapes = [TextShape(0, random.choice((0, 10, 300)), 0.0) for _ in range(size)]
    group = JudgedGroup(
        key, size, None, answered, (True,) * size, (None,) * size, "answer", shapes, copies=copies
    )

    def ask(pairs):
        for number, judge in enumerate(judges):
            for i, j, repeat in () if judge.grades else pairs:
                result = Outcome(judge.compare(i, j))
                group.results.append((RequestId(number, repeat, (i, j)), result))
        group.sort()

    if len(answered) > 1:
        ask(plan_group(key, answered, plan.pairing))
        for number, judge in enumerate(judges):
            for index in answered if judge.grades else ():
                for repeat in range(plan.pairing.repeats):
                    graded = Outcome(judge.grade(index))
                    group.results.append((RequestId(number, repeat, (index,)), graded))
        group.sort()
        for further in iter_further(group, plan):
            ask(further)
    return group


def check_run(seed: int) -> None:
    """Draw a run, and compute all that the last step of a job computes."""
    random = Random(seed)
    # Where groups are all alike, and nothing fails, sums that should cancel do, but for rounding.
    is_even = random.random() < 0.3
    plan = draw_plan(random, is_even=is_even)
    judges = [
        DrawnJudge(
            "first" if is_even else random.choice(KINDS),
            judge.grading is not None,
            random.choice((0.1, 0.7, 1.0)),
            0.0 if is_even else random.choice((0.0, 0.25)),
            random,
        )
        for judge in plan.judges
    ]
    sizes = (random.choice((6, 8)),) if is_even else random.choice(SIZES)
    count = random.choice((8, 12)) if is_even else random.choice((1, 2, 8, 8))
    groups = [
        judge_drawn(str(number), sizes[number % len(sizes)], plan, judges, 0.0 if is_even else 0.1)
        for number in range(count)
    ]
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
    check_runs(range(12))


@pytest.mark.slow
def test_a_thousand_runs_end():
    """The same claim, on more draws."""
    check_runs(range(1_000))


@pytest.mark.weekly
@pytest.mark.parametrize("part", range(1, 10))
def test_ten_thousand_runs_end(part):
    """The same claim, on more draws than a minute allows."""
    check_runs(range(1_000 * part, 1_000 * (part + 1)))
