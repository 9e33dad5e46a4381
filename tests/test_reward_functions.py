"""Rewards of a trainer's own functions: scaled by diversity, ranked and merged."""

import math

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


def test_a_group_may_agree_or_complement_itself():
    """The share of the majority for those who agree; tests that few pass are worth more."""
    assert genrm.consistency_rewards(["4", "4", None, "5"]) == [0.5, 0.5, 0.0, 0.0]
    assert genrm.complementarity_rewards([{"a"}, {"a", "b"}]) == [0.25, 0.75]


def test_negative_rewards_are_refused():
    """A share of a penalty would pay for copies."""
    texts = ["aaaa bbbb", "aaaa bbbb"]
    with pytest.raises(genrm.UsageError, match=r"reward is -1; expected 0 or more"):
        genrm.scale_by_diversity([-1.0, -1.0], texts)
    with pytest.raises(genrm.UsageError, match=r"length is -0\.5"):
        genrm.merge([{"length": -0.5}], [{"a": 1.0}])


def test_a_missing_reward_stays_missing_and_nan_is_none():
    """A reward of None, as `score` gives, has no share and no rank; NaN would put the others out of
    order.
    """
    texts = ["aaaa bbbb", "cccc dddd"]
    assert genrm.scale_by_diversity([None, 1.0], texts)[0] == [None, 1.0]
    assert genrm.merge([{"a": None}], [{"b": 1.0}]) == [{"a": None, "b": 1.0}]
    assert genrm.rank_rewards([0.5, None, 0.1]) == [1.0, None, 0.0]
    for refused in (
        lambda: genrm.rank_rewards([3.0, math.nan, 1.0]),
        lambda: genrm.scale_by_diversity([math.nan, 1.0], texts),
    ):
        with pytest.raises(genrm.UsageError, match=r"reward is (NaN|nan); expected"):
            refused()


def test_a_judge_may_say_which_responses_take_one_approach(judge_server):
    """As `[diversity]` of a file does; a judge that gives no clusters leaves each alone, or makes
    all one.
    """
    texts = ["Sort the list, then take the last.", "Use max().", "Order it and pick the end."]
    judge = {"base_url": judge_server.base_url, "model": "m", "api_key": "k", "probe": False}
    scaled, clusters = genrm.scale_by_diversity(
        [1.0, 1.0, 1.0], texts, method="llm", prompt="Find the largest.", **judge
    )
    assert scaled == [1 / clusters.count(each) for each in clusters]
    judge_server.behave(fault={"content": "No clusters."})
    for fallback, expected in (("unique", [1.0] * 3), ("uniform", [1 / 3] * 3)):
        alone, _ = genrm.scale_by_diversity(
            [1.0] * 3, texts, method="llm", fallback=fallback, **judge
        )
        assert alone == expected


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("similarity_threshold", "threshold"),
        ("fallback_on_error", "fallback"),
        ("comparison_strategy", "strategy"),
        ("num_rollouts_per_prompt", "cohort_size"),
        ("genrm_model_server", "base_url and model"),
    ],
)
def test_names_of_other_tools_are_answered_with_ours(name, ours):
    """In Python as in a file."""
    with pytest.raises(genrm.UsageError, match=f"Here it is {ours}"):
        genrm.Scorer(**{name: 1})
    with pytest.raises(genrm.UsageError, match=f"Here it is {ours}"):
        genrm.Scorer(judge="lexical", diversity={name: 1})
