"""Judges that answer different comparisons: how far each counts follows from their agreement with
the first.
"""

import numpy as np
import pytest
from drawn_verdicts import linear_judge, pairs_of
from numpy.random import default_rng
from verdict_rows import verdicts_of

from genrm_cli.pairing import PairingPlan
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import estimate_many
from genrm_cli.rewards.estimators.shared_pairs import RunStatistics, estimate_panel
from genrm_cli.verdicts import Verdict

N = 6
GROUPS = 200
RING = [(i, j) for i, j, _ in PairingPlan("ring", ring_k=1).iter_pairs(N)]
ALL = [(i, j) for i, j, _ in PairingPlan("all_pairs", order_balanced=True).iter_pairs(N)]


def groups_of(seed=None):
    """Return the groups of two judges, the first on a ring and the second on all pairs, and the
    first's qualities.

    Without a seed the second judge sees the same qualities; with one it sees others, which say
    nothing of them."""
    first, quality = linear_judge(GROUPS, N, RING)
    second, _ = linear_judge(GROUPS, N, ALL, seed=seed or 0)
    own = [
        [verdicts_of(pairs_of(batch, group)) for batch in (first, second)]
        for group in range(GROUPS)
    ]
    return own, quality


def statistics_of(own):
    """Return the statistics of groups; what the judges say together is what the first one says."""
    statistics = RunStatistics()
    for verdicts in own:
        statistics.add_group(N, verdicts[0], verdicts)
    return statistics


def agreement_of(estimates, quality):
    """Return the mean correlation within groups."""
    return np.mean(
        [np.corrcoef(e.base_scores, q)[0, 1] for e, q in zip(estimates, quality, strict=True)]
    )


def test_a_judge_that_agrees_adds_its_verdicts():
    """With all pairs of a second judge of the same opinion, a ring of the first is worth far more
    than alone.
    """
    own, quality = groups_of()
    calibration = statistics_of(own).fit()
    assert calibration.agreement[0][1] == pytest.approx(1, abs=0.1)
    alone = estimate_many("adaptive", [(N, verdicts[0]) for verdicts in own], calibration.judges[0])
    joined = estimate_panel([(N, verdicts) for verdicts in own], calibration)
    assert agreement_of(joined, quality) > agreement_of(alone, quality) + 0.05
    assert np.mean([e.reliability for e in joined]) > np.mean([e.reliability for e in alone]) + 0.1


def test_a_judge_of_another_opinion_is_ignored():
    """Its qualities do not correlate with the first judge's, so its verdicts cost next to
    nothing.
    """
    own, quality = groups_of(seed=9)
    calibration = statistics_of(own).fit()
    assert calibration.agreement[0][1] < 0.2
    alone = estimate_many("adaptive", [(N, verdicts[0]) for verdicts in own], calibration.judges[0])
    joined = estimate_panel([(N, verdicts) for verdicts in own], calibration)
    assert agreement_of(joined, quality) > agreement_of(alone, quality) - 0.01


@pytest.mark.parametrize("noise", [3.0, 12.0])
def test_a_noisy_judge_does_no_harm(noise):
    """Its qualities are shrunk as far as its verdicts are noise, and the reported reliability does
    not rise for it.
    """
    own, quality = groups_of()
    generator = default_rng(4)
    for verdicts in own:
        noises = noise * generator.standard_normal((len(verdicts[1]), 3))
        rows = zip(verdicts[1].items(), noises.tolist(), strict=True)
        verdicts[1] = {
            pair: Verdict(said.score_1 + a, said.score_2 + b, said.ranking + c)
            for (pair, said), (a, b, c) in rows
        }
    calibration = statistics_of(own).fit()
    alone = estimate_many("adaptive", [(N, verdicts[0]) for verdicts in own], calibration.judges[0])
    joined = estimate_panel([(N, verdicts) for verdicts in own], calibration)
    gain = agreement_of(joined, quality) - agreement_of(alone, quality)
    assert gain > -0.003
    assert np.mean([e.reliability for e in joined]) - np.mean([e.reliability for e in alone]) < max(
        0.02, 3 * gain
    )


def test_each_judge_has_its_own_position_preference():
    """Two judges of opposite preferences, shown the lower index first, favour no index."""
    pairs = [(i, j) for i in range(N) for j in range(i + 1, N)]
    own = [[] for _ in range(GROUPS)]
    for seed, favour in ((0, 1.5), (9, -1.0)):
        batch, _ = linear_judge(GROUPS, N, pairs, seed=seed)
        for group in range(GROUPS):
            rows = [
                (r.i, r.j, r.score_1 + favour, r.score_2 - favour, r.ranking)
                for r in pairs_of(batch, group)
            ]
            own[group].append(verdicts_of(rows))
    estimates = estimate_panel([(N, verdicts) for verdicts in own], statistics_of(own).fit())
    indices = np.broadcast_to(np.arange(N), (GROUPS, N))
    assert agreement_of(estimates, indices) == pytest.approx(0, abs=0.06)


def test_parts_of_a_run_add_up():
    """Merged statistics give the calibration of the whole run."""
    own, _ = groups_of()
    whole = statistics_of(own)
    one = statistics_of(own[:70])
    other = statistics_of(own[70:])
    one.merge(other)
    assert one.fit().agreement == pytest.approx(np.array(whole.fit().agreement))
    assert one.fit().judges[1].gap_bias == pytest.approx(whole.fit().judges[1].gap_bias)


def test_sums_as_numbers_add_up():
    """The numbers of two parts, added one by one, are statistics with the calibration of the
    whole.
    """
    own, _ = groups_of()
    parts = [statistics_of(part).numbers(2) for part in (own[:70], own[70:], [])]
    summed = RunStatistics.of_numbers(
        [sum(numbers) for numbers in zip(*parts, strict=True)], 2
    ).fit()
    whole = statistics_of(own).fit()
    assert np.array(summed.agreement) == pytest.approx(np.array(whole.agreement))
    assert summed.judges[1].gap_bias == pytest.approx(whole.judges[1].gap_bias)
    assert (summed.groups, summed.gap_bias) == pytest.approx((whole.groups, whole.gap_bias))


def test_a_rollout_that_one_judge_saw_has_a_score():
    """Those of the others come from its verdicts alone; without any verdict there is no score."""
    seen = verdicts_of([(0, 1, 5, 1, 1)])
    (made,) = estimate_panel([(4, [seen, verdicts_of([(1, 2, 4, 2, 2)])])], Calibration())
    assert [score is None for score in made.base_scores] == [False, False, False, True]
    assert made.base_scores[0] > made.base_scores[1]
    (empty,) = estimate_panel([(3, [{}, {}])], Calibration())
    assert (empty.base_scores, empty.reliability) == ([None] * 3, None)
