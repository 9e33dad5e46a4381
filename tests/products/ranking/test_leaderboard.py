import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from products.ranking.recorded_systems import ORDERS, SHARES, recorded_outcomes

from genrm_cli.metrics.figures import FigureForm
from genrm_cli.metrics.running_stats import Z_95, joint_z_95, student_95
from genrm_cli.products.ranking.leaderboard import (
    Leaderboard,
    PairRow,
    build_leaderboard,
    sentence_of,
)
from genrm_cli.products.ranking.looks import LEAST_PROMPTS, critical_z, share_interval
from genrm_cli.products.ranking.outcomes import Outcomes, OutcomeTable

ELO = 400 / np.log(10)


def simulate(
    k: int, prompts: int, generator: np.random.Generator, gap: float = 0.25, position: float = 0.36
) -> tuple[Outcomes, np.ndarray]:
    """Judge K policies `gap` apart on prompts that suit some of them, in both orders; return the
    true win rates, too.

    Policy × prompt and sample deviations are .8 and .6, as in the reference of the statistics.
    """
    theta = gap * (np.arange(k)[::-1] - (k - 1) / 2)
    table = OutcomeTable([f"p{each}" for each in range(k)])
    for _ in range(prompts):
        table.begin_prompt(range(k))
        quality = theta + generator.normal(0, 0.8, k) + generator.normal(0, 0.6, k)
        for a, b in ((a, b) for a in range(k) for b in range(k) if a != b):
            odds = quality[a] - quality[b] + position
            table.add(a, b, float(generator.random() < 1 / (1 + np.exp(-odds))))
    noise = generator.normal(0, 2**0.5, (20_000, 1, 1))
    odds = theta[:, None] - theta[None, :] + noise
    truth = (1 / (1 + np.exp(-odds - position)) + 1 / (1 + np.exp(-odds + position))).mean(
        axis=0
    ) / 2
    return table.outcomes(), truth


def pair_of(board: Leaderboard, a: str, b: str) -> PairRow:
    """Return the row of two policies."""
    return next(row for row in board.pairs if (row.a, row.b) == (a, b))


def test_the_worked_example_is_reproduced() -> None:
    """Win rates, strengths, their errors and the position are those computed independently on
    GPT-4's verdicts.
    """
    board = build_leaderboard(recorded_outcomes())
    found = {row.name: row for row in board.policies}
    expected = {
        "gpt4": (85.6, 302, 49),
        "claude": (70.9, 160, 34),
        "vicuna-13b": (34.8, -124, 34),
        "gpt35": (34.2, -129, 45),
        "bard": (24.5, -209, 45),
    }
    assert list(found) == list(expected)
    one_look = student_95(79)
    for name, (rate, elo, half) in expected.items():
        row = found[name]
        assert 100 * row.win_rate == pytest.approx(rate, abs=0.06)
        assert ELO * row.strength == pytest.approx(elo, abs=0.55)
        assert ELO * one_look * row.se == pytest.approx(half, abs=0.55)
        assert row.hi - row.strength == pytest.approx(row.strength - row.lo)
        assert row.hi - row.strength > 1.36 * one_look * row.se
    assert board.position == pytest.approx(0.71, abs=0.005)
    pair = pair_of(board, "claude", "gpt4")
    assert (100 * pair.w, 100 * one_look * pair.se) == pytest.approx((32.2, 5.8), abs=0.06)
    assert (pair.hi < 0.5, pair.better, board.warnings) == (True, "gpt4", ())
    assert sentence_of(board, "J") == "J prefers gpt4 to every other policy."


@given(st.floats(0, 1), st.integers(0, 2))
def test_wins_and_losses_make_a_hundred(share, digits) -> None:
    """Two shares of the same prompts add up as they are printed, however they are rounded."""
    form = FigureForm(digits, unit=100)
    printed = [float(form.number(each)) for each in (share, 1 - share)]
    assert round(sum(printed), 6) == 100
    assert abs(printed[0] - 100 * share) <= 0.5 * 10**-digits + 1e-6


def test_a_difference_is_claimed_only_with_all_comparisons_accounted_for() -> None:
    """An interval for one pair of gpt35 and bard excludes one half; that of all ten does not."""
    pair = pair_of(build_leaderboard(recorded_outcomes()), "bard", "gpt35")
    assert (100 * pair.w, 100 * student_95(79) * pair.se) == pytest.approx((41.2, 8.1), abs=0.06)
    assert pair.w + student_95(79) * pair.se < 0.5 < pair.hi
    assert pair.better is None
    assert (pair.lo, pair.hi) == share_interval(pair.w, pair.se, 80, 160, critical_z(80, 10))


def test_one_fixed_order_is_not_taken_for_both() -> None:
    """In alphabetical order alone the position decides: no win rate is given, and a warning says
    so. In an order drawn for each prompt it is noise.
    """
    orders = [pair for pair in ORDERS if pair[0] < pair[1]]
    board = build_leaderboard(recorded_outcomes(orders=orders))
    assert {row.w for row in board.pairs} == {None}
    assert "no pair was judged in both orders" in board.warnings[0]
    table = OutcomeTable(["p0", "p1"])
    for prompt in range(40):
        table.begin_prompt([0, 1])
        first = prompt % 2
        table.add(first, 1 - first, 1.0)
    (drawn,) = build_leaderboard(table.outcomes()).pairs
    assert (drawn.w, drawn.n_prompts) == (0.5, 40)


@pytest.mark.slow
@pytest.mark.parametrize(("prompts", "runs"), [(50, 300), (200, 300)])
def test_intervals_hold_the_truth(prompts, runs) -> None:
    """All win rates of four policies are within their intervals in more than 95 % of runs."""
    generator = np.random.default_rng(prompts)
    held = 0
    for _ in range(runs):
        outcomes, truth = simulate(4, prompts, generator)
        rows = build_leaderboard(outcomes).pairs
        held += all(row.lo <= truth[int(row.a[1]), int(row.b[1])] <= row.hi for row in rows)
    assert held / runs > 0.95


def outcomes_of(lines: list[str], policies: int = 2) -> Outcomes:
    """Return outcomes of prompts written as `abw`: policies a and b, shown in this order, and who
    won.
    """
    table = OutcomeTable([f"p{each}" for each in range(policies)])
    for line in lines:
        table.begin_prompt(range(policies))
        for a, b, won in line.split():
            table.add(int(a), int(b), None if won == "x" else SHARES[won])
    return table.outcomes()


def test_a_policy_that_always_wins_has_a_bound() -> None:
    """A warning says that its strength is a bound, and its win rate has an interval of positive
    width.
    """
    board = build_leaderboard(outcomes_of(["011 102"] * 30))
    assert board.policies[0].win_rate == 1.0
    assert 0.6 < board.pairs[0].lo < board.pairs[0].hi == 1.0
    assert any("their strength is a bound" in warning for warning in board.warnings)
    # 30 wins and half a win each way from the tie of each order.
    assert board.policies[0].strength == pytest.approx(np.log(30.5 / 0.5) / 2)
    other = build_leaderboard(outcomes_of(["012 101"] * 30))
    assert sentence_of(other, "J") == (
        "J prefers p1 to p0: 100.0 % win rate on prompts like these (70.7 to 100.0)."
    )
    assert sentence_of(board, "J") == (
        "J prefers p0 to p1: 100.0 % win rate on prompts like these (70.7 to 100.0)."
    )


@pytest.mark.parametrize("lines", [["01= 10="] * 25, ["011 101"] * 25, ["01= 10="]])
def test_a_judge_that_sees_no_difference_separates_nothing(lines) -> None:
    """Ties everywhere, or the first position everywhere, give one half and no claim: not even an
    interval of no width.
    """
    board = build_leaderboard(outcomes_of(lines))
    assert [row.lo for row in board.policies] == [None, None]
    assert [row.win_rate for row in board.policies] == [0.5, 0.5]
    assert [row.strength for row in board.policies] == pytest.approx([0, 0], abs=1e-6)
    assert board.pairs[0].better is None


def test_equal_responses_are_no_verdict() -> None:
    """If a rule alone made the ties, there is no strength and no error, and a warning says why."""
    table = OutcomeTable(["p0", "p1"])
    for _ in range(25):
        table.begin_prompt([0, 1])
        table.add(0, 1, 0.5, by_rule=True)
        table.add(1, 0, 0.5, by_rule=True)
    board = build_leaderboard(table.outcomes())
    row = board.policies[0]
    assert (row.win_rate, row.strength, row.se, board.pairs[0].lo) == (0.5, *[None] * 3)
    assert (board.by_rule, board.n_verdicts) == (50, 0)
    assert board.warnings == (
        "nothing was judged: all responses are equal or blank, or all comparisons failed",
    )


def test_one_prompt_has_no_interval_and_few_make_no_claim() -> None:
    """One prompt gives an estimate alone; nineteen that all agree still claim nothing, and a
    warning counts them.
    """
    single, few = (build_leaderboard(outcomes_of(["011 102"] * count)) for count in (1, 19))
    (pair,) = single.pairs
    assert (pair.w, pair.lo, single.policies[0].se) == (1.0, None, None)
    assert few.pairs[0].lo > 0.5
    assert {few.pairs[0].better, few.policies[0].lo} == {None}
    assert "only 19 prompts" in few.warnings[0]
    assert sentence_of(few, "J").startswith("19 of 20 prompts that p0 and p1 need at least: 100.0")


def test_a_failure_is_missing_and_takes_the_other_order_with_it() -> None:
    """A lone order does not count for a win rate, and failures count for nobody but are shown."""
    lines = ["011 102"] * 24 + ["01x 101"] * 6 + ["011 10x"] * 2
    board = build_leaderboard(outcomes_of(lines))
    (pair,) = board.pairs
    assert (pair.w, pair.n_prompts, pair.failed, board.failed) == (1.0, 24, 8, 8)
    assert "8 of 64 comparisons failed; they count for neither policy" in board.warnings
    one_in_twenty = outcomes_of(["011 102"] * 45 + ["01x 101"] * 5)
    assert "failed" not in " ".join(build_leaderboard(one_in_twenty).warnings)


def test_policies_that_never_meet_have_no_common_strength() -> None:
    """Two separate pairs keep their win rates; strengths are unknown and a warning says why."""
    board = build_leaderboard(outcomes_of(["011 102 231 322", "012 101 232 321"] * 15, policies=4))
    assert [row.strength for row in board.policies] == [None] * 4
    assert {(row.a, row.b): row.w for row in board.pairs} == {("p0", "p1"): 0.5, ("p2", "p3"): 0.5}
    assert "no chain of comparisons joins all policies" in board.warnings[0]
    assert sentence_of(board, "J") == "Not separated at the top: p0, p1, p2, p3."


def test_a_sentence_names_few_policies() -> None:
    """Of many policies that nothing separates, it names five and counts the others."""
    lines = [" ".join(f"{a}{b}=" for a in range(9) for b in range(9) if a != b)] * 20
    board = build_leaderboard(outcomes_of(lines, policies=9))
    assert sentence_of(board, "J") == "Not separated at the top: p0, p1, p2, p3, p4 and 4 more."


def test_a_policy_that_met_nobody_is_not_in_the_sentence() -> None:
    """In a trial of few prompts, policies that answered none of them are not said to be close."""
    table = OutcomeTable(["absent", "p1", "p2", "p3"])
    for _ in range(3):
        table.begin_prompt([1, 2, 3])
        table.add(1, 2, 0.5)
        table.add(2, 3, 0.5)
    board = build_leaderboard(table.outcomes())
    assert sentence_of(board, "J") == "Not separated at the top: p1, p2, p3."


def test_shares_near_one_keep_their_interval() -> None:
    """Near 1 and on few prompts the interval is Wilson's; between, with many prompts, Student's."""
    assert share_interval(1.0, 0.0, 20, 40, Z_95) == (pytest.approx(0.82, abs=0.005), 1.0)
    assert share_interval(0.5, 0.05, 100, 200, Z_95) == pytest.approx(
        (0.5 - 1.984 * 0.05, 0.5 + 1.984 * 0.05), abs=1e-4
    )
    assert share_interval(0.5, 0.0, 100, 200, Z_95) == pytest.approx((0.403, 0.597), abs=0.001)


def exchanged(shares: list[float], generator: random.Random, count: int) -> list[float]:
    """Draw prompts and exchange the policies at random: neither is better."""
    drawn = generator.choices(shares, k=count)
    return [share if generator.random() < 0.5 else 1 - share for share in drawn]


def claims(shares: list[float], *, one_look: bool = False) -> bool:
    """Return whether a look after every prompt from the 20th on calls one of two better."""
    total = squares = 0.0
    for n, share in enumerate(shares, 1):
        total += share
        squares += share**2
        if n < LEAST_PROMPTS:
            continue
        mean = total / n
        error = max(0.0, (squares / n - mean**2) / (n - 1)) ** 0.5
        z = Z_95 if one_look else critical_z(n)
        low, high = share_interval(mean, error, n, 2 * n, z)
        if low > 0.5 or high < 0.5:
            return True
    return False


def test_equal_policies_stay_equal_however_often_one_looks() -> None:
    """On recorded verdicts with the policies exchanged at random, a look after each of 200 prompts
    calls one better in at most 5 of 100 runs; with intervals for one look, in more than 20.
    """
    generator = random.Random(0)
    recorded = recorded_outcomes().win_shares()[:, 1, 3].tolist()  # claude against gpt4: sd .36
    runs = [exchanged(recorded, generator, 200) for _ in range(120)]
    assert sum(claims(run) for run in runs) <= 6
    assert sum(claims(run, one_look=True) for run in runs) > 24


@pytest.mark.parametrize(
    ("comparisons", "prompts", "width"),
    [(1, 20, 1.90), (1, 50, 1.62), (1, 200, 1.57), (10, 20, 1.64), (10, 50, 1.41), (10, 200, 1.36)],
)
def test_intervals_that_hold_at_any_time_are_as_wide_as_their_source_says(
    comparisons, prompts, width
) -> None:
    """Against Student's interval for one look, at the same number of comparisons."""
    anytime, one_look = (
        student_95(prompts - 1, z)
        for z in (critical_z(prompts, comparisons), joint_z_95(comparisons))
    )
    assert anytime / one_look == pytest.approx(width, abs=0.011)
