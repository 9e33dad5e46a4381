"""The agreement of two ways to ask a judge about the same labelled pairs."""

import numpy as np
import pytest
from judged_pairs import judged_pair
from msgspec.structs import replace

from genrm_cli.metrics.running_stats import Estimated
from genrm_cli.products.evaluation.grid import agreement_text, pair_agreement


def pairs_of(opinions, noise, seed, lean=0.0):
    """Return pairs whose leads in both orders follow opinions, with noise of their own, and with a
    preference for the response shown first.
    """
    random = np.random.default_rng(seed)
    seen = opinions[:, None] + noise * random.standard_normal((len(opinions), 2)) + [lean, -lean]
    return [
        with_leads(judged_pair("right", "right", f"{number:x}"), *leads)
        for number, leads in enumerate(seen.tolist())
    ]


def with_leads(pair, first, second):
    """Return a pair whose verdicts in both orders have these leads of the chosen response."""
    orders = [
        replace(order, score_1=3 + lead / 2, score_2=3 - lead / 2, ranking=3.5)
        for order, lead in zip(pair.orders, (first, -second), strict=True)
    ]
    return replace(pair, chosen_first=orders[0], chosen_second=orders[1])


def agreement_of(share, count=400):
    """Return the agreement of two noisy ways whose opinions correlate by this."""
    random = np.random.default_rng(1)
    one = random.standard_normal(count)
    other = share * one + np.sqrt(1 - share**2) * random.standard_normal(count)
    return pair_agreement(pairs_of(one, 0.6, 4, lean=0.8), pairs_of(other, 1.0, 5, lean=-0.5))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8, 1.0])
def test_noise_and_position_are_taken_out(share):
    """The correlation of the opinions is found."""
    found = agreement_of(share)
    assert found.value == pytest.approx(share, abs=0.12)
    assert found.low < share <= found.high


def test_pairs_without_both_verdicts_do_not_count():
    """Nor does anything with fewer than three lines."""
    pairs = pairs_of(np.array([1.0, -1.0, 2.0]), 0.1, 4)
    assert pair_agreement(pairs, pairs).value == 1.0
    failed = replace(pairs[0], chosen_first=replace(pairs[0].chosen_first, score_1=None))
    assert pair_agreement([failed, *pairs[1:]], pairs).value is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Estimated(0.5, 0.4, 0.6), "they disagree, and only the labels tell which is right"),
        (Estimated(0.8, 0.6, 1.0), "too few pairs to tell whether they agree"),
        (Estimated(0.95, 0.92, 0.98), "agree by 0.95 (0.92 to 0.98) beyond their noise."),
        (Estimated(None, None, None), "unknown: too few pairs"),
    ],
)
def test_the_words_follow_the_interval(found, words):
    """Disagreement is said only where it is sure."""
    assert words in agreement_text(found)
