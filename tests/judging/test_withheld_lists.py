"""Scores that a response withholds in lists do not pay, and innocent texts are not blamed."""

import pytest
from withheld_lists import World, play


def gain_of(world, habit):
    """Return by how much a habit raises the advantage of rollout 0."""
    return play(world, habit).advantage - play(world).advantage


@pytest.mark.parametrize("world", [World(), World(omits=True), World(repeats=1), World(size=4)])
def test_a_text_that_fails_every_list_is_convicted_and_loses(world):
    """Whether the judge says nothing or leaves its score out, and even if every planned list
    fails.
    """
    played = play(world, "always")
    assert played.blamed > 0.9
    assert played.unscored < 0.05
    assert gain_of(world, "always") < -0.1


@pytest.mark.parametrize(("size", "most"), [(8, 0.15), (16, -0.1)])
def test_a_bad_text_that_hides_its_low_scores_gains_little(size, most):
    """It is convicted in most groups, although it is in every one."""
    world = World(size=size)
    assert play(world, "below the median").blamed > 0.5
    assert gain_of(world, "below the median") < most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "most"),
    [(World(groups=200), 0.25), (World(size=4, groups=200), 0.4), (World(size=16), 0.1)],
)
@pytest.mark.parametrize("habit", ["always", "below the median", "last"])
def test_no_habit_pays_a_bad_text_more_than_the_guide_says(world, most, habit):
    """With a text in every group."""
    assert gain_of(world, habit) < most


def test_lists_that_fail_by_chance_blame_nobody():
    """Further lists grow with the share of failures."""
    honest = [
        play(World(groups=100, failing=failing, quality=None)) for failing in (0.0, 0.02, 0.1)
    ]
    assert [each.innocents for each in honest] == [0, 0, 0]
    assert honest[0].extra == 0 < honest[1].extra < honest[2].extra < 0.3
    assert [each.unscored for each in honest] == [0, 0, 0]


@pytest.mark.slow
def test_innocent_texts_of_lists_are_hardly_ever_blamed():
    """At most 1 of 10,000, whatever share of the replies fails."""
    blamed = 0
    for failing, size in [(0.01, 8), (0.05, 4), (0.1, 8), (0.3, 8), (0.1, 16)]:
        world = World(size=size, failing=failing, quality=None, groups=4_000 // size)
        blamed += play(world).innocents
    assert blamed <= 3  # 2 are expected of 20,000 at the bound
