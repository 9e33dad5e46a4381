"""Base scores and terms to rewards, ranks and advantages."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdict_rows import verdicts_of

from genrm_cli.catalog import ADVANTAGES
from genrm_cli.rewards.compose import advantages_of, compose_rewards, ranks_of, weight_of
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import estimate
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.settings.components import Shaping
from genrm_cli.settings.reward_settings import PRESETS

FINITE = st.floats(-10, 10)
TERMS = Shaping(**PRESETS["nemotron-3-super"])


@st.composite
def groups(draw, unscored=False):
    """Draw base scores, reasonings and answers; no two texts are equally long, so that one is the
    shortest.
    """
    n = draw(st.integers(2, 8))
    scores = draw(st.lists(st.none() | FINITE if unscored else FINITE, min_size=n, max_size=n))
    lengths = [
        draw(st.lists(st.integers(0, 40), min_size=n, max_size=n, unique=True)) for _ in range(2)
    ]
    answers = [
        "# " + "a" * (length - 2) if length % 2 and length > 2 else "a" * length
        for length in lengths[1]
    ]
    reasonings = ["r" * length for length in lengths[0]]
    return scores, [measure_text(*texts) for texts in zip(reasonings, answers, strict=True)]


def rewards_of(composed):
    """Return the rewards alone."""
    return [numbers.reward for numbers in composed]


def test_the_seed_example():
    """Verdicts (0,1): 1, 5, 6 and (1,0): 4, 1, 1 with an answer length coefficient of 0.05."""
    verdicts = verdicts_of([(0, 1, 1, 5, 6), (1, 0, 4, 1, 1)])
    answers = [
        "SKILL is a verb meaning to kill.",
        "Skill refers to the ability to perform a task well.",
    ]
    terms = Shaping(group_answer_length_penalty_coeff=0.05)
    composed = compose_rewards(
        estimate("simple_tiebreaker", 2, verdicts, Calibration()).base_scores,
        [measure_text("", answer) for answer in answers],
        terms,
    )
    assert rewards_of(composed) == pytest.approx([1.025, 4.475])
    assert [numbers.rank for numbers in composed] == [2, 1]


@given(groups(unscored=True))
def test_an_unscored_rollout_changes_nothing_for_the_others(group):
    """Without the unscored ones the others have exactly the same numbers."""
    composed = compose_rewards(*group, TERMS)
    kept = [place for place, score in enumerate(group[0]) if score is not None]
    alone = compose_rewards(*([column[place] for place in kept] for column in group), TERMS)
    assert [composed[place] for place in kept] == alone


@given(groups(unscored=True))
def test_an_unscored_rollout_has_no_number(group):
    """Base score, reward, rank and advantage are None together, or none of them is."""
    for score, numbers in zip(group[0], compose_rewards(*group, TERMS), strict=True):
        given = (
            numbers.base_score,
            numbers.reward,
            numbers.rank,
            numbers.advantage,
        )
        assert given == (None,) * 4 if score is None else None not in given
        assert score is not None or numbers.adjustments.total() == 0.0


def test_a_group_without_any_score():
    """Nothing is made up where nothing is known."""
    for scores in [[], [None], [None, None]]:
        composed = compose_rewards(scores, [measure_text("", "")] * len(scores), TERMS)
        assert rewards_of(composed) == scores


@given(groups())
def test_a_reward_is_its_base_score_and_its_adjustments(group):
    """The parts in the output add up to the reward."""
    for score, numbers in zip(group[0], compose_rewards(*group, TERMS), strict=True):
        assert numbers.base_score == score
        assert numbers.reward == pytest.approx(score + sum(numbers.adjustments.as_dict().values()))


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_advantages_are_standard_scores_or_all_zero(rewards):
    """Mean 0 and sample standard deviation 1, in the order of the rewards; all 0 without spread."""
    advantages = advantages_of(rewards)
    assert all(math.isfinite(advantage) for advantage in advantages)
    if len(set(rewards)) == 1:
        assert advantages == [0.0] * len(rewards)
    elif any(advantages):
        assert statistics.fmean(advantages) == pytest.approx(0, abs=1e-6)
        assert statistics.stdev(advantages) == pytest.approx(1)
        pairs = sorted(zip(rewards, advantages, strict=True))
        assert [advantage for _, advantage in pairs] == sorted(advantages)
    else:
        assert max(rewards) - min(rewards) <= 1e-8


def test_equal_rewards_share_the_better_rank():
    """1 is the best; after two first ones comes the third."""
    cases = [
        ([], []),
        ([3], [1]),
        ([1, 3, 2], [3, 1, 2]),
        ([2, 2, 1], [1, 1, 3]),
        ([1, 2, 2, 3], [4, 2, 2, 1]),
    ]
    for rewards, ranks in cases:
        assert ranks_of(rewards) == ranks


@given(st.floats(1e-3, 1e3), st.floats(0, 1e3), st.floats(0, 1))
def test_the_weights_of_advantages(variance, pool, reliability):
    """Each is that of its formula; groups of the run's spread have unit variance when pooled, and
    flat ones none.
    """
    weights = {kind: weight_of(kind, variance, pool, reliability) for kind in ADVANTAGES}
    deviation = math.sqrt(variance)
    pooled = math.sqrt(2) * deviation / math.sqrt(variance + pool)
    assert weights == pytest.approx(
        {
            "unit": 1,
            "pooled": pooled,
            "reliability": reliability,
            "raw": deviation,
        }
    )
    assert weight_of("pooled", pool or 1.0, pool or 1.0, None) == pytest.approx(1)
    assert weight_of("pooled", variance / 2, pool, None) <= weights["pooled"] <= math.sqrt(2)
    assert [
        weight_of(kind, variance, None, None) for kind in ("unit", "pooled", "reliability")
    ] == [1, 1, 1]
