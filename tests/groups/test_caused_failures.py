"""Failures that a response causes: who is blamed, and that it does not pay."""

from dataclasses import replace

import numpy as np
import pytest
from scored_components import completions, score_with, settings_of

from genrm_cli.groups.caused_failures import SuspectCounts, find_causes, suspects_by_chance
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan, JudgePlan, RewardPlan
from genrm_cli.groups.reward_group import reward_verdicts, verdicts_of
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.requests import RequestId
from genrm_cli.pairing import PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.shaping import measure_text
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Reason, Verdict

SHAPE = measure_text("", "x", with_style=False, as_gym=False)
VERDICT = Outcome(Verdict(4, 2, 2))
REFUSED = Outcome(Failure(FailureKind.REFUSED, "no"))
SILENT = Outcome(Failure(FailureKind.NO_VERDICT, "none"), reasks=3)
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


def causes(failed, n, pairs):
    """Return the rollouts that are blamed if the judge refuses some of these pairs."""
    results = [(RequestId(0, 0, pair), REFUSED if pair in failed else VERDICT) for pair in pairs]
    found = find_causes(judged(results, n), GroupPlan(judges=(JUDGE,)))
    return {index for culprits in found.values() for index in culprits}


RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_failures_of_one_rollout_among_others_without_are_its_own():
    """Not those that its opponents have, too, and not a single one."""
    cases = [
        ([(0, 1), (3, 0)], {0}),
        ([(0, 1)], set()),  # either may have caused it
        ([(0, 1), (1, 2), (3, 0)], {0, 1}),
        (RING, set()),  # the judge fails on everything
        ([], set()),
    ]
    for failed, blamed in cases:
        assert causes(set(failed), 4, RING) == blamed


def test_an_honest_rollout_between_two_that_are_refused_is_not_blamed():
    """Its failures are explained by its opponents."""
    ring = [(i, (i + 1) % 6) for i in range(6)]
    assert causes({(5, 0), (0, 1), (1, 2), (2, 3)}, 6, ring) == {0, 2}


def test_a_failed_call_is_nobody_s_fault():
    """A timeout says nothing about texts."""
    late = Outcome(Failure(FailureKind.TIMEOUT, "late"))
    results = [(RequestId(0, 0, pair), late if 0 in pair else VERDICT) for pair in RING]
    assert not find_causes(judged(results, 4), GroupPlan(judges=(JUDGE,)))


def test_random_failures_hardly_ever_blame_anyone():
    """If this share of the requests fails at random, at most that share of the rollouts is
    blamed, and as many as the run says that chance explains.
    """
    cases = [
        (4, 1, 0.05, 0.004),
        (16, 1, 0.05, 0.004),
        (8, 1, 0.2, 0.05),
        (8, 2, 0.05, 0.001),
    ]
    for n, rings, share, most in cases:
        draw = np.random.default_rng(n + rings)
        blamed = 0
        groups = 8_000 // n
        for number in range(groups):
            results = [
                (each, REFUSED if draw.random() < share else VERDICT)
                for each in planned(n, rings, str(number))
            ]
            found = find_causes(judged(results, n), GroupPlan(judges=(JUDGE,)))
            blamed += len({index for culprits in found.values() for index in culprits})
        assert blamed / (groups * n) < most
        expected = suspects_by_chance(PairingPlan("ring", rings), {n: groups}, share, 0.0)
        assert blamed == pytest.approx(expected, rel=0.3, abs=12)


@pytest.mark.parametrize(
    ("groups", "failing", "attacked", "is_chance"),
    [
        (2_500, 0.1, 0, True),
        (300, 0.02, 0, True),
        (300, 0.02, 30, False),
        (300, 0.01, 300, False),
        (1, 0.0, 1, False),
    ],
)
def test_a_run_tells_suspects_from_chance(groups, failing, attacked, is_chance):
    """Of 20,000 innocent rollouts with 10 % failures none is blamed; texts on which the judge
    always fails are, in one group in ten and in every group. A run of one group knows no chance.
    """
    draw = np.random.default_rng(3)
    plan = GroupPlan(judges=(JUDGE,))
    counts = SuspectCounts()
    for number in range(groups):
        results = []
        for each in planned(8, 1, str(number)):
            is_silent = draw.random() < failing or (number < attacked and 0 in each.shown)
            results.append((each, SILENT if is_silent else VERDICT))
        group = judged(results, 8)
        counts.add_group(group, find_causes(group, plan))
    assert counts.suspects >= attacked
    expected = counts.expected(PairingPlan("ring", 1.0), {8: groups})
    assert (expected is None) == (groups == 1)
    assert counts.is_chance(expected) == is_chance


def test_replies_without_a_verdict_hardly_ever_blame_anyone():
    """If this share of the replies has none at random, and the judge is asked up to three times
    more.
    """
    for share, most in [(0.05, 0.001), (0.2, 0.02)]:
        draw = np.random.default_rng(1)
        blamed = 0
        groups = 1_000
        for number in range(groups):
            results = []
            for each in planned(8, 1, str(number)):
                reasks = int(np.argmax(draw.random(5) >= share))
                said = Verdict(4, 2, 2) if draw.random() < 0.5 else Verdict(2, 4, 5)
                results.append((each, Outcome(said, reasks=reasks) if reasks < 4 else SILENT))
            found = find_causes(judged(results, 8), GroupPlan(judges=(JUDGE,)))
            blamed += len({index for culprits in found.values() for index in culprits})
        assert blamed / (groups * 8) < most


def test_a_verdict_after_replies_without_one_does_not_count_for_the_response_that_wins_by_it():
    """If all of its comparisons are such: it loses them, its opponents gain nothing, and `keep`
    keeps them.
    """
    won = [Outcome(Verdict(5, 1, 1), reasks=2), Outcome(Verdict(1, 5, 6), reasks=1)]
    results = [(RequestId(0, 0, pair), won.pop(0) if 0 in pair else VERDICT) for pair in RING]
    group = judged(results, 4)
    plan = GroupPlan(judges=(JUDGE,))
    (rewards,) = reward_verdicts([verdicts_of(group, plan)], plan, CalibrationStatistics().fit())
    assert [each.caused_by for each in rewards.comparisons if each.failure] == [(0,), (0,)]
    assert min(rewards.rewards) == rewards.rewards[0]
    assert not find_causes(group, replace(plan, rewards=RewardPlan(on_caused_failures="keep")))


FORBIDDEN = "xyzzy"


def score(folder, server, toml="model = 'm'", **given):
    """Score a group of four whose second response the judge refuses."""
    lines = completions(
        "Short.",
        f"The longest, which would win. {FORBIDDEN}",
        "Not so short.",
        "Rather a long one.",
    )
    server.behave(refuses=FORBIDDEN)
    return score_with(folder, lines, settings_of(toml, base_url=(server.base_url,), **given))


def test_a_rollout_that_the_judge_refuses_has_the_lowest_reward(tmp_path, judge_server):
    """It is marked, counted and named, and so are its comparisons; its opponents get nothing for
    them.
    """
    metrics, lines, comparisons, code = score(tmp_path, judge_server)
    rewards = [line["reward"] for line in lines]
    assert code == 0
    assert min(rewards) == rewards[1] < sorted(rewards)[1]
    assert [line["genrm"].get("caused_failures") for line in lines] == [None, 2, None, None]
    assert [each["caused_by"] for each in comparisons if each["failure"]] == [[1], [1]]
    assert metrics["caused_failures"] == 1
    assert metrics["caused_failures_most"].startswith("rollout 1 of ")
    assert metrics["caused_failures_most"].endswith(", in 2")
    kept = score(tmp_path, judge_server, on_caused_failures="keep")
    assert [*kept.rewards[:1], *kept.rewards[2:]] == [*rewards[:1], *rewards[2:]]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"on_caused_failures": "unscored"}, Reason.CAUSED_FAILURES),
        ({"on_caused_failures": "keep"}, Reason.NO_VERDICT),
    ],
)
def test_the_user_may_leave_it_unscored(tmp_path, judge_server, given, reason):
    """With the reason that the setting gives."""
    scored = score(tmp_path, judge_server, **given)
    assert scored.reasons == [None, reason, None, None]
    assert scored.lines[1]["genrm"]["caused_failures"] == 2


def test_a_rollout_whose_comparisons_all_failed_may_get_the_lowest_score(tmp_path, judge_server):
    """It has that advantage, too, whatever made them fail; one that was not asked about stays
    unscored.
    """
    scored = score(tmp_path, judge_server, on_caused_failures="keep", unscored="lowest")
    assert scored.rewards[1] == min(scored.rewards[0], *scored.rewards[2:])
    assert scored.lines[1]["genrm"]["advantage"] < 0
    assert scored.lines[1]["genrm"]["failed"] == 2
    assert (
        score(tmp_path, judge_server, on_caused_failures="unscored", unscored="lowest").rewards[1]
        is None
    )
    assert (
        score(tmp_path, judge_server, unscored="lowest", max_calls=0, use_journal=False).rewards
        == [None] * 4
    )


def test_compat_keeps_the_default_of_a_failure(tmp_path, judge_server):
    """As in NeMo Gym, nobody is blamed."""
    scored = score(tmp_path, judge_server, compat="nemo-gym")
    assert scored.rewards[1] == 3.0
    assert scored.metrics["caused_failures"] == 0


def test_it_loses_in_every_judge_and_component(tmp_path, judge_server):
    """A panel whose judges all refuse it, and its win rate."""
    panel = "[[judge]]\nmodel = 'a'\n[[judge]]\nmodel = 'b'\nweight = 2.0\n[components.win_rate]\n"
    scored = score(tmp_path, judge_server, panel)
    assert scored.component("win_rate")[1] == 0.0
    assert min(scored.component("genrm")) == scored.component("genrm")[1]
    assert scored.lines[1]["genrm"]["caused_failures"] == 4
    unscored = score(tmp_path, judge_server, panel, on_caused_failures="unscored")
    assert unscored.component("win_rate")[1] is None
    assert unscored.rewards[1] is None


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
    assert scored.rewards[1] <= min(reward for reward in scored.rewards if reward is not None)
    assert scored.lines[1]["genrm"]["caused_failures"] == 1


def test_one_failure_of_a_grade_blames_nobody():
    """It may be chance; several calls without a verdict are not."""
    silent = Failure(FailureKind.NO_VERDICT, "")
    for calls, blamed in ((1, ()), (2, ((2,),))):
        results = [
            (RequestId(0, 0, (index,)), Outcome(silent, calls) if index == 2 else VERDICT)
            for index in range(4)
        ]
        assert tuple(find_causes(judged(results, 4), GroupPlan(judges=(JUDGE,))).values()) == blamed


def test_it_loses_where_the_whole_group_is_shown_at_once():
    """The others have no grades, and thus no rewards."""
    ambiguous = Outcome(Failure(FailureKind.AMBIGUOUS, "", (2,)))
    plan = GroupPlan(judges=(JudgePlan("m", PROFILES["rewardanything"]),))
    found = verdicts_of(judged([(RequestId(0, 0, (2, 1, 0)), ambiguous)], 3), plan)
    (rewards,) = reward_verdicts([found], plan, CalibrationStatistics().fit())
    assert [score.reward for score in rewards.scores] == [None, 2.0, None]
    assert [score.caused_failures for score in rewards.scores] == [0, 1, 0]
