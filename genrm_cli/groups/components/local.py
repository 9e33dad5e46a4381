"""Components without a judge: rules, fields of the line, agreement of answers, and the user's own functions."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from genrm_cli.groups.components.columns import Column, value_at
from genrm_cli.groups.components.plugins import MOST, FunctionError, call_function
from genrm_cli.groups.components.rule_files import read_rule
from genrm_cli.rewards.components.complementarity import complementarity_values
from genrm_cli.rewards.components.consistency import AnswerForm, Extraction, consistency_values, extract_answer
from genrm_cli.rollouts.rollout import Rollout, Turn
from genrm_cli.rollouts.scenario import parse_scenario
from genrm_cli.rules.result import RuleResult
from genrm_cli.settings.components import Component

_OF_A_GROUP = ("consistency", "complementarity", "python")


def is_local(component: Component) -> bool:
    """Whether a component needs neither judge nor verdict."""
    return component.kind in _COMPUTE


def reads_record(component: Component) -> bool:
    """Whether a component reads fields of the line."""
    return component.kind in ("field", "complementarity", "rule", "python") or component.option("field") is not None


def render_scenario(record: Mapping[str, Any]) -> str | None:
    """Render the scenario of a record for a judge; None if the record has none."""
    scenario = parse_scenario(record)
    parts = {
        "Goal": [scenario.goal] if scenario.goal else [],
        "Constraints": scenario.constraints,
        "Risk level": [scenario.risk_level] if scenario.risk_level else [],
        "Expected outcomes": scenario.expected_outcomes,
        "Client": scenario.client_profile,
    }
    lines = [f"{title}: {'; '.join(texts)}" for title, texts in parts.items() if texts]
    return "\n".join(lines) or None


def local_columns(
    rollouts: Sequence[Rollout],
    records: Sequence[Mapping[str, Any]],
    components: Sequence[Component],
    *,
    comparable: bool,
) -> dict[str, Column]:
    """Compute the components that need neither judge nor verdict.

    Args:
        rollouts: rollouts of the group.
        records: the line of each rollout.
        components: components of any kind; those that are not local are skipped.
        comparable: whether the rollouts answer the same prompt; otherwise components of a group have no values.
    """
    columns = {}
    for component in components:
        compute = _COMPUTE.get(component.kind)
        if compute is None:
            continue
        if not comparable and component.kind in _OF_A_GROUP:
            columns[component.name] = Column([None] * len(rollouts))
        else:
            columns[component.name] = compute(component, rollouts, records)
    return columns


def _consistency(component: Component, rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]]) -> Column:
    answers: dict[int, str | None] = {}
    for index, (rollout, record) in enumerate(zip(rollouts, records, strict=True)):
        if rollout.answer is None:
            continue  # a rollout without a response is ignored; one whose response has no answer is not
        if (path := component.option("field")) is not None:
            answers[index] = _answer_at(record, path)
        else:
            extraction = _extraction(component.option("extract"), component.option("pattern"))
            answers[index] = extract_answer(rollout.answer, extraction)
    if answers and component.option("field") is not None and not any(answers.values()):
        return Column([None] * len(rollouts), failure=f"no rollout has {component.option('field')}")
    values = dict(zip(answers, consistency_values(list(answers.values())), strict=True))
    found = [answers.get(index) for index in range(len(rollouts))]
    notes = [None if answer is None else {"answer": answer[:200]} for answer in found]
    return Column([values.get(index) for index in range(len(rollouts))], notes)


def _answer_at(record: Mapping[str, Any], path: str) -> str | None:
    value = value_at(record, path)
    if isinstance(value, float):
        return f"{value:.17g}"  # 1.0 is the same answer as 1
    return str(value) if isinstance(value, str | int) else None


@lru_cache(maxsize=16)
def _extraction(form: str | None, pattern: str | None) -> Extraction:
    return AnswerForm(form) if form is not None else re.compile(pattern or "")


def _complementarity(component: Component, rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]]) -> Column:
    del rollouts
    found = [value_at(record, component.option("field") or "") for record in records]
    passed = [_tests_of(value) for value in found]
    return Column(complementarity_values(passed), failure=_why_refused(found, passed, "list of test ids"))


def _why_refused(found: Sequence[object], read: Sequence[object], expected: str) -> str | None:
    """Describe the first unreadable value; None if there is none."""
    refused = [given for given, value in zip(found, read, strict=True) if given is not None and value is None]
    return f"{refused[0]!r:.40} is not a {expected}" if refused else None


def _tests_of(value: object) -> set[str] | None:
    """Return the test ids of a list of strings and integers; None for anything else, such as booleans."""
    if not isinstance(value, list) or not all(type(test) in (str, int) for test in value):
        return None
    return {str(test) for test in value}


def _rule(component: Component, rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]]) -> Column:
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


def _field(component: Component, rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]]) -> Column:
    del rollouts
    found = [value_at(record, component.option("field") or "") for record in records]
    values = [_number_of(value) for value in found]
    return Column(values, failure=_why_refused(found, values, f"number from 0 to {MOST:g}"))


def _number_of(value: object) -> float | None:
    """Return a finite number of 0 or more; None for anything else."""
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= MOST:
        return None
    return float(value)


def _function(component: Component, rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]]) -> Column:
    try:
        return Column(call_function(component.option("python") or "", rollouts, [dict(record) for record in records]))
    except FunctionError as error:
        return Column([None] * len(rollouts), failure=str(error))


_COMPUTE: Mapping[str, Callable[[Component, Sequence[Rollout], Sequence[Mapping[str, Any]]], Column]] = {
    "consistency": _consistency,
    "complementarity": _complementarity,
    "rule": _rule,
    "field": _field,
    "python": _function,
}
