"""Texts are shortened until every prompt fits into the context of its judges."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.shorten import Room, shorten_view
from genrm_cli.rollouts.views import SharedView
from genrm_cli.texts.tokens import estimate_tokens

ROOM = Room(1_000, 2)


def shorten(texts, rooms=(ROOM,), asked="Why?", **more):
    """Shorten the responses to a question."""
    return shorten_view(
        SharedView((Turn("user", asked),), list(texts), **more), rooms, is_marked=False
    )


def words(count, word="word "):
    """Make a text of words, of which two take three tokens at least."""
    return word * count


def test_digits_and_symbols_are_tokens_and_three_other_bytes_are_one():
    """A text that no encoding can represent is counted, too."""
    cases = [
        ("", 0),
        ("abc", 1),
        ("abcd", 2),
        ("12", 2),
        ("a, b", 2),
        ("是", 1),
        ("😀", 2),
        ("\ud800", 1),
    ]
    for text, tokens in cases:
        assert estimate_tokens(text) == tokens


def test_texts_that_fit_stay_as_they_are():
    """So do texts of which too little would be left, and those for judges of unknown context."""
    for rooms in [(), (Room(10_000, 2),), (Room(20, 2),), (Room(-5, 1),)]:
        view = SharedView((Turn("user", "Why?"),), [words(300), "[--- ASSISTANT ---]"])
        assert shorten_view(view, rooms, is_marked=False) is view


def test_only_the_longest_text_is_cut_in_its_middle():
    """Start and end stay, a mark says how much is missing, and the others are whole."""
    long = f"Start. {words(2_000)}End."
    short = words(100)
    view = shorten([long, short, short])
    assert view.responses[1:] == [short, short]
    assert view.responses[0].startswith("Start. word")
    assert view.responses[0].endswith("word End.")
    assert f"\n[--- {view.shortened[0]:,} characters cut ---]\n" in view.responses[0]
    assert view.shortened[1:] == (0, 0)
    assert view.conversation == (Turn("user", "Why?"),)


def test_two_long_texts_share_the_room():
    """Neither is preferred: both are cut to the same length."""
    first, second, third = shorten([words(2_000), words(3_000), words(400)]).responses
    assert abs(len(first) - len(second)) < 10
    assert third == words(400)[: len(third)] or "characters cut" in third


def test_a_long_prompt_is_cut_too():
    """Every rollout of the group is then shortened by as much."""
    view = shorten(["yes", "no"], asked=words(4_000))
    assert "characters cut" in view.conversation[0].text
    assert view.responses == ["yes", "no"]
    assert view.shortened[0] == view.shortened[1] > 10_000


def test_long_responses_do_not_cut_a_prompt_that_fits_into_half_of_the_room():
    """They would hide the task from the judge, also where two others are compared."""
    asked = words(280)
    view = shorten(["yes", "no", words(4_000), words(4_000)], asked=asked)
    assert view.conversation[0].text == asked
    assert [chars > 0 for chars in view.shortened] == [False, False, True, True]


def test_a_response_cannot_imitate_the_mark():
    """Its own mark is changed where any text of the group is cut."""
    view = shorten([words(2_000), "[--- 9,999 characters cut ---]"])
    assert view.responses[1] == "[¦--- 9,999 characters cut -¦--]"


@given(
    st.lists(st.text(max_size=150).map(lambda text: text * 20), min_size=2, max_size=5),
    st.integers(300, 3_000),
)
def test_every_pair_fits(texts, tokens):
    """Whatever the texts are; each is shown alike in all its pairs."""
    view = shorten(texts, (Room(tokens, 2),))
    turns = estimate_tokens(view.conversation[0].text) + 16
    for pair in combinations(view.responses, 2):
        assert sum(map(estimate_tokens, pair)) + turns <= tokens


@given(st.lists(st.integers(0, 400), min_size=2, max_size=12), st.integers(200, 3_000))
def test_a_list_loses_responses_before_a_response_loses_text(counts, tokens):
    """What is cut is cut only in lists of three; longer lists fit, whichever responses they
    have.
    """
    texts = [words(count) for count in counts]
    view = shorten(texts, (Room(tokens, 8),))
    assert view.list_size is not None
    assert 3 <= view.list_size <= 8
    longest = sorted(map(estimate_tokens, texts))[-view.list_size :]
    if view.list_size > 3:
        assert not view.shortened
        assert sum(longest) < tokens
    if view.list_size < min(8, len(texts)):
        one_more = sorted(map(estimate_tokens, texts))[-view.list_size - 1 :]
        assert sum(one_more) + estimate_tokens("Why?") + 16 > tokens


def test_pairs_know_no_lists():
    """The size of lists is for listwise judges."""
    assert shorten([words(900)] * 3).list_size is None
