"""Deterministic checks of therapeutic sessions, each with the words that led to its value.

The rules are advisory, versioned screening: not a clinical judgement, and never the only gate. A rule sees only the
transcript, the scenario and its phrase list. To add a rule, add a module, a phrase list of the same name, and a line
below.
"""

from collections.abc import Callable, Mapping, Sequence

from genrm_cli.rollouts.record import Turn
from genrm_cli.rules.bias import bias
from genrm_cli.rules.empathy import empathy
from genrm_cli.rules.phrase_list import PhraseList
from genrm_cli.rules.result import RuleResult
from genrm_cli.rules.safety import safety
from genrm_cli.rules.scenario import Scenario
from genrm_cli.rules.task_completion import task_completion

Rule = Callable[[Sequence[Turn], Scenario, PhraseList], RuleResult]

RULES: Mapping[str, Rule] = {
    "safety": safety,
    "empathy": empathy,
    "bias": bias,
    "task_completion": task_completion,
}
