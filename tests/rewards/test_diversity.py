"""Clusters of near copies, against the definition written with plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.neutralise.forms import fold
from genrm_cli.rewards.diversity import clusters_of, ngram_clusters

CLOSE = st.text(alphabet="abAé ", max_size=12)
ANY = st.text(alphabet="aZ \n\t.9éßİ漢字ñ\u0301\u200b😀🏳️\U0010ffff", max_size=12)
WIDE = st.text(alphabet="\U0010ffff\U0010fffe\x00aß\u0130😀", max_size=12)
GROUPS = st.lists(st.one_of(CLOSE, ANY, WIDE), max_size=8)


def sizes_of(texts, n=3, threshold=0.5):
    """Return the size of each text's cluster."""
    found = ngram_clusters(texts, n, threshold)
    return clusters_of(found, range(len(texts)), len(texts), uniform_fallback=False).sizes


def plain_grams(text, n):
    """Return the set of n-grams by its definition."""
    text = text.lower().strip()
    if len(text) < n:
        return {text} if text else set()
    return {text[start : start + n] for start in range(len(text) - n + 1)}


def plain_similarity(a, b, n):
    """Return Jaccard's index by its definition."""
    one = plain_grams(a, n)
    other = plain_grams(b, n)
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
                    index
                    for index, text in enumerate(texts)
                    if clusters[index] is None and plain_similarity(texts[at], text, n) >= threshold
                ]
    return clusters


def test_golden_sizes():
    """The facts of the reference, and the edges of the definition."""
    cases = [
        (
            ["hello world", "hello world", "goodbye moon"],
            3,
            0.5,
            [2, 2, 1],
        ),
        (["same text"] * 3, 3, 0.5, [3, 3, 3]),
        (["", "", "something"], 3, 0.5, [2, 2, 1]),
        (["ab", "abc", "bc"], 1, 0.6, [3, 3, 3]),
        (
            ["alpha", "beta", "gamma"],
            3,
            0.99,
            [1, 1, 1],
        ),
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
    ]
    for texts, n, threshold, sizes in cases:
        assert sizes_of(texts, n, threshold) == sizes


REWORDED = tuple(
    f"I'm writing {article} paper on the topic of synthesis"
    for article in ("a research", "an academic")
)


def test_golden_similarities():
    """Two texts are joined up to the similarity that the reference states, and not above."""
    cases = [
        (0.6452, 3, REWORDED),
        (0.5, 1, ("abc", "bcd")),
        (1.0, 3, ("ab", " AB")),
    ]
    for similarity, n, texts in cases:
        assert ngram_clusters(texts, n, similarity - 5e-5) == [0, 0]
        assert similarity == 1 or ngram_clusters(texts, n, similarity + 5e-5) == [0, 1]


@given(GROUPS, st.integers(1, 6), st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.6, 1.0]))
def test_clusters_are_those_of_the_definition(texts, n, threshold):
    """Also where sizes rule pairs out, for any characters and any n; texts are folded first."""
    folded = [fold(text)[0] for text in texts]
    assert ngram_clusters(texts, n, threshold) == plain_clusters(folded, n, threshold)
