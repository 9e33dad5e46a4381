"""The agreement of two modes beyond their noise."""

import numpy as np
import pytest

from genrm_cli.rewards.estimators.mode_agreement import mode_agreement


def scores_of(qualities, noise, seed):
    """Return the base scores of a mode with noise, and their reliability."""
    random = np.random.default_rng(seed)
    seen = qualities + noise * random.standard_normal(qualities.shape)
    scores = {str(number): group.tolist() for number, group in enumerate(seen)}
    return scores, qualities.var() / (qualities.var() + noise**2)


def agreement_of(share, groups=200):
    """Return the agreement of two noisy modes whose opinions correlate by this."""
    random = np.random.default_rng(1)
    one = random.standard_normal((groups, 8))
    other = share * one + np.sqrt(1 - share**2) * random.standard_normal((groups, 8))
    first, reliable = scores_of(one, 0.6, 2)
    second, as_reliable = scores_of(other, 0.9, 3)
    return mode_agreement(first, second, (reliable, as_reliable))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_noise_is_taken_out(share):
    """The correlation of the opinions is found, whatever the noise of both modes."""
    found = agreement_of(share)
    assert found.value == pytest.approx(share, abs=0.08)
    assert found.low < share < found.high


def test_modes_that_say_the_same_agree():
    """The interval holds 1, and nothing exceeds it."""
    found = agreement_of(1.0)
    assert found.low > 0.9
    assert found.high == 1.0


def test_too_little_says_nothing():
    """Two groups, no signal, and scores that are missing have no agreement."""
    scores = {"a": [1.0, 2.0, 3.0], "b": [2.0, 1.0, 3.0], "c": [None, 1.0, None]}
    assert mode_agreement(scores, scores, (0.8, 0.8)).value is None
    more = scores | {"d": [1.0, 4.0, 2.0]}
    assert mode_agreement(more, more, (0.0, 0.8)).value is None
    assert mode_agreement(more, more, (1.0, 1.0)).value == 1.0
