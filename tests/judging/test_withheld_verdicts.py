"""Verdicts that a response withholds do not pay, and innocent texts are not blamed."""

import pytest
from withholding import HABITS, World, play


def gain_of(world, habit):
    """Return by how much a habit raises the advantage of rollout 0."""
    return play(world, habit).advantage - play(world).advantage


def test_a_text_that_hides_its_losses_loses_by_it():
    """It is convicted in most groups, although it is in every one; in groups of four it gains
    nothing.
    """
    world = World(groups=60)
    assert play(world, "loses").blamed > 0.5
    assert gain_of(world, "loses") < -0.2
    for habit in ("loses", "HTTP 500"):
        assert gain_of(World(size=4, groups=120), habit) < 0.1


def test_failures_by_chance_blame_nobody():
    """Further calls grow with the share of failures."""
    honest = [
        play(World(groups=100, failing=failing, quality=None)) for failing in (0.0, 0.02, 0.1)
    ]
    assert [each.innocents for each in honest] == [0, 0, 0]
    assert honest[0].extra == 0 < honest[1].extra < honest[2].extra < 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("habit", [name for name in HABITS if name != "none"])
def test_no_habit_pays_a_bad_text(habit, size):
    """Nor one that is silent in every group only in half of its losses."""
    assert gain_of(World(size=size), habit) < 0.15


@pytest.mark.slow
def test_innocent_texts_are_hardly_ever_blamed():
    """At most 1 of 10,000, whatever share of the replies fails, and if all repeats fail."""
    blamed = rollouts = 0
    for failing, again, size in [
        (0.01, 0.3, 8),
        (0.05, 1.0, 8),
        (0.1, 0.5, 8),
        (0.3, 0.5, 8),
        (0.1, 0.3, 4),
        (0.05, 0.3, 16),
    ]:
        world = World(
            size=size, failing=failing, failing_again=again, quality=None, groups=8_000 // size
        )
        blamed += play(world).innocents
        rollouts += 8_000
    assert blamed <= 5  # 4.8 are expected of 48,000 at the bound
