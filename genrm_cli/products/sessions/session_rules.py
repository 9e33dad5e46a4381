"""The rules by name: for environments and review, and as a kind of reward component."""

from collections.abc import Callable, Sequence

from msgspec import to_builtins

from genrm_cli.json_types import JsonObject
from genrm_cli.products.sessions.rules.form import form
from genrm_cli.products.sessions.rules.guard import guard, read_patterns
from genrm_cli.products.sessions.rules.transcript import RuleResult
from genrm_cli.rewards.component import Column, LocalKind, RolloutId
from genrm_cli.rollouts.rollout import Rollout, Turn
from genrm_cli.rollouts.scenario import Scenario, parse_scenario
from genrm_cli.settings import checks
from genrm_cli.settings.components import Component

GUARD = "guard"
FORM = "form"
_FORM_VERSION = 1  # raised whenever a value of the form may change

Rule = Callable[[Sequence[Turn], Scenario], RuleResult]
RULES: dict[str, Rule] = {GUARD: guard, FORM: form}


def _compute(
    component: Component,
    rollouts: Sequence[Rollout],
    records: Sequence[JsonObject],
    _ids: Sequence[RolloutId],
) -> Column:
    rule = RULES[component.option("rule") or ""]
    results = []
    for rollout, record in zip(rollouts, records, strict=True):
        if rollout.answer is None:  # it must not profit from earlier turns of the prompt
            results.append(RuleResult(None))
            continue
        said = rollout.session or (Turn("assistant", rollout.answer),)
        results.append(rule(rollout.prompt + said, parse_scenario(record)))
    notes = [[to_builtins(finding) for finding in result.findings] for result in results]
    return Column([result.value for result in results], notes)


KIND = LocalKind(
    options={"rule": checks.one_of(tuple(RULES))},
    required=("rule",),
    short="rule",
    implied=lambda name: {"rule": name} if name in RULES else {},
    name_of=lambda value: value,
    source="rules",
    version=lambda component: (
        read_patterns().version if component.option("rule") == GUARD else _FORM_VERSION
    ),
    compute=_compute,
)
