"""Means from few labels beside many verdicts: valid for any judge, narrower for good ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.products.evaluation.prediction_powered import prediction_powered

VALUES = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=4, max_size=30)


@given(VALUES, VALUES)
def test_a_perfect_judge_joins_labels_and_verdicts(labels, others):
    """Its verdicts are labels: the estimate is between both means, and never certain."""
    estimate = prediction_powered(labels, labels, others)
    least, most = sorted([np.mean(labels), np.mean(others)])
    assert least - 1e-9 <= estimate.mean <= most + 1e-9
    assert 0 <= estimate.weight <= 1
    assert 0 <= estimate.low <= estimate.mean <= estimate.high <= 1
    assert estimate.low < estimate.high
    assert (estimate.narrower is None) == (estimate.weight == 0)


@given(VALUES)
def test_without_verdicts_the_labels_decide(labels):
    """A judge that always says the same, or said nothing else, changes no label's mean."""
    for verdicts, others in (([1.0] * len(labels), [1.0] * 9), (labels, [])):
        assert prediction_powered(labels, verdicts, others).mean == pytest.approx(np.mean(labels))


def test_few_labels_give_no_estimate():
    """Three labels say nothing about their variance."""
    assert prediction_powered([1, 0, 1], [1, 0, 1], [1, 1]) is None


def _run(rng, right, n, truth=0.65, count=2000):
    """Return labels and verdicts of a judge that is right this often."""
    labels = (rng.random(count + n) < truth).astype(float)
    verdicts = np.where(rng.random(count + n) < right, labels, 1 - labels)
    return prediction_powered(labels[:n], verdicts[:n], verdicts[n:])


@pytest.mark.slow
@pytest.mark.parametrize(("right", "narrower"), [(0.5, 1.0), (0.7, 0.93), (0.9, 0.63)])
@pytest.mark.parametrize("n", [30, 100, 200])
def test_the_interval_holds_the_truth_whatever_the_judge(right, narrower, n):
    """In 92 to 97 % of 1,000 runs; with a coin it is no narrower than the labels alone."""
    rng = np.random.default_rng(n)
    runs = [_run(rng, right, n) for _ in range(1000)]
    assert 0.92 <= np.mean([run.low <= 0.65 <= run.high for run in runs]) <= 0.97
    assert np.mean([run.narrower or 1.0 for run in runs]) == pytest.approx(narrower, abs=0.05)
