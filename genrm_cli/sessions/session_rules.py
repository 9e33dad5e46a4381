"""The rules with their phrase lists: for environments and review, and as a kind of reward component."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import files

from genrm_cli.json_types import JsonObject
from genrm_cli.rewards.component import Column, LocalKind
from genrm_cli.rollouts.rollout import Rollout, Turn
from genrm_cli.rollouts.scenario import Scenario, parse_scenario
from genrm_cli.sessions.rules import RULES
from genrm_cli.sessions.rules.phrase_list import PhraseList, RuleResult, parse_phrases
from genrm_cli.settings import checks
from genrm_cli.settings.components import Component


@lru_cache(maxsize=len(RULES))
def read_phrases(name: str) -> PhraseList:
    """Read the phrase list of a built-in rule, once per process."""
    return parse_phrases(
        files("genrm_cli.sessions.rules").joinpath("phrases", f"{name}.toml").read_text(encoding="utf-8")
    )


def read_rule(name: str) -> Callable[[Sequence[Turn], Scenario], RuleResult]:
    """Return a built-in rule with its phrase list, ready for sessions.

    Raises:
        KeyError: there is no rule of that name.
    """
    rule, phrases = RULES[name], read_phrases(name)
    return lambda transcript, scenario: rule(transcript, scenario, phrases)


def _compute(component: Component, rollouts: Sequence[Rollout], records: Sequence[JsonObject]) -> Column:
    rule = read_rule(component.option("rule") or "")
    results = [
        RuleResult(None)  # a rollout without a response must not profit from earlier turns of the prompt
        if rollout.answer is None
        else rule(rollout.prompt + (rollout.session or (Turn("assistant", rollout.answer),)), parse_scenario(record))
        for rollout, record in zip(rollouts, records, strict=True)
    ]
    notes = [
        [
            {"what": fired.what, "phrase": fired.phrase, "turn": fired.turn, "effect": fired.effect.value}
            for fired in r.fired
        ]
        for r in results
    ]
    return Column([result.value for result in results], notes)


KIND = LocalKind(
    options={"rule": checks.one_of(RULES)},
    required=("rule",),
    short="rule",
    implied=lambda name: {"rule": name} if name in RULES else {},
    name_of=lambda value: value,
    source="rules",
    version=lambda component: read_phrases(component.option("rule") or "").version,
    compute=_compute,
)
