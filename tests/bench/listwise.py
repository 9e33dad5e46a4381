"""Compare lists with pairs by simulation: how well base scores agree with the true qualities.

`python tests/bench/listwise.py` prints the table of the guide. A list shows all responses; a pair
shows two. The noise of a score in a list is `ratio` times that of a score in a pair. Each
reply has a level of its own. Lists are
compared with one ring at equal numbers of shown responses (two repeats: 2 n responses, n pairs) and
at equal numbers of replies. All scores are grades: 1 to 10 in lists, 1 to 5 in pairs.
"""

import numpy as np

from genrm_cli.pairing.lists import ListPlan
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import Estimate, estimate_many
from genrm_cli.rewards.estimators.list_estimates import estimate_lists
from genrm_cli.rewards.estimators.list_scores import ListScores, ListStatistics
from genrm_cli.verdicts import Verdict

GROUPS = 300
NOISE = 0.7  # of a score in a pair, in standard deviations of quality
LEVEL = 1.0  # of all scores of a reply together
SIZES = (4, 8, 16)
RATIOS = (1.0, 1.5, 2.0, 3.0)


def correlation(qualities: list[np.ndarray], estimates: list[Estimate]) -> float:
    """Return the mean correlation within groups."""
    found = []
    for truth, estimate in zip(qualities, estimates, strict=True):
        scores = [0.0 if score is None else score for score in estimate.base_scores]
        found.append(np.corrcoef(truth, scores)[0, 1] if np.std(scores) > 0 else 0.0)
    return float(np.mean(found))


def ring(n: int, rng: np.random.Generator) -> float:
    """Return the correlation of one ring of pairs."""
    plan = PairingPlan()
    statistics = CalibrationStatistics()
    qualities = []
    judged = []
    for group in range(GROUPS):
        truth = rng.normal(0, 1, n)
        verdicts = {}
        for pair in plan.iter_pairs(n, str(group)):
            heard = truth[[pair.i, pair.j]] + rng.normal(0, NOISE, 2)
            one, other = heard + rng.normal(0, LEVEL)
            scores = np.clip(np.round(3 + np.array([one, other])), 1, 5)
            verdicts[pair] = Verdict(*scores, float(np.clip(round(3.5 - (one - other)), 1, 6)))
        statistics.add_group(n, verdicts)
        qualities.append(truth)
        judged.append((n, verdicts))
    return correlation(qualities, estimate_many("adaptive", judged, statistics.fit()))


def lists(n: int, repeats: int, ratio: float, rng: np.random.Generator) -> float:
    """Return the correlation of lists of at most eight, in this many orders."""
    plan = ListPlan(repeats=repeats)
    statistics = ListStatistics()
    qualities = []
    judged = []
    for group in range(GROUPS):
        truth = rng.normal(0, 1, n)
        said = []
        for planned in plan.iter_lists(n, str(group)):
            shown = list(planned.shown)
            heard = truth[shown] + rng.normal(0, ratio * NOISE, len(shown))
            heard += rng.normal(0, LEVEL)
            grades = np.clip(np.round(5.5 + 2 * heard), 1, 10)
            said.append(ListScores(shown, range(len(shown)), grades.tolist()))
        statistics.add_group(n, said)
        qualities.append(truth)
        judged.append(said)
    calibration = statistics.fit()
    return correlation(
        qualities, [estimate_lists(n, said, Calibration(lists=calibration)) for said in judged]
    )


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    print("| responses | at equal | one ring |", *(f"{ratio:g} |" for ratio in RATIOS))
    print("|--:|---|--:|" + "--:|" * len(RATIOS))
    for n in SIZES:
        pairs = ring(n, rng)
        blocks = -(-n // ListPlan().list_size)
        for what, repeats in (("shown responses", 2), ("replies", n // blocks)):
            found = [lists(n, repeats, ratio, rng) for ratio in RATIOS]
            print(f"| {n} | {what} | {pairs:.2f} |", *(f"{each:.2f} |" for each in found))


if __name__ == "__main__":
    main()
