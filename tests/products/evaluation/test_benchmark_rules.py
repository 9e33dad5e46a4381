"""The rules of published benchmarks, on examples computed with their own code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.products.evaluation.benchmark_rules import (
    TiesPrompt,
    best_of,
    best_of_k_curve,
    best_of_pairs,
    style_accuracy,
    ties_score,
)


def test_rewardbench_2_counts_prompts():
    """A shared top score is a share; a lost pair is nothing."""
    assert best_of([9, 7, 7, 3]) == 1
    assert best_of([8, 8, 5, 1]) == 0.5
    assert best_of([6, 7, 2, 2]) == 0
    assert best_of([5, 5, 5, 5]) == 0.25
    assert best_of_pairs([1, 1, 1]) == 1
    assert best_of_pairs([1, 0.5, 1]) == 0.5
    assert best_of_pairs([1, 1, 0]) == 0


def test_rewardbench_2_ties():
    """The five parts of two pairs of prompts."""
    pairs = [
        (TiesPrompt([9], [2, 1]), TiesPrompt([8, 9], [3, 2])),
        (TiesPrompt([6], [5, 3]), TiesPrompt([7, 4], [5, 3])),
    ]
    assert ties_score(pairs) == pytest.approx(0.6506, abs=5e-5)
    equal = [(TiesPrompt([5], [5]), TiesPrompt([5, 5], [5]))]
    assert ties_score(equal) == 0


def test_rm_bench_by_style():
    """Hard above the diagonal, easy below; a tie is wrong."""
    wins = np.array([[right > wrong for wrong in (2, 4, 6)] for right in (3, 5, 6)])
    found = style_accuracy(wins)
    assert found.hard == 0
    assert found.normal == pytest.approx(2 / 3)
    assert found.easy == 1
    assert found.mean == pytest.approx(5 / 9)


def test_ppe_best_of_k():
    """The expected truth of the top-scored of k."""
    curve = best_of_k_curve([0.9, 0.8, 0.3, 0.1], [0, 1, 1, 0])
    assert curve == pytest.approx([0.5, 0.5, 0.25, 0])
    assert best_of_k_curve([0, 1, 2, 3], [0, 0, 1, 1]) == pytest.approx([0.5, 5 / 6, 1, 1])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=12))
def test_a_curve_begins_at_the_mean_and_ends_at_the_top(responses):
    """One of one is any response; the best of all is the top-scored."""
    scores = [score for score, _ in responses]
    truths = [truth for _, truth in responses]
    curve = best_of_k_curve(scores, truths)
    assert curve[0] == pytest.approx(sum(truths) / len(truths))
    assert curve[-1] == truths[scores.index(max(scores))]
