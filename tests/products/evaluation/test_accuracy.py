"""From outcomes in both orders to figures."""

from math import comb
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_pairs import judged_pair
from msgspec.structs import asdict, fields

from genrm_cli.metrics.running_stats import Estimated, wilson_interval
from genrm_cli.products.evaluation.accuracy import (
    EVEN,
    PairShare,
    evaluate,
    evaluate_by_category,
    pairs_to_tell,
)
from genrm_cli.products.evaluation.pair_records import preference_of
from genrm_cli.verdicts import FailureKind, Verdict, verdict_after_swap

RIGHT = "right"
WRONG = "wrong"
TIE = "tie"
FAILED = FailureKind.NO_VERDICT
SKIPPED = FailureKind.NOT_ASKED


def outcome(first, second, item="", **given):
    """Make an outcome; without an item it is a line of its own."""
    outcome.count += 1
    return judged_pair(first, second, item or f"item-{outcome.count}", **given)


outcome.count = 0
results = st.sampled_from(["right", "wrong", "tie", *FailureKind])
lengths = st.integers(0, 3)
items = st.sampled_from(["", "a", "b"])
outcomes = st.lists(
    st.builds(outcome, results, results, items, chosen=lengths, rejected=lengths), max_size=12
)


@pytest.mark.parametrize(
    ("verdict", "preference"),
    [
        (Verdict(4, 2, 5), RIGHT),  # scores go before the ranking
        (Verdict(2, 4, 1), WRONG),
        (Verdict(3, 3, 3), RIGHT),
        (Verdict(3, 3, 4), WRONG),
        (Verdict(3, 3, 3.5), TIE),
    ],
)
def test_what_a_verdict_prefers(verdict, preference):
    """The higher score; on equal scores the ranking's side of the middle; else neither. Swapping
    changes nothing.
    """
    assert preference_of(verdict, chosen_first=True) == preference
    assert preference_of(verdict_after_swap(verdict), chosen_first=False) == preference


def test_nothing_gives_null():
    """Without a pair every rate is null and every count 0."""
    figures = evaluate([])
    for field in fields(figures):
        nothing = (0, None, {}, PairShare(None, None, None, 0, 0), Estimated(None, None, None))
        assert getattr(figures, field.name) in nothing, field.name


def test_ten_pairs_by_hand():
    """Accuracy averages a pair's orders first; the interval is that of ten independent lines."""
    figures = evaluate(
        [outcome(RIGHT, RIGHT) for _ in range(7)]
        + [outcome(RIGHT, WRONG) for _ in range(2)]
        + [outcome(WRONG, WRONG)]
    )
    assert figures.accuracy.value == pytest.approx((7 + 2 * 0.5) / 10)
    assert (figures.accuracy.low, figures.accuracy.high) == pytest.approx(
        (0.471066, 0.947273), abs=1e-6
    )
    assert (figures.accuracy.pairs, figures.accuracy.items) == (10, 10)


def test_a_tie_counts_half():
    """Two ties are half right, none consistent, no flip; a tie and a verdict differ, so they
    flip.
    """
    figures = evaluate([outcome(TIE, TIE)])
    assert (figures.accuracy.value, figures.ties) == (0.5, 2)
    assert (figures.consistent_accuracy.value, figures.flip_rate.value) == (0, 0)
    figures = evaluate([outcome(RIGHT, TIE)])
    assert (figures.accuracy.value, figures.flip_rate.value) == (0.75, 1)
    assert figures.first_place_preference.value == 0.75


def test_a_failure_is_neither_right_nor_wrong():
    """Accuracy is over what was judged."""
    figures = evaluate(
        [outcome(RIGHT, FAILED), outcome(FAILED, FailureKind.TIMEOUT), outcome(RIGHT, RIGHT)]
    )
    assert (figures.accuracy.value, figures.accuracy.pairs) == (1.0, 2)
    assert figures.consistent_accuracy.pairs == figures.flip_rate.pairs == 1
    assert (figures.verdicts, figures.failures, figures.not_asked) == (3, 3, 0)
    assert figures.failures_by_kind == {"no_verdict": 2, "timeout": 1}
    assert figures.failure_rate == 3 / 6


def test_what_was_never_asked_counts_nowhere():
    """A run that was stopped says nothing about the judgements it left out."""
    figures = evaluate([outcome(RIGHT, SKIPPED), outcome(SKIPPED, SKIPPED)])
    assert (figures.not_asked, figures.failures, figures.failure_rate) == (3, 0, 0.0)
    assert evaluate([outcome(FAILED, SKIPPED), outcome(RIGHT, SKIPPED)]).failure_rate == 0.5


def test_pairs_of_one_line_are_one_observation():
    """Nine pairs of one line make the interval no narrower than one pair; lines of unlike size
    count as fewer.
    """
    one = evaluate([outcome(RIGHT, RIGHT)]).accuracy
    nine = evaluate([outcome(RIGHT, RIGHT, "x") for _ in range(9)]).accuracy
    assert (nine.low, nine.high, nine.pairs, nine.items) == (one.low, one.high, 9, 1)
    unlike = evaluate(
        [outcome(RIGHT, RIGHT, "x") for _ in range(9)] + [outcome(RIGHT, RIGHT)]
    ).accuracy
    assert one.low < unlike.low < evaluate([outcome(RIGHT, RIGHT) for _ in range(2)]).accuracy.low


def test_costs_are_per_judgement_that_was_paid_for():
    """Calls, tokens, cost and latency are means (median) over judgements with calls; none without
    prices or calls.
    """
    free = outcome(RIGHT, RIGHT, calls=0)
    figures = evaluate([outcome(RIGHT, WRONG), free], price_in=2.0, price_out=10.0)
    assert figures.calls_per_judgement == 1
    assert figures.cost_per_judgement == pytest.approx((100 * 2 + 10 * 10) / 1e6)
    assert evaluate([outcome(RIGHT, WRONG)]).cost_per_judgement is None
    assert evaluate([free]).calls_per_judgement is None


def test_categories_stand_apart():
    """Each category has its own metrics; pairs without a category are under the empty name."""
    pairs = [outcome(RIGHT, RIGHT, category="b"), outcome(WRONG, WRONG, category="a")]
    found = evaluate_by_category([*pairs, outcome(TIE, TIE)])
    accuracies = [(name, figures.accuracy.value) for name, figures in found.items()]
    assert accuracies == [("", 0.5), ("a", 0), ("b", 1)]


@given(outcomes)
def test_figures_hold_together_whatever_happened(pairs):
    """Counts add up, and shares lie within their intervals."""
    figures = evaluate(pairs)
    assert figures.verdicts + figures.failures + figures.not_asked == 2 * len(pairs)
    assert sum(figures.failures_by_kind.values()) == figures.failures
    for value in asdict(figures).values():
        if isinstance(value, dict) and "items" in value and value["value"] is not None:
            assert 0 <= value["low"] <= value["value"] <= value["high"] <= 1
            assert 1 <= value["items"] <= value["pairs"] <= len(pairs)
    lengths = (figures.accuracy_longer_chosen, figures.accuracy_shorter_chosen)
    assert sum(share.pairs for share in lengths) <= figures.accuracy.pairs


@pytest.mark.parametrize(
    ("orders", "right"),
    [
        ((RIGHT, RIGHT), 1),
        ((RIGHT, TIE), 1),
        ((RIGHT, FAILED), 1),
        ((RIGHT, WRONG), 0),
        ((TIE, TIE), 0),
        ((WRONG, TIE), 0),
        ((FAILED, FAILED), 0),
        ((RIGHT, SKIPPED), None),
    ],
)
def test_judgebench_counts_orders_that_are_right_less_those_that_are_wrong(orders, right):
    """Over all pairs that were asked, failed ones included, as its own source does."""
    assert evaluate([outcome(*orders)]).judgebench_accuracy.value == right


@pytest.mark.slow
@pytest.mark.parametrize("consistent", [0.2, 0.9])
def test_intervals_of_averaged_orders_hold_the_accuracy(consistent):
    """In 92 to 98 % of runs of 60 pairs, whether the orders of a pair agree often or hardly
    ever; a judge whose orders differ gets narrower intervals.
    """
    draw = Random(1)
    held = 0
    widths = 0.0
    for _ in range(200):
        pairs = []
        for _ in range(60):
            first = RIGHT if draw.random() < 0.7 else WRONG
            again = RIGHT if draw.random() < 0.7 else WRONG
            pairs.append(outcome(first, first if draw.random() < consistent else again))
        share = evaluate(pairs).accuracy
        held += share.low <= 0.7 <= share.high
        widths += share.high - share.low
    assert 184 <= held <= 196
    assert widths / 200 == pytest.approx(0.23 if consistent > 0.5 else 0.18, abs=0.02)


def to_tell(*share):
    """Return how many pairs would tell an accuracy from a coin."""
    accuracy = PairShare(*share)
    return pairs_to_tell(accuracy, EVEN, accuracy)


def test_a_judge_that_may_be_a_coin_needs_more_pairs():
    """The number tells in four of five evaluations, and there is none for a judge that is told
    apart or is no better, or for a few lines, however many pairs they have.
    """
    needed = to_tell(0.6, *wilson_interval(0.6, 40), 40, 40)
    power = sum(
        comb(needed, right) * 0.6**right * 0.4 ** (needed - right)
        for right in range(needed + 1)
        if wilson_interval(right / needed, needed)[0] > 0.5
    )
    assert power == pytest.approx(0.8, abs=0.03)
    assert to_tell(0.6, 0.2, 0.9, 99, 9) is None
    assert to_tell(0.6, 0.51, 0.68, 400, 400) is None
    assert to_tell(0.5, 0.4, 0.6, 40, 40) is None
