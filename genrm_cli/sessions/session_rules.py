"""The rules with their phrase lists: for environments and review, and as a kind of reward
component.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from genrm_cli.json_types import JsonObject
from genrm_cli.rewards.component import Column, LocalKind, RolloutId
from genrm_cli.rollouts.rollout import Rollout, Turn
from genrm_cli.rollouts.scenario import Scenario, parse_scenario
from genrm_cli.sessions.rules.attention import attention
from genrm_cli.sessions.rules.bias import bias
from genrm_cli.sessions.rules.constraints import constraints
from genrm_cli.sessions.rules.empathy import empathy
from genrm_cli.sessions.rules.phrase_list import PhraseList, RuleResult, parse_phrases
from genrm_cli.sessions.rules.safety import safety
from genrm_cli.sessions.rules.task_completion import task_completion
from genrm_cli.sessions.rules.transcript import parse_session
from genrm_cli.settings import checks
from genrm_cli.settings.components import Component

Rule = Callable[[Sequence[Turn], Scenario], RuleResult]
"""Checks a transcript; the value is None if the therapist says nothing."""

_CHECKS = {
    check.__name__: check
    for check in (safety, constraints, empathy, bias, task_completion, attention)
}
_SHARED = {"constraints": "safety"}  # what breaks some constraints is harm anyway
RULES = tuple(_CHECKS)


@cache
def read_phrases(name: str) -> PhraseList:
    """Read the phrase list of a rule, once per process."""
    return parse_phrases(_read_list(name), _read_list(_SHARED[name]) if name in _SHARED else "")


def _read_list(name: str) -> str:
    return (
        files("genrm_cli.sessions.rules")
        .joinpath("phrases", f"{name}.toml")
        .read_text(encoding="utf-8")
    )


def read_rule(name: str) -> Rule:
    """Return a rule, a name in `RULES`, with its phrase list."""
    check = _CHECKS[name]
    phrases = read_phrases(name)

    def apply(transcript: Sequence[Turn], scenario: Scenario) -> RuleResult:
        session = parse_session(transcript)
        return check(session, scenario, phrases) if session.turns else RuleResult(None)

    return apply


def _compute(
    component: Component,
    rollouts: Sequence[Rollout],
    records: Sequence[JsonObject],
    _ids: Sequence[RolloutId],
) -> Column:
    rule = read_rule(component.option("rule") or "")
    results = [
        RuleResult(
            None
        )  # a rollout without a response must not profit from earlier turns of the prompt
        if rollout.answer is None
        else rule(
            rollout.prompt + (rollout.session or (Turn("assistant", rollout.answer),)),
            parse_scenario(record),
        )
        for rollout, record in zip(rollouts, records, strict=True)
    ]
    notes = [[asdict(fired) for fired in result.fired] for result in results]
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
