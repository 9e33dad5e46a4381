"""A bug in a figure or in one group's rewards, found after every call is paid."""

import pytest
from genrm_process import make_rollouts, read_lines

from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.rewards.estimators.estimates import ESTIMATORS
from genrm_cli.rewards.estimators.least_squares import fit_qualities

SCORE = ("score", "in.jsonl", "--offline", "--ring-k", 3)


def fail(*_):
    """Raise what the logarithm of a negative number raises."""
    raise ValueError("math domain error")


def fail_with_noise(batch, calibration):
    """Fail as a standard error does whose variance is negative."""
    return fail() if calibration.noise is not None else fit_qualities(batch, calibration)


def fail_for_five(batch, calibration):
    """Fail for groups of five rollouts."""
    return fail() if batch.n == 5 else fit_qualities(batch, calibration)


@pytest.fixture
def scored(genrm, call):
    """Score groups of four and five, some of them noisy, and return how; the lines as they are."""
    lines = make_rollouts(groups=12, size=4) + make_rollouts(groups=1, size=5)
    for number, line in enumerate(lines):
        line["completion"] += " so" * (number * 7 % 11)
        line["prompt"] += "?" * (number >= 48)
    genrm.write("in.jsonl", lines)

    def run(*more):
        finished = call(*SCORE, "--force", *more)
        records = read_lines(genrm.folder / "in.scored.jsonl")
        comparisons = (genrm.folder / "in.comparisons.jsonl").read_bytes()
        return finished, records, comparisons, genrm.metrics()

    return run


def test_a_figure_that_fails_is_null_and_everything_else_is_written(scored, call, monkeypatch):
    """The run ends with 1 and names it; the next one computes it, and asks nothing."""
    _, lines, comparisons, metrics = scored()
    with monkeypatch.context() as patch:
        patch.setattr(RunMetrics, "flip_rate", property(fail))
        patch.setattr(Latencies, "summary", fail)
        finished, same_lines, same_comparisons, left = scored()
    assert "flip_rate, latency: ValueError: math domain error" in finished.ended(1).err
    assert (same_lines, same_comparisons) == (lines, comparisons)
    assert (left["flip_rate"], left["latency"]["mean_s"]) == (None, None)
    assert set(left.pop("failed_figures")) == {"flip_rate", "latency"}
    assert {name for name in metrics if metrics[name] != left[name]} <= {
        *("flip_rate", "latency", "time", "wall_time_s"),
        *("verdicts", "journal_hits", "calls", "input", "output_mark"),
    }
    assert "1 scored; 111 verdicts, 0 failures, 0 calls" in call(*SCORE).ended(0).err


def test_rewards_stay_the_same_where_only_their_errors_fail(scored, monkeypatch):
    """Unless they depend on the reliability: then they have a reason."""
    _, lines, *_ = scored()
    assert any(line["genrm"]["standard_error"] is not None for line in lines)
    monkeypatch.setitem(ESTIMATORS, "adaptive", fail_with_noise)
    finished, found, _, metrics = scored()
    assert "standard_errors, reliability, reliability_interval: ValueError" in finished.ended(1).err
    assert [line["reward"] for line in found] == [line["reward"] for line in lines]
    assert {line["genrm"]["standard_error"] for line in found} == {None}
    assert (metrics["reliability"]["mean"], metrics["reliability_interval"]) == (None, None)
    finished, found, *_ = scored("--advantage", "reliability")
    assert {line["genrm"]["reason"] for line in found} == {"not_computed"}
    assert finished.code == 1


def test_a_group_without_rewards_costs_the_others_nothing(scored, monkeypatch):
    """Its rollouts say why; the others have the rewards that they would have."""
    _, lines, comparisons, _ = scored("--advantage", "unit")
    monkeypatch.setitem(ESTIMATORS, "adaptive", fail_for_five)
    finished, found, same_comparisons, _ = scored("--advantage", "unit")
    assert "rewards: ValueError: math domain error" in finished.ended(1).err
    assert (found[:48], same_comparisons) == (lines[:48], comparisons)
    for line in found[48:]:
        assert line["reward"] is None
        assert line["genrm"]["reason"] == "not_computed"
        assert "ValueError: math domain error" in line["genrm"]["reason_text"]
