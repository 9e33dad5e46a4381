"""Phrase lists as data: what is read, and that matching takes linear time."""

import re

from genrm_cli.sessions.session_rules import RULES, read_phrases

UNBOUNDED = re.compile(r"(?:\.|\\[wWsSdD]|\)|\])(?:[*+](?!\+)|\{\d*,\})")


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
