"""What withholding verdicts gains, and what failures at random cost: the guide's figures."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from withholding import PLANS, World, play

import genrm_cli

PAGE = Path(genrm_cli.__file__).parent / "guide" / "evidence.md"


def cells_of(row):
    """Return the figures in a row of the guide's table, cell by cell."""
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {row}, K"))
    return [[float(each) for each in re.findall(r"[+-]?\.\d\d", cell)] for cell in line.split("|")]


def test_failures_at_random_cost_few_rewards():
    """With a twentieth of the replies without a verdict, one rollout in two hundred has no reward;
    without failures nobody is asked again.
    """
    failing = play(World(failing=0.05, groups=60))
    assert failing.unscored < 0.005
    assert 1.03 < failing.calls < 1.1
    assert play(World(failing=0.0, groups=5)).calls == 1


@pytest.mark.slow
@pytest.mark.parametrize("row", PLANS)
def test_the_guide_says_what_withholding_gains(row):
    """Verdicts as they come, complete or unscored, and with `--unscored lowest`."""
    world, obeyed = PLANS[row]
    rules = ({"max_extra": 0.0, "min_verdicts": 0.0}, {}, {"unscored": "lowest"})
    for rule, told in zip(rules, cells_of(row)[2:5], strict=True):
        leads = [play(replace(world, obeyed=count, **rule)).lead for count in obeyed]
        assert leads == pytest.approx(told, abs=0.006)


@pytest.mark.slow
def test_the_guide_says_what_failures_at_random_cost():
    """In groups of eight, with one ring; and where half of all replies about a prompt fail."""
    played = [play(World(failing=failing, groups=1_000)) for failing in (0.01, 0.05, 0.1, 0.3)]
    calls = ", ".join(f"{each.calls:.2f}" for each in played[:3])
    text = " ".join(PAGE.read_text().split())
    assert f"in one ring take {calls} and {played[3].calls:.2f} times the planned calls" in text
    shares = [100 * each.unscored for each in played]
    assert shares == pytest.approx([0.0, 0.1, 0.4, 9.0], abs=0.35)
    assert "and 0, .1, .4 and 9 % of their rollouts stay unscored" in text
    hard = [play(World(failing_prompts=0.2, groups=1_000, rings=rings)).hard for rings in (1, 2)]
    assert f"{hard[0]:.0%} do, and {hard[1]:.0%} with two rings".replace("%", " %") in text
