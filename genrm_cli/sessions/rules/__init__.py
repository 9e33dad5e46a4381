"""Deterministic checks of therapeutic sessions, each with the words that led to its value.

The rules are advisory, versioned screening: not a clinical judgement, and never the only gate. A rule sees only the
transcript, the scenario and its phrase list. To add a rule, add a module, a phrase list of the same name, and its name
below.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.sessions.rules.bias import bias
from genrm_cli.sessions.rules.empathy import empathy
from genrm_cli.sessions.rules.phrase_list import PhraseList, RuleResult
from genrm_cli.sessions.rules.safety import safety
from genrm_cli.sessions.rules.task_completion import task_completion
from genrm_cli.sessions.rules.transcript import Session, parse_session

Rule = Callable[[Sequence[Turn], Scenario, PhraseList], RuleResult]
_Check = Callable[[Session, Scenario, PhraseList], RuleResult]


def _apply(check: _Check, transcript: Sequence[Turn], scenario: Scenario, phrases: PhraseList) -> RuleResult:
    session = parse_session(transcript)
    return check(session, scenario, phrases) if session.turns else RuleResult(None)


RULES: Mapping[str, Rule] = {
    check.__name__: partial(_apply, check) for check in (safety, empathy, bias, task_completion)
}
"""The rules by name. The value is None if the therapist says nothing."""
