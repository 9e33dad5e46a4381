"""Evidence against an unchanged judge: how often it misleads, and how soon it finds a change."""

import math
import random
from collections.abc import Callable

import pytest

from genrm_cli.watching.evidence import (
    Detector,
    RateNull,
    chi_square_20,
    mean_ratios,
    rate_null,
)


def run_length(ratios: Callable[[], list[float]], dumps: int, threshold: float) -> int | None:
    """Return the dump of the first alarm; None without one."""
    detector = Detector()
    for dump in range(dumps):
        detector.add(dump, named(ratios()))
        if detector.log_evidence >= math.log(threshold):
            return dump
    return None


def named(ratios: list[float]) -> dict[str, float]:
    """Return ratios by the number of their alternative."""
    return {str(number): ratio for number, ratio in enumerate(ratios)}


def test_the_ratio_is_that_of_two_binomials() -> None:
    """One alternative, 3 of 10: log of (0.3/0.1)^3 (0.7/0.9)^7."""
    (ratio,) = RateNull(0.1).ratios((0.2,), 3, 10)
    assert ratio == pytest.approx(3 * math.log(3.0) + 7 * math.log(0.7 / 0.9))


def test_the_recurrence_is_that_of_shiryaev_and_roberts() -> None:
    """R becomes (1 + R) times the likelihood ratio, and M is the mean over alternatives."""
    detector = Detector()
    detector.add(0, named([math.log(2.0), math.log(4.0)]))
    detector.add(1, named([math.log(3.0), math.log(0.5)]))
    assert math.exp(detector.log_evidence) == pytest.approx((3.0 * (1 + 2.0) + 0.5 * (1 + 4.0)) / 2)


def test_evidence_does_not_overflow() -> None:
    """Thousands of dumps of a judge that always fails are only a large number."""
    detector = Detector()
    for dump in range(3_000):
        detector.add(dump, named(RateNull(0.02).ratios((0.3,), 1_000, 1_000)))
    assert math.isfinite(detector.log_evidence)


def test_false_alarms_are_as_rare_as_stated() -> None:
    """At A = 100, a rate at its bound raises at most one alarm in 100 dumps: in 400 runs of 50, at
    most 200.
    """
    drawn = random.Random(1)

    def ratios() -> list[float]:
        bad = sum(drawn.random() < 0.1 for _ in range(40))
        return RateNull(0.1).ratios((0.04, 0.1, 0.25), bad, 40)

    found = [run_length(ratios, 50, 100) for _ in range(400)]
    assert sum(dump is not None for dump in found) <= 200


def test_the_start_of_a_change_is_found() -> None:
    """After 60 dumps without a fault and some with many, the first suspect dump is the first with
    many.
    """
    detector = Detector()
    for dump in range(70):
        bad = 1 if dump < 60 else 10
        detector.add(dump, named(RateNull(0.05).ratios((0.1,), bad, 40)))
    assert detector.best_start == 60


def test_days_that_differ_count_less() -> None:
    """Counts that vary more than binomial ones from day to day weaken the evidence."""
    steady = rate_null([(10, 40)] * 20)
    shaky = rate_null([(2, 40), (18, 40)] * 10)
    assert steady is not None
    assert shaky is not None
    assert shaky.inflation > 5 > steady.inflation == 1.0
    assert shaky.ratios((0.1,), 20, 40) < steady.ratios((0.1,), 20, 40)


def test_a_baseline_without_an_observation_is_none() -> None:
    """Nothing is learned from dumps that counted nothing."""
    assert rate_null([(0, 0)] * 5) is None


@pytest.mark.parametrize(("freedom", "expected"), [(2, 0.4463), (9, 5.380), (19, 13.716)])
def test_the_chi_square_quantile_is_that_of_tables(freedom: int, expected: float) -> None:
    """The 20 % points as published tables have them."""
    assert chi_square_20(freedom) == pytest.approx(expected, rel=0.02)


def test_a_dump_counts_for_two_and_a_half_deviations_at_most() -> None:
    """What lies farther off adds no evidence, so one dump alone raises nothing."""
    baseline = [0.0, 1.0] * 10
    assert mean_ratios(baseline, 100.0, 0.001) == mean_ratios(baseline, 4.0, 0.001)


def test_a_mean_that_rises_is_found_and_a_steady_one_is_not() -> None:
    """Two standard deviations take few dumps; 200 dumps of the baseline's own kind raise
    nothing.
    """
    drawn = random.Random(2)
    baseline = [drawn.gauss(0.1, 0.02) for _ in range(20)]

    def found(mean: float) -> int | None:
        return run_length(lambda: mean_ratios(baseline, drawn.gauss(mean, 0.02), 0.001), 200, 2_000)

    risen = found(0.14)
    assert risen is not None
    assert risen < 20
    assert found(0.1) is None
