"""What a reward is made of besides verdicts: components of a group that need no judge, and how all are put together."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from genrm_cli.errors import UsageError
from genrm_cli.groups.graded import GradingCase
from genrm_cli.groups.graders import DIVERSITY, graders_in
from genrm_cli.groups.plugins import MOST, FunctionError, Values, call_function, find_function
from genrm_cli.groups.rule_files import read_rule
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.rewards.components.complementarity import complementarity_values
from genrm_cli.rewards.components.consistency import AnswerForm, Extraction, consistency_values, extract_answer
from genrm_cli.rewards.components.rank import rank_values
from genrm_cli.rewards.diversity import cluster_sizes, ngram_clusters
from genrm_cli.rewards.total import Gate, Total, TotalTerms, Weight
from genrm_cli.rollouts.record import Rollout, Turn
from genrm_cli.rules.result import RuleResult
from genrm_cli.rules.scenario import parse_scenario
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.components import Component, Diversity, TotalTable, needs_verdicts, order_of
from genrm_cli.settings.panel import graders_of

GENRM, WIN_RATE = "genrm", "win_rate"
_OF_A_GROUP = ("consistency", "complementarity", "python")
_SOURCES = {
    **dict.fromkeys((GENRM, WIN_RATE, "rubric", "rubric_rank"), "judge"),
    **dict.fromkeys(("field", "complementarity"), "input"),
    **{"rule": "rules", "consistency": "responses", "python": "functions"},
}


@dataclass(slots=True)
class Column:
    """One component of all rollouts of a group.

    Attributes:
        values: in the group's order; None where there is none.
        notes: what each value rests on (phrases, quotations), where that can be said.
        failure: why there are no values, in words; None if nothing failed.
    """

    values: Values
    notes: list[Any] = field(default_factory=list)
    failure: str | None = None

    def note(self, place: int) -> Any:
        """Return what the value of a rollout rests on; None if nothing can be said."""
        return self.notes[place] if self.notes else None


def has_components(settings: Settings) -> bool:
    """Whether rewards are made of more than the verdicts."""
    return (
        bool(settings.rewards.components)
        or settings.rewards.diversity is not None
        or settings.rewards.total is not None
    )


def asks_for_verdicts(settings: Settings) -> bool:
    """Whether pairs have to be judged."""
    return needs_verdicts(settings.rewards.components, settings.rewards.total)


def computes_locally(settings: Settings) -> bool:
    """Whether a component is made of what the lines hold alone."""
    return any(component.kind in _COMPUTE for component in settings.rewards.components)


def asks_anybody(settings: Settings) -> bool:
    """Whether anybody may have to be asked over HTTP: one who compares, or one who grades a component."""
    return (asks_for_verdicts(settings) and settings.judge.judge is None) or bool(graders_of(settings))


def without_components(settings: Settings) -> Settings:
    """Return settings whose rewards are made of verdicts alone."""
    return changed(settings, component=(), components=(), diversity=None, total=None, only_components=False)


@lru_cache(maxsize=64)
def component_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of all components of a rollout, `genrm` first where pairs are judged.

    Raises:
        UsageError: two components have the same name.
    """
    names = [GENRM] if asks_for_verdicts(settings) else []
    names += [component.name for component in settings.rewards.components if not component.is_judged]
    names += [name for grader in graders_in(settings) for name in grader.names]
    names = [name for place, name in enumerate(names) if name != GENRM or place == 0]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise UsageError(f"two components are called {twice!r}; give one of them another name.")
    return tuple(names)


def check_components(settings: Settings) -> None:
    """Refuse settings whose total, ranks or diversity name components that there are not.

    Raises:
        UsageError: names them; or a rubric set or function cannot be found.
    """
    names = component_names(settings)
    wanted = [
        ("rank", component.option("of") or GENRM)
        for component in settings.rewards.components
        if component.kind == "rank"
    ]
    if settings.rewards.total is not None:
        wanted += [("[total]", name) for name, _ in (*settings.rewards.total.weights, *settings.rewards.total.gates)]
    wanted += [
        ("[diversity]", name) for name in (settings.rewards.diversity.components if settings.rewards.diversity else ())
    ]
    for where, name in wanted:
        if name not in names:
            raise UsageError(
                f"{where} names the component {name!r}, which there is not; there are {', '.join(names) or 'none'}. "
                f"Add a table [components.{name}] or --component."
            )
    if idle := set(divided_by(settings)) - set(terms_of(settings).weights):
        raise UsageError(f"[diversity] divides {min(idle)!r}, which has no weight in the total.")
    for component in settings.rewards.components:
        if component.kind == "python":
            find_function(component.option("python") or "")


@lru_cache(maxsize=64)
def sources_of(settings: Settings) -> dict[str, str]:
    """Return where each component comes from: `judge`, `rules`, `input`, `responses` or `functions`."""
    sources = {GENRM: "judge"} | {name: "judge" for grader in graders_in(settings) for name in grader.names}
    for component in order_of(settings.rewards.components):
        if component.kind == "rank":
            sources[component.name] = sources.get(component.option("of") or GENRM, "judge")
        elif not component.is_judged:
            sources[component.name] = _SOURCES[component.kind]
    return sources


@lru_cache(maxsize=64)
def made_of_verdicts(settings: Settings) -> frozenset[str]:
    """Return the components that are missing where comparisons give no verdict."""
    made = {GENRM}
    for component in order_of(settings.rewards.components):
        if component.kind == WIN_RATE or (component.kind == "rank" and (component.option("of") or GENRM) in made):
            made.add(component.name)
    return frozenset(made)


@lru_cache(maxsize=64)
def terms_of(settings: Settings) -> TotalTerms:
    """Return how the reward is made of the components."""
    total = settings.rewards.total or TotalTable(weights=((GENRM, 1.0),))
    weights = {name: Weight(weight, name in total.optional) for name, weight in total.weights}
    return TotalTerms(weights, [Gate(*gate) for gate in total.gates], total.clip, total.normalise)


def render_scenario(record: Mapping[str, Any]) -> str | None:
    """Render what a record says of its scenario, for a judge; None if it says nothing."""
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
    rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]], settings: Settings, *, comparable: bool
) -> dict[str, Column]:
    """Compute the components that need neither judge nor verdict.

    Args:
        rollouts: of the group.
        records: the line of each.
        settings: which components.
        comparable: whether the rollouts answer the same prompt; else components of a group have no values.
    """
    columns = {}
    for component in settings.rewards.components:
        compute = _COMPUTE.get(component.kind)
        if compute is None:
            continue
        if not comparable and component.kind in _OF_A_GROUP:
            columns[component.name] = Column([None] * len(rollouts))
        else:
            columns[component.name] = compute(component, rollouts, records)
    return columns


def rank_columns(columns: dict[str, Column], settings: Settings, *, comparable: bool) -> None:
    """Add the components that are ranks of others."""
    for component in order_of(settings.rewards.components):
        if component.kind != "rank":
            continue
        values = columns[component.option("of") or GENRM].values
        ties: Literal["mean", "order"] = "order" if component.option("ties") == "order" else "mean"
        columns[component.name] = Column(rank_values(values, ties) if comparable else [None] * len(values))


def _consistency(component: Component, rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]]) -> Column:
    answers: dict[int, str | None] = {}
    for place, (rollout, record) in enumerate(zip(rollouts, records, strict=True)):
        if rollout.answer is None:
            continue  # no response at all is not one without an answer: it takes no part
        if (path := component.option("field")) is not None:
            answers[place] = _answer_at(record, path)
        else:
            extraction = _extraction(component.option("extract"), component.option("pattern"))
            answers[place] = extract_answer(rollout.answer, extraction)
    if answers and component.option("field") is not None and not any(answers.values()):
        return Column([None] * len(rollouts), failure=f"no rollout has {component.option('field')}")
    values = dict(zip(answers, consistency_values(list(answers.values())), strict=True))
    found = [answers.get(place) for place in range(len(rollouts))]
    notes = [None if answer is None else {"answer": answer[:200]} for answer in found]
    return Column([values.get(place) for place in range(len(rollouts))], notes)


def _answer_at(record: Mapping[str, Any], path: str) -> str | None:
    value = _value_at(record, path)
    if isinstance(value, float):
        return f"{value:.17g}"  # 1.0 is the answer 1
    return str(value) if isinstance(value, str | int) else None


@lru_cache(maxsize=16)
def _extraction(form: str | None, pattern: str | None) -> Extraction:
    return AnswerForm(form) if form is not None else re.compile(pattern or "")


def _complementarity(component: Component, rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]]) -> Column:
    del rollouts
    found = [_value_at(record, component.option("field") or "") for record in records]
    passed = [_tests_of(value) for value in found]
    return Column(complementarity_values(passed), failure=_why_refused(found, passed, "list of test ids"))


def _why_refused(found: Sequence[object], read: Sequence[object], expected: str) -> str | None:
    """Say what stood in a record and could not be read; None if everything could, or nothing was there."""
    refused = [given for given, value in zip(found, read, strict=True) if given is not None and value is None]
    return f"{refused[0]!r:.40} is no {expected}" if refused else None


def _tests_of(value: object) -> set[str] | None:
    """Return the test ids of a list of texts and whole numbers; None for anything else, such as flags."""
    if not isinstance(value, list) or not all(type(test) in (str, int) for test in value):
        return None
    return {str(test) for test in value}


def _rule(component: Component, rollouts: Sequence[Rollout], records: Sequence[Mapping[str, Any]]) -> Column:
    rule = read_rule(component.option("rule") or "")
    results = [
        RuleResult(None)  # of earlier turns in the prompt a rollout without a response must not profit
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
    found = [_value_at(record, component.option("field") or "") for record in records]
    values = [_number_of(value) for value in found]
    return Column(values, failure=_why_refused(found, values, f"number from 0 to {MOST:g}"))


def _number_of(value: object) -> float | None:
    """Return a number that stands in a record; below 0, not finite or anything else is none."""
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


def _value_at(record: Mapping[str, Any], path: str) -> Any:
    value: Any = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


_COMPUTE: Mapping[str, Callable[[Component, Sequence[Rollout], Sequence[Mapping[str, Any]]], Column]] = {
    "consistency": _consistency,
    "complementarity": _complementarity,
    "rule": _rule,
    "field": _field,
    "python": _function,
}


@dataclass(frozen=True, slots=True)
class Clusters:
    """Who shares a reward.

    Attributes:
        numbers: the cluster of each rollout, in the group's order; None without a response.
        sizes: of each rollout's cluster; 1 without a response.
        failed: whether the judge gave none, so that the fallback holds.
    """

    numbers: list[int | None]
    sizes: list[int]
    failed: bool = False


def clusters_of(
    diversity: Diversity, answered: Sequence[int], rollouts: Sequence[Rollout], gradings: Sequence[GradingCase]
) -> Clusters:
    """Find the clusters of a group's responses, by n-grams or by what a judge said."""
    if diversity.method == "ngram":
        texts = [rollouts[place].answer or "" for place in answered]
        found: list[int] | None = ngram_clusters(texts, diversity.n, diversity.threshold)
    else:
        found = next((grading.clusters() for grading in gradings if grading.grader.kind == DIVERSITY), [])
    numbers: list[int | None] = [None] * len(rollouts)
    sizes = [1] * len(rollouts)
    if found is None:
        fallback = len(answered) if diversity.fallback == "uniform" else 1
        return Clusters(numbers, [fallback] * len(rollouts), failed=True)
    for place, number, size in zip(answered, found, cluster_sizes(found), strict=True):
        numbers[place], sizes[place] = number, size
    return Clusters(numbers, sizes)


@lru_cache(maxsize=64)
def divided_by(settings: Settings) -> tuple[str, ...]:
    """Return the components that are divided by the size of a cluster."""
    named = () if settings.rewards.diversity is None else settings.rewards.diversity.components
    return named or tuple(terms_of(settings).weights)


def graded_columns(grading: GradingCase, n: int) -> dict[str, Column]:
    """Return the components that a grader's grades are."""
    rows = [grading.grades_of(place) for place in range(n)]
    notes = [grading.notes_of(place) for place in range(n)]
    return {
        name: Column(
            [None if row is None else row[number] for row in rows],
            [{"evidence": note[number]} if number < len(note) and note[number] else None for note in notes],
            grading.failure,
        )
        for number, name in enumerate(grading.grader.names)
    }


def count_components(
    tally: RunMetrics, columns: Mapping[str, Column], totals: Sequence[Total], settings: Settings
) -> None:
    """Count the components of a group, and where its rewards come from."""
    values = {name: column.values for name, column in columns.items()}
    tally.components.add_group(values, [total.value for total in totals])
    tally.component_failures.update(name for name, column in columns.items() if column.failure is not None)
    tally.gated += sum(bool(total.gated_by) and total.value is not None for total in totals)
    for total in totals:
        if total.value is not None:
            # What a gate closed is made of nothing.
            for name, term in () if total.gated_by else total.terms.items():
                tally.shares[sources_of(settings)[name]] += abs(term)
