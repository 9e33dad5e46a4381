"""Phrase lists as data: what is read, and what is refused."""

import pytest

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.rules import RULES
from genrm_cli.sessions.rules.phrase_list import PhraseListError, iter_exchanges, parse_phrases
from genrm_cli.sessions.rules.transcript import Sentence, parse_session
from genrm_cli.sessions.session_rules import read_phrases

LIST = """
version = 3
[pieces]
animal = '(?:cat|dog)s?'
[[group]]
what = "pets"
effect = "lowers"
form = "statement"
patterns = ['my <animal>']
unless = ['toy']
"""


def test_pieces_stand_for_their_text() -> None:
    """A phrase with a piece matches at the edges of words, in sentences of its form, unless excused."""
    group = parse_phrases(LIST).group("pets")
    found = {
        text: group.find(Sentence(text, 0, 0)) for text in ("my cats.", "my catsup.", "my dog?", "my toy dog, my dog")
    }
    assert found == {"my cats.": "my cats", "my catsup.": None, "my dog?": None, "my toy dog, my dog": None}


def test_a_topic_is_needed_in_the_same_sentence() -> None:
    """With `together_with`, a phrase counts only beside one of these."""
    phrases = parse_phrases(LIST.replace("unless = ['toy']", "together_with = ['vet']"))
    find = phrases.group("pets").find
    assert find(Sentence("the vet saw my cat.", 0, 0)) == "my cat"
    assert find(Sentence("i saw my cat.", 0, 0)) is None


EXCHANGE = """
version = 1
[[group]]
what = "pets"
patterns = ['my cat']
[[exchange]]
what = "mocks"
client = ['i cried']
client_unless = ['with joy']
reply = ['how sweet']
unless = ['sorry']
"""


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (("i cried.", "how sweet."), [1]),
        (("i cried with joy.", "how sweet."), []),
        (("i cried.", "how sweet. no, sorry."), []),
        (("i laughed.", "how sweet."), []),
        (("i cried.", "i see.", "i laughed.", "how sweet."), []),
        (("hm.", "how sweet.", "i cried.", "oh, how sweet."), [3]),
    ],
)
def test_an_exchange_is_a_reply_to_what_the_client_just_said(said: tuple[str, ...], found: list[int]) -> None:
    """It takes both sides, in this order and in turns that follow each other, and no word that excuses either."""
    session = parse_session([Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(said)])
    exchanges = parse_phrases(EXCHANGE).exchanges
    assert [fired.turn for fired in iter_exchanges(session.own, session.heard, exchanges)] == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version = ", "not TOML"),
        ("version = 1", "`version`"),
        (EXCHANGE.replace('what = "mocks"', ""), "every exchange"),
        (EXCHANGE.replace("reply", "answer"), "'mocks' needs"),
        ("version = 1\n[[group]]\npatterns = ['x']", "name"),
        ("version = 1\n[[group]]\nwhat = 'a'", "'a' needs"),
        ("version = 1\n[[group]]\nwhat = 'a'\neffect = 'x'\npatterns = ['x']", "effect 'x'"),
        ("version = 1\n[[group]]\nwhat = 'a'\npatterns = ['(x']", "not a regular expression"),
        ("version = 1\n[[group]]\nwhat = 'a'\npatterns = ['x.*y']", "unbounded repetition"),
        ("version = 1\n[[group]]\nwhat = 'a'\npatterns = ['(?:x )*y']", "unbounded repetition"),
        ("version = 1\n[[group]]\nwhat = 'a'\npatterns = ['<b>']", "<b>"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(text: str, says: str) -> None:
    """The error names what is wrong, and in which group."""
    with pytest.raises(PhraseListError, match=says):
        parse_phrases(text)


@pytest.mark.parametrize("rule", list(RULES))
def test_every_rule_comes_with_its_list(rule: str) -> None:
    """A list has a version, and no two groups of one name."""
    phrases = read_phrases(rule)
    names = [group.what for group in phrases.groups]
    assert phrases.version >= 1
    assert len(set(names)) == len(names)
    with pytest.raises(PhraseListError, match="no group 'nothing'"):
        phrases.group("nothing")
