"""Phrase lists as data: what is read, and what is refused."""

import pytest

from genrm_cli.groups.components.rule_files import read_phrases
from genrm_cli.rules import RULES
from genrm_cli.rules.phrase_list import PhraseListError, parse_phrases
from genrm_cli.rules.transcript import Sentence

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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version = ", "not TOML"),
        ("version = 1", "`version`"),
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
