"""Failures that a response causes: who is blamed, and that it does not pay."""

import math
from dataclasses import replace
from itertools import permutations, product

import pytest
from scored_components import completions, score_with, settings_of

from genrm_cli.groups.failures.caused_failures import known_causes, scores_of_losers, verdicts_of
from genrm_cli.groups.failures.failure_test import (
    Trial,
    _counts_of,
    evidence_of,
    find_culprits,
    trials_of,
)
from genrm_cli.groups.failures.probes import iter_probes
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, JudgePlan, RewardPlan
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.requests import RequestId
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.estimators.failure_rates import FailureCounts, FailureRates
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.settings.reward_settings import RewardSettings
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Reason, Verdict

SHAPE = measure_text("", "x", with_style=False, as_gym=False)
VERDICT = Outcome(Verdict(4, 2, 2))
REFUSED = Outcome(Failure(FailureKind.REFUSED, "no"))
SILENT = Outcome(Failure(FailureKind.NO_VERDICT, "none"), reasks=3)
BROKEN = Outcome(Failure(FailureKind.HTTP, "502"), attempts=3)
JUDGE = JudgePlan("m")


def judged(results, n, key="g"):
    """Return a group of n rollouts with these results."""
    everyone = tuple(range(n))
    group = JudgedGroup(
        key, n, False, everyone, (True,) * n, (None,) * n, "answer", [SHAPE] * n, results
    )
    group.sort()
    return group


def planned(n, rings, key):
    """Yield the requests about a group of n rollouts to one judge."""
    for i, j, repeat in PairingPlan("ring", ring_k=rings, seed=0).iter_pairs(n, key):
        yield RequestId(0, repeat, (i, j))


def trials(n, rings, fails, key="g", reply=REFUSED):
    """Return the requests about a group in which those of these pairs fail."""
    results = [(each, reply if fails(each.shown) else VERDICT) for each in planned(n, rings, key)]
    return trials_of(judged(results, n), GroupPlan(judges=(JUDGE,)))


RATES = FailureRates(silent=0.02, broken=0.05, repeat=0.5)
ALL_OF_8 = 7  # rings


def test_failures_of_one_rollout_among_others_without_are_its_own():
    """Not those that its opponents have, too, nor a few, nor those with a single opponent."""
    cases = [
        (lambda shown: 0 in shown, {0}),
        (lambda shown: shown[0] == 0, {0}),
        (lambda shown: 0 in shown or 5 in shown, {0, 5}),
        (lambda shown: shown == (0, 1), set()),  # either may have caused it
        (lambda shown: set(shown) == {0, 1}, set()),
        (lambda shown: True, set()),  # the judge fails on everything
        (lambda shown: False, set()),
    ]
    for fails, culprits in cases:
        assert find_culprits(trials(8, ALL_OF_8, fails), RATES) == culprits


def test_the_evidence_of_an_innocent_text_is_one_on_average():
    """Therefore it exceeds a bound in at most one of so many cases."""
    shown = [(0, 1), (2, 0), (0, 3)]
    answered = 1 - RATES.silent - RATES.broken
    chances = [(VERDICT, answered), (REFUSED, RATES.silent), (BROKEN, RATES.broken)]
    total = 0.0
    for outcomes in product(chances, repeat=3):
        found = [
            Trial(RequestId(0, 0, pair), _counts_of(outcome, is_repeat=False))
            for pair, (outcome, _) in zip(shown, outcomes, strict=True)
        ]
        chance = math.prod(chance for _, chance in outcomes)
        total += chance * math.exp(evidence_of(0, found, RATES))
    assert total == pytest.approx(1.0, abs=1e-6)


def test_a_failed_call_is_nobody_s_fault_while_the_server_is_down():
    """A request that was never made, or a server that fails on most, says nothing about texts."""
    late = Outcome(Failure(FailureKind.TIMEOUT, "late"))
    plan = GroupPlan(judges=(JUDGE,))
    for reply, shown in ((late, 0), (BROKEN, 0)):
        found = trials(8, 1, lambda pair, shown=shown: shown in pair, reply=reply)
        assert bool([trial for trial in found if trial.counts.broken]) is (reply is BROKEN)
    results = [(each, BROKEN if sum(each.shown) > 1 else VERDICT) for each in planned(8, 1, "g")]
    assert not any(trial.counts.broken for trial in trials_of(judged(results, 8), plan))


def test_a_text_that_breaks_most_requests_of_its_group_is_told_from_an_outage():
    """By requests without it, of which as many must be answered."""
    for answered, culprits in ((6, {0}), (5, set())):
        others = [(i, j) for i, j in permutations(range(1, 4), 2)]
        results = [
            (RequestId(0, 0, pair), BROKEN)
            for pair in permutations(range(4), 2)
            if 0 in pair or pair in others[answered:]
        ]
        results += [(RequestId(0, 0, pair), VERDICT) for pair in others[:answered]]
        found = trials_of(judged(results, 4), GroupPlan(judges=(JUDGE,)))
        assert find_culprits(found, RATES) == culprits


def test_a_suspect_loses_in_proportion_to_its_probability():
    """One that is not convicted, but has some evidence, has a base score between both estimates."""
    suspects = {0: 0.25}
    assert scores_of_losers([3.0, 4.0, None], [1.0, 4.5, 2.0], {2}, suspects) == [2.375, 4.0, 1.5]
    assert scores_of_losers([None], [1.0], set(), suspects) == [None]


def test_a_suspect_is_marked():
    """With the probability by which it loses in part; innocent rollouts are not."""
    plan = GroupPlan(judges=(JUDGE,))
    results = [(each, SILENT if each.shown[0] == 0 else VERDICT) for each in planned(6, 2, key="g")]
    rare = FailureCounts(requests=1_000, silent=20, broken=1)
    calibration = replace(CalibrationStatistics().fit(), failures=rare)
    found = verdicts_of(judged(results, 6), plan)
    (rewards,) = reward_verdicts([found], plan, calibration)
    (suspicion,) = found.tested(rare.rates()).suspects.values()
    assert [score.suspicion for score in rewards.scores] == [suspicion, *[None] * 5]
    assert 0 < suspicion < 1


def test_a_failed_pair_is_asked_in_the_other_order_and_then_with_others():
    """The opponents are the strongest ones, in the position in which the rollout failed; a text
    that is convicted is asked no more, and the limit holds.
    """
    for max_extra in (0.0, 0.25, 2.0):
        pairing = PairingPlan("ring", ring_k=1, max_extra=max_extra)
        plan = GroupPlan(pairing=pairing, judges=(JUDGE,))
        results = [(each, SILENT if each.shown[0] == 0 else VERDICT) for each in planned(8, 1, "g")]
        ((_, unlucky),) = [each.shown for each, outcome in results if outcome is SILENT]
        group = judged(results, 8)
        stages = []
        for stage in iter_probes(group, plan):
            stages.append(stage)
            for i, j, repeat in stage:
                outcome = SILENT if i == 0 else VERDICT
                group.results.append((RequestId(0, repeat, (i, j)), outcome))
        asked = [pair for stage in stages for pair in stage]
        assert len(asked) <= 8 * max_extra
        assert len(asked) == len(set(asked))
        if stages:
            assert stages[0] == [(unlucky, 0, 0)]
        if max_extra == 2.0:
            assert len({pair.j for pair in asked if pair.i == 0}) >= 3
            assert find_culprits(trials_of(group, plan), RATES) == {0}


@pytest.mark.parametrize("breaker", [0, 1, 2])
def test_in_a_small_group_the_pairs_without_the_suspect_are_asked(breaker):
    """Only they tell a text that breaks most requests from a server that is down."""
    results = [
        (each, BROKEN if breaker in each.shown else VERDICT) for each in planned(3, 1, key="g")
    ]
    plan = GroupPlan(pairing=PairingPlan("ring", ring_k=1, max_extra=2.0), judges=(JUDGE,))
    stages = iter_probes(judged(results, 3), plan)
    assert all(breaker not in pair[:2] for pair in next(stages))


def test_a_verdict_after_replies_without_one_is_no_evidence_of_quality():
    """Nor is that of a repeat; `keep` keeps them."""
    won = Outcome(Verdict(5, 1, 1), reasks=2)
    results = [(each, won if 0 in each.shown else VERDICT) for each in planned(4, 1, "g")]
    repeated = (RequestId(0, 1, (1, 2)), VERDICT)
    group = judged([*results, repeated], 4)
    plan = GroupPlan(judges=(JUDGE,))
    found = verdicts_of(group, plan)
    assert {index for pair in found.used for index in pair[:2]} == {1, 2, 3}
    assert len(found.used) == 2
    assert sum(isinstance(outcome.result, Failure) for _, outcome in found.judged.results) == 3
    keeping = RewardPlan(RewardSettings(on_caused_failures="keep"))
    kept = verdicts_of(group, replace(plan, rewards=keeping))
    assert len(kept.used) == 4


FORBIDDEN = "xyzzy"


GROUPS = 20  # enough to know the rate at which innocent texts fail


def score(folder, server, toml="model = 'm'", **given):
    """Score groups of four whose second response the judge refuses; the last group counts."""
    lines = []
    for number in range(GROUPS):
        lines += completions(
            f"Short {number}.",
            f"The longest, which would win. {FORBIDDEN}",
            "Not so short.",
            "Rather a long one.",
            prompt=f"Task {number}",
        )
    server.behave(refuses=FORBIDDEN)
    return score_with(folder, lines, settings_of(toml, base_url=(server.base_url,), **given))


def test_a_rollout_that_the_judge_refuses_has_the_lowest_reward(tmp_path, judge_server):
    """It is marked, counted and named, and so are its comparisons; its opponents get nothing for
    them.
    """
    metrics, lines, comparisons, code = score(tmp_path, judge_server)
    rewards = [line["reward"] for line in lines[-4:]]
    assert code == 0
    assert min(rewards) == rewards[1] < sorted(rewards)[1]
    counts = [line["genrm"].get("caused_failures") for line in lines[-4:]]
    assert counts[1] >= 6
    assert [counts[0], *counts[2:]] == [None] * 3
    assert {tuple(each["caused_by"]) for each in comparisons if each["failure"]} == {(1,)}
    assert metrics["caused_failures"] == GROUPS
    assert metrics["calls"] > metrics["comparisons_planned"] - GROUPS * 8


def test_the_user_may_keep_what_other_comparisons_give(tmp_path, judge_server):
    """Nothing is tested: a rollout without any verdict has no reward."""
    scored = score(tmp_path, judge_server, on_caused_failures="keep")
    assert scored.reasons == [None, Reason.NO_VERDICT, None, None] * GROUPS
    assert not scored.metrics["caused_failures"]


def test_a_rollout_whose_comparisons_all_failed_may_get_the_lowest_score(tmp_path, judge_server):
    """It has that advantage, too, whatever made them fail; one that was not asked about stays
    unscored.
    """
    scored = score(tmp_path, judge_server, on_caused_failures="keep", unscored="lowest")
    assert scored.rewards[1] == min(scored.rewards[0], *scored.rewards[2:4])
    assert scored.lines[1]["genrm"]["advantage"] < 0
    assert scored.lines[1]["genrm"]["failed"] == 2
    assert (
        score(tmp_path, judge_server, unscored="lowest", max_calls=0, use_journal=False).rewards
        == [None] * 4 * GROUPS
    )


def test_compat_keeps_the_default_of_a_failure(tmp_path, judge_server):
    """As in NeMo Gym, nobody is blamed."""
    scored = score(tmp_path, judge_server, compat="nemo-gym")
    assert scored.rewards[1] == 3.0
    assert scored.metrics["caused_failures"] == 0


def test_it_loses_in_every_judge_and_component(tmp_path, judge_server):
    """A panel whose judges all refuse it, and its win rate."""
    panel = "[[judge]]\nmodel = 'a'\n[[judge]]\nmodel = 'b'\n[components.win_rate]\n"
    scored = score(tmp_path, judge_server, panel)
    assert scored.component("win_rate")[1] == 0.0
    assert min(scored.component("genrm")[:4]) == scored.component("genrm")[1]
    assert scored.lines[1]["genrm"]["caused_failures"] >= 4


GRADED = (
    "model = 'm'\n[components.care]\nkind = 'rubric'\nset = 'therapeutic'\n[total]\nweights "
    "= { rubric_safety = 1 }\n"
)


@pytest.mark.parametrize(
    "toml", [GRADED, "model = 'm'\nprofile = 'nemotron-principle'\n"], ids=["rubric", "pointwise"]
)
def test_a_response_that_is_refused_where_it_is_graded_alone_gets_the_lowest_grade(
    tmp_path, judge_server, toml
):
    """The judge grades the others of its group, so the refusal is due to its text."""
    scored = score(tmp_path, judge_server, toml)
    assert scored.rewards[1] is not None
    assert scored.rewards[1] <= min(reward for reward in scored.rewards[:4] if reward is not None)
    assert scored.lines[1]["genrm"]["caused_failures"] == 1


def test_one_failure_of_a_grade_blames_nobody():
    """It may be chance; several calls without a verdict are not."""
    silent = Failure(FailureKind.NO_VERDICT, "")
    for calls, blamed in ((1, ()), (2, ((2,),))):
        results = [
            (RequestId(0, 0, (index,)), Outcome(silent, calls) if index == 2 else VERDICT)
            for index in range(4)
        ]
        assert (
            tuple(known_causes(judged(results, 4), GroupPlan(judges=(JUDGE,))).values()) == blamed
        )


def test_it_loses_where_the_whole_group_is_shown_at_once():
    """The others have no grades, and thus no rewards."""
    ambiguous = Outcome(Failure(FailureKind.AMBIGUOUS, "", (2,)))
    plan = GroupPlan(judges=(JudgePlan("m", PROFILES["rewardanything"]),))
    found = verdicts_of(judged([(RequestId(0, 0, (2, 1, 0)), ambiguous)], 3), plan)
    (rewards,) = reward_verdicts([found], plan, CalibrationStatistics().fit())
    assert [score.reward for score in rewards.scores] == [None, 2.0, None]
    assert [score.caused_failures for score in rewards.scores] == [0, 1, 0]
