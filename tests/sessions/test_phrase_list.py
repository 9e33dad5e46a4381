"""Phrase lists as data: what is read, and that matching takes linear time."""

import re

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.rules.phrase_list import iter_exchanges, parse_phrases
from genrm_cli.sessions.rules.transcript import Sentence, parse_session
from genrm_cli.sessions.session_rules import RULES, read_phrases

UNBOUNDED = re.compile(r"(?:\.|\\[wWsSdD]|\)|\])(?:[*+](?!\+)|\{\d*,\})")
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


def test_pieces_stand_for_their_text():
    """A phrase with a piece matches at the edges of words, in sentences of its form, unless
    excused.
    """
    group = parse_phrases(LIST).group("pets")
    found = {
        text: group.find(Sentence(text, 0, 0))
        for text in ("my cats.", "my catsup.", "my dog?", "my toy dog, my dog")
    }
    assert found == {
        "my cats.": "my cats",
        "my catsup.": None,
        "my dog?": None,
        "my toy dog, my dog": None,
    }


def test_a_topic_is_needed_in_the_same_sentence():
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


def test_an_exchange_is_a_reply_to_what_the_client_just_said():
    """It takes both sides, in this order and in turns that follow each other, and no word that
    excuses either.
    """
    cases = [
        (("i cried.", "how sweet."), [1]),
        (("i cried with joy.", "how sweet."), []),
        (("i cried.", "how sweet. no, sorry."), []),
        (("i laughed.", "how sweet."), []),
        (("i cried.", "i see.", "i laughed.", "how sweet."), []),
        (("hm.", "how sweet.", "i cried.", "oh, how sweet."), [3]),
    ]
    for said, found in cases:
        session = parse_session(
            [Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(said)]
        )
        exchanges = parse_phrases(EXCHANGE).exchanges
        assert [
            fired.turn for fired in iter_exchanges(session.own, session.heard, exchanges)
        ] == found


def test_every_rule_comes_with_its_list():
    """A list has a version, groups of different names that apply to known sentences, and no
    unbounded repetition.
    """
    for rule in RULES:
        phrases = read_phrases(rule)
        groups = [
            *phrases.groups,
            *(side for each in phrases.exchanges for side in (each.client, each.reply)),
        ]
        names = [group.what for group in phrases.groups]
        assert phrases.version >= 1
        assert len(set(names)) == len(names)
        assert {group.form for group in groups} <= {"any", "question", "statement"}
        patterns = [
            pattern
            for group in groups
            for pattern in (group.pattern, group.unless, group.together_with)
            if pattern
        ]
        patterns += [each.unless for each in phrases.exchanges if each.unless]
        words = (pattern.pattern.replace(r"\w*", "").replace(r"\w+", "") for pattern in patterns)
        assert [text for text in words if UNBOUNDED.search(text)] == []
