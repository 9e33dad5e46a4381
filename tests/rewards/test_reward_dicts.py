"""Rewards of a trainer's own functions: scaled by diversity, ranked and merged."""

import pytest

import genrm_cli as genrm


def test_near_duplicates_share_their_reward():
    """Numbers and dictionaries are divided by the size of the cluster, whatever is in it."""
    texts = ["The tide comes from the moon.", "The tide comes from the moon!", "Ask a sailor."]
    scaled, clusters = genrm.scale_by_diversity([1.0, 1.0, 0.5], texts)
    assert (scaled, clusters) == ([0.5, 0.5, 0.5], [0, 0, 1])
    parts, _ = genrm.scale_by_diversity([{"a": 1.0, "b": 2.0}] * 2, texts[:2])
    assert parts == [{"a": 0.5, "b": 1.0}] * 2
    with pytest.raises(genrm.UsageError, match="1 rewards for 3 texts"):
        genrm.scale_by_diversity([1.0], texts)


def test_ranks_go_from_worst_to_best():
    """0 is the worst, 1 the best, and ties share the mean."""
    assert genrm.rank_rewards([0.2, 0.9, 0.2]) == [0.25, 1.0, 0.25]


def test_components_are_merged_by_rollout():
    """A name that two functions give is refused, as are groups of different sizes."""
    assert genrm.merge([{"a": 1.0}, {"a": 2.0}], [{"b": 3.0}, {}]) == [
        {"a": 1.0, "b": 3.0},
        {"a": 2.0},
    ]
    with pytest.raises(genrm.UsageError, match="two rewards have a component 'a'"):
        genrm.merge([{"a": 1.0}], [{"a": 2.0}])
    with pytest.raises(genrm.UsageError, match="groups of 1, 2 rollouts"):
        genrm.merge([{"a": 1.0}], [{"b": 1.0}, {}])
