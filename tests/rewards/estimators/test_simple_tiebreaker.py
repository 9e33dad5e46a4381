"""From verdicts to base scores: the golden values of the reference, and what must hold for all verdicts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdict_rows import Row, verdicts_of

from genrm_cli.rewards.estimators import Calibration, estimate

MAX_N = 6
SCORES = st.sampled_from([1.0, 1.5, 2.0, 3.0, 4.0, 5.0])
RANKINGS = st.sampled_from([1.0, 2.0, 3.0, 3.5, 4.0, 5.0, 6.0])
PAIRS = st.tuples(st.integers(0, MAX_N - 1), st.integers(0, MAX_N - 1)).filter(lambda pair: pair[0] != pair[1])
VERDICTS = st.builds(lambda pair, a, b, r: Row(*pair, a, b, r), PAIRS, SCORES, SCORES, RANKINGS)
LISTS = st.lists(VERDICTS, max_size=20)


def estimate_simple_tiebreaker(n, rows):
    """Return the base scores."""
    return estimate("simple_tiebreaker", n, verdicts_of(rows), Calibration()).base_scores


def naive_scores(n, rows):
    """Average the scores of each rollout, written from the definition."""
    given = [[] for _ in range(n)]
    for i, j, score_1, score_2, ranking in rows:
        shift = 3.5 - ranking if score_1 == score_2 else 0.0
        given[i].append(score_1 + shift)
        given[j].append(score_2 - shift)
    return [sum(scores) / len(scores) if scores else None for scores in given]


def approx(scores):
    """Compare up to rounding, None only with None."""
    return [score if score is None else pytest.approx(score, abs=1e-12) for score in scores]


@pytest.mark.parametrize(
    ("n", "verdicts", "scores"),
    [
        (2, [(0, 1, 1, 5, 6), (1, 0, 4, 1, 1)], [1.0, 4.5]),
        (2, [(0, 1, 3, 3, 2)], [4.5, 1.5]),
        (2, [(0, 1, 3, 3, 3.5)], [3.0, 3.0]),
        (3, [(0, 1, 4, 2, 1), (1, 2, 3, 5, 5), (2, 0, 3, 4, 4)], [4.0, 2.5, 4.0]),
        (2, [(0, 1, 3, 3, 1)], [5.5, 0.5]),
        (2, [(0, 1, 5, 1, 6)], [5.0, 1.0]),
    ],
    ids=["seed example", "tie", "even tie", "circle", "wide tie", "ranking contradicts"],
)
def test_golden_scores(n, verdicts, scores):
    """The reference's numbers; a ranking counts only where the scores are equal."""
    assert estimate_simple_tiebreaker(n, verdicts) == approx(scores)


@given(LISTS)
def test_scores_are_those_of_the_definition(verdicts):
    """Up to rounding in the last digit."""
    expected = [score if score is None else pytest.approx(score, rel=1e-15) for score in naive_scores(MAX_N, verdicts)]
    assert estimate_simple_tiebreaker(MAX_N, verdicts) == expected


def test_repeats_are_averaged():
    """Several judges on one pair are averaged, not put to the vote."""
    repeats = [Row(0, 1, 5, 1, 1), Row(0, 1, 5, 1, 1), Row(0, 1, 1, 4, 6)]
    assert estimate_simple_tiebreaker(2, repeats) == approx([11 / 3, 2.0])


@pytest.mark.parametrize("n", [0, 1, 3])
def test_no_verdict_is_no_number(n):
    """Without a verdict there is no score: not 0, not 3, not the middle."""
    assert estimate_simple_tiebreaker(n, []) == [None] * n
    assert estimate_simple_tiebreaker(n + 2, [Row(n, n + 1, 4, 2, 1)]) == [*[None] * n, 4.0, 2.0]


@given(LISTS, st.permutations(range(MAX_N)))
def test_names_do_not_matter(verdicts, order):
    """Numbering the rollouts otherwise numbers the scores otherwise, and nothing else."""
    renamed = [Row(order[v.i], order[v.j], *v[2:]) for v in verdicts]
    scores = estimate_simple_tiebreaker(MAX_N, verdicts)
    assert [estimate_simple_tiebreaker(MAX_N, renamed)[place] for place in order] == approx(scores)


@given(LISTS, st.randoms())
def test_the_order_of_the_verdicts_does_not_matter(verdicts, shuffler):
    """Verdicts come in as they finish; the scores are the same."""
    shuffled = list(verdicts)
    shuffler.shuffle(shuffled)
    scores = estimate_simple_tiebreaker(MAX_N, verdicts)
    assert estimate_simple_tiebreaker(MAX_N, shuffled) == approx(scores)


@given(LISTS)
def test_places_do_not_matter(verdicts):
    """The same opinions with the responses shown in the other order give exactly the same scores."""
    swapped = [Row(v.j, v.i, v.score_2, v.score_1, 7 - v.ranking) for v in verdicts]
    assert estimate_simple_tiebreaker(MAX_N, swapped) == estimate_simple_tiebreaker(MAX_N, verdicts)


@given(LISTS, VERDICTS)
def test_a_verdict_touches_only_its_two_rollouts(verdicts, another):
    """A further verdict leaves the scores of all others exactly as they were."""
    before = estimate_simple_tiebreaker(MAX_N, verdicts)
    after = estimate_simple_tiebreaker(MAX_N, [*verdicts, another])
    others = [place for place in range(MAX_N) if place not in (another.i, another.j)]
    assert [before[place] for place in others] == [after[place] for place in others]


@given(st.lists(VERDICTS.filter(lambda v: v.score_1 != v.score_2), max_size=20))
def test_without_ties_scores_stay_on_the_scale(verdicts):
    """Only a tie can leave the scale of 1 to 5."""
    scores = estimate_simple_tiebreaker(MAX_N, verdicts)
    assert all(1 <= score <= 5 for score in scores if score is not None)
