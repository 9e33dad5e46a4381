"""The built-in phrase lists."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import files

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.rules import RULES
from genrm_cli.rules.phrase_list import PhraseList, parse_phrases
from genrm_cli.rules.result import RuleResult


@lru_cache(maxsize=len(RULES))
def read_phrases(name: str) -> PhraseList:
    """Read the phrase list of a built-in rule, once per process."""
    return parse_phrases(files("genrm_cli.rules").joinpath("phrases", f"{name}.toml").read_text(encoding="utf-8"))


def read_rule(name: str) -> Callable[[Sequence[Turn], Scenario], RuleResult]:
    """Return a built-in rule with its phrase list, ready for sessions.

    Raises:
        KeyError: there is no rule of that name.
    """
    rule, phrases = RULES[name], read_phrases(name)
    return lambda transcript, scenario: rule(transcript, scenario, phrases)
