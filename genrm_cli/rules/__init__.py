"""Rules: what can be said about a therapeutic session from its words alone, with the words that say it.

Screening, advisory, transparent and versioned: no clinical judgement, and never the only gate. A rule knows only
the transcript, the scenario and the phrase list it is given. A rule is added by one module, one phrase list of
the same name, and one line here.
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
