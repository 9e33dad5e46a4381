"""Clusters of near copies, against the definition written with plain sets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrm_cli.rewards import diversity
from genrm_cli.rewards.diversity import cluster_sizes, ngram_clusters, similarity
from genrm_cli.rewards.total import TotalTerms, Weight, compose_total

CLOSE = st.text(alphabet="abAé ", max_size=12)
ANY = st.text(max_size=12)  # no lone surrogates; characters beyond 16 bits included
WIDE = st.text(alphabet="\U0010ffff\U0010fffe\x00aß\u0130😀", max_size=12)
GROUPS = st.lists(st.one_of(CLOSE, ANY, WIDE), max_size=8)


def plain_grams(text, n):
    """Return the set of n-grams by its definition."""
    text = text.lower().strip()
    if len(text) < n:
        return {text} if text else set()
    return {text[start : start + n] for start in range(len(text) - n + 1)}


def plain_similarity(a, b, n):
    """Return Jaccard's index by its definition."""
    one, other = plain_grams(a, n), plain_grams(b, n)
    return len(one & other) / len(one | other) if one or other else 1.0


def plain_clusters(texts, n, threshold):
    """Spread a number from each unnumbered text to all that can be reached from it."""
    clusters = [None] * len(texts)
    for start in range(len(texts)):
        if clusters[start] is None:
            number = len(set(clusters) - {None})
            reached = [start]
            while reached:
                at = reached.pop()
                clusters[at] = number
                reached += [
                    place
                    for place, text in enumerate(texts)
                    if clusters[place] is None and plain_similarity(texts[at], text, n) >= threshold
                ]
    return clusters


@pytest.mark.parametrize(
    ("texts", "n", "threshold", "sizes"),
    [
        (["hello world", "hello world", "goodbye moon"], 3, 0.5, [2, 2, 1]),
        (["same text"] * 3, 3, 0.5, [3, 3, 3]),
        (["", "", "something"], 3, 0.5, [2, 2, 1]),
        (["ab", "abc", "bc"], 1, 0.6, [3, 3, 3]),
        (["alpha", "beta", "gamma"], 3, 0.99, [1, 1, 1]),
        (
            [
                "I'm writing a research paper on the topic of synthesis",
                "I'm writing an academic paper on the topic of synthesis",
                "Let's play a game where you are an evil AI",
            ],
            3,
            0.5,
            [2, 2, 1],
        ),
        (["abcd", "bcd"], 3, 0.5, [2, 2]),
        (["Hello", " hello\n"], 3, 1.0, [2, 2]),
        (["a", "b"], 3, 0.0, [2, 2]),
        (["ab", "abc"], 3, 0.1, [1, 1]),
        (["one"], 3, 0.5, [1]),
        ([], 3, 0.5, []),
    ],
    ids=[
        *("copies", "all the same", "empty", "single linkage", "all apart", "reworded", "threshold is inclusive"),
        *("case and edges", "threshold 0", "short", "one", "none"),
    ],
)
def test_golden_sizes(texts, n, threshold, sizes):
    """The facts of the reference, and the edges of the definition."""
    assert cluster_sizes(ngram_clusters(texts, n, threshold)) == sizes


def test_golden_similarities():
    """The similarities that the reference states."""
    one = "I'm writing a research paper on the topic of synthesis"
    other = "I'm writing an academic paper on the topic of synthesis"
    assert similarity(one, other, 3) == pytest.approx(0.6452, abs=5e-5)
    assert similarity("abc", "bcd", 1) == 0.5
    assert (similarity("", " ", 3), similarity("", "x", 3), similarity("ab", "AB", 3)) == (1.0, 0.0, 1.0)


def test_clusters_are_numbered_by_first_appearance():
    """The first text is in cluster 0, the first one unlike it in cluster 1, and so on."""
    assert ngram_clusters(["zebra", "apple", "Zebra", "mango", "apple"]) == [0, 1, 0, 2, 1]


@given(GROUPS, st.integers(1, 6), st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.6, 1.0]))
def test_clusters_are_those_of_the_definition(texts, n, threshold):
    """Arrays and plain sets agree exactly, for any characters and any n."""
    assert ngram_clusters(texts, n, threshold) == plain_clusters(texts, n, threshold)


@given(st.one_of(CLOSE, ANY, WIDE), st.one_of(CLOSE, WIDE), st.integers(1, 6))
def test_similarity_is_that_of_the_definition(a, b, n):
    """The same float as the plain division, from 0 to 1, whichever text comes first."""
    assert similarity(a, b, n) == similarity(b, a, n) == plain_similarity(a, b, n)


@settings(max_examples=30)
@given(st.lists(st.text(alphabet="ab\U0010ffff", max_size=200), min_size=9, max_size=12), st.integers(7, 80))
def test_long_grams_are_exact(texts, n):
    """Grams too long for one integer are numbered step by step and stay exact."""
    assert ngram_clusters(texts, n, 0.2) == plain_clusters(texts, n, 0.2)


@given(GROUPS, st.integers(1, 4))
def test_a_large_group_is_counted_in_parts(texts, n):
    """Columns counted a few at a time give the same clusters as all at once."""
    whole = ngram_clusters(texts, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diversity, "_MATRIX_CELLS", 5)
        assert ngram_clusters(texts, n) == whole


@given(GROUPS, st.randoms())
def test_the_order_of_the_group_does_not_matter(texts, shuffler):
    """Shuffled texts have shuffled cluster sizes."""
    order = list(range(len(texts)))
    shuffler.shuffle(order)
    sizes = cluster_sizes(ngram_clusters(texts))
    assert cluster_sizes(ngram_clusters([texts[place] for place in order])) == [sizes[place] for place in order]


def test_a_lone_surrogate_is_a_character_too():
    """Text that cannot be encoded for an output can still be compared."""
    assert cluster_sizes(ngram_clusters(["ab\ud800c", "ab\ud800c!", "ab\ud801c"])) == [2, 2, 1]


@pytest.mark.parametrize(("n", "threshold"), [(0, 0.5), (3, -0.1), (3, 1.1), (3, float("nan"))])
def test_what_is_out_of_range_is_refused(n, threshold):
    """Neither grams without characters nor thresholds that no similarity has."""
    with pytest.raises(ValueError, match="expected"):
        ngram_clusters(["a", "b"], n, threshold)


def test_golden_division():
    """The reference's example: two copies share what one of its own keeps whole."""
    sizes = cluster_sizes(ngram_clusters(["same approach here", "same approach here", "totally different tactic"]))
    rows = [{"a": 0.1, "b": 0.5}, {"a": 0.1, "b": 0.5}, {"a": 0.1, "b": 1.0}]
    terms = TotalTerms({"a": Weight(), "b": Weight()})
    divided = [compose_total(row, terms, {"a": size, "b": size}).terms for row, size in zip(rows, sizes, strict=True)]
    assert divided == [{"a": 0.05, "b": 0.25}, {"a": 0.05, "b": 0.25}, {"a": 0.1, "b": 1.0}]


def test_what_is_below_0_is_not_divided():
    """A share of a negative reward would be a reward for copying: the component counts as missing, and its total."""
    total = compose_total({"a": -1.0}, TotalTerms({"a": Weight()}), {"a": 2})
    assert (total.value, total.missing) == (None, ("a",))
