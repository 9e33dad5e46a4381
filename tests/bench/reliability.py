"""Show by simulation how often the interval of the reliability holds that of a large run.

`python tests/bench/reliability.py` prints, for judges and sizes of runs, the mean reliability of
2,000 groups, the share of intervals that hold it, and the share whose upper end lies below it. The
judge scores two of six responses from 1 to 5 and ranks them, with normal noise.
"""

import random

from genrm_cli.metrics.plan_reliability import expected_reliability
from genrm_cli.metrics.running_stats import odds_interval
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import estimate_many
from genrm_cli.verdicts import Verdict

SIZE = 6
LARGE = 2_000
JUDGES = ((1.5, 1.0, 1.0), (1.5, 0.5, 1.0), (1.5, 0.25, 1.0), (1.5, 1.0, 2.0), (0.5, 1.0, 1.0))
RUNS = {24: 150, 80: 150, 200: 60}


def clipped(number: float, least: int, most: int) -> int:
    """Return the nearest whole number of a scale."""
    return max(least, min(most, round(number)))


def judged(
    groups: int, noise: float, signal: float, plan: PairingPlan, rng: random.Random
) -> tuple[float, Calibration]:
    """Return the mean reliability of a simulated run, and its calibration."""
    statistics = CalibrationStatistics()
    some = []
    for _ in range(groups):
        qualities = [signal * rng.gauss(0, 1) for _ in range(SIZE)]
        verdicts = {}
        for pair in plan.iter_pairs(SIZE, str(rng.random())):
            lead = qualities[pair.i] - qualities[pair.j] + noise * rng.gauss(0, 1)
            verdicts[pair] = Verdict(
                clipped(3 + lead, 1, 5), clipped(3 - lead, 1, 5), clipped(3.5 - 1.2 * lead, 1, 6)
            )
        statistics.add_group(SIZE, verdicts)
        some.append((SIZE, verdicts))
    calibration = statistics.fit()
    estimates = estimate_many("adaptive", some, calibration)
    known = [each.reliability for each in estimates if each.reliability is not None]
    return sum(known) / len(known), calibration


def interval_of(mean: float, calibration: Calibration, plan: PairingPlan) -> tuple[float, float]:
    """Return the interval as a run reports it."""
    if mean and calibration.uncertainty is not None:
        return odds_interval(mean, calibration.uncertainty)
    return 0.0, expected_reliability(plan, SIZE, calibration.most_signal or 0.0)


def main() -> None:
    """Print the table."""
    print("noise signal rings  large  groups  holds  below")
    for noise, signal, rings in JUDGES:
        rng = random.Random(5)
        plan = PairingPlan("ring", rings)
        large, _ = judged(LARGE, noise, signal, plan, rng)
        for groups, runs in RUNS.items():
            ends = [
                interval_of(*judged(groups, noise, signal, plan, rng), plan) for _ in range(runs)
            ]
            holds = sum(low <= large <= high for low, high in ends) / runs
            below = sum(high < large for _, high in ends) / runs
            judge = f"{noise:5} {signal:6} {rings:5}"
            print(f"{judge}  {large:5.2f} {groups:7}  {holds:.2f}   {below:.2f}")


if __name__ == "__main__":
    main()
