"""Parsing of the tables that define rewards: `[components.NAME]` (and `--component`), `[diversity]`, `[total]`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError
from typing import Any

from genrm_cli.catalog import COMPONENT_KINDS, RULES, listed
from genrm_cli.errors import UsageError
from genrm_cli.settings import checks
from genrm_cli.settings.checks import Check, boolean, first_repeated, judge_settings, one_of, refuse_unknown, text
from genrm_cli.settings.components import (
    DIVERSITY,
    GENRM,
    JUDGE_KEYS,
    JUDGED_KINDS,
    Component,
    Diversity,
    Option,
    TotalTable,
    order_of,
)

ANSWER_FORMS = ("boxed", "number", "labelled")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of component: its options, the required ones, and the one set by `--component KIND:X`."""

    options: Mapping[str, Check]
    required: tuple[str, ...] = ()
    short: str | None = None


_GRADED = _Kind({"set": text, "json_schema": boolean}, required=("set",), short="set")
_FIELD = _Kind({"field": text}, required=("field",), short="field")
_KINDS: Mapping[str, _Kind] = {
    "genrm": _Kind({}),
    "win_rate": _Kind({}),
    "rank": _Kind({"of": text, "ties": one_of(("mean", "order"))}, short="of"),
    "consistency": _Kind({"extract": one_of(ANSWER_FORMS), "pattern": checks.pattern, "field": text}, short="extract"),
    "complementarity": _FIELD,
    "rubric": _GRADED,
    "rubric_rank": _GRADED,
    "rule": _Kind({"rule": one_of(RULES)}, required=("rule",), short="rule"),
    "field": _FIELD,
    "python": _Kind({"python": checks.function}, required=("python",), short="python"),
}
_DIVERSITY_KEYS: Mapping[str, Callable[[object, str], object]] = {
    "method": one_of(("ngram", "llm")),
    "threshold": checks.number(0.0, 1.0),
    "n": checks.integer(1, 64),
    "fallback": one_of(("unique", "uniform")),
    "components": checks.names,
    "json_schema": boolean,
}
_WITHOUT_EFFECT = {"ngram": ("fallback", "json_schema"), "llm": ("threshold", "n")}
_TOTAL_KEYS = ("weights", "gates", "optional", "clip", "normalise")


def parse_components(tables: object, shorts: Sequence[str], where: str) -> tuple[Component, ...]:
    """Parse the `[components]` tables of a settings file, and the values of `--component`.

    Raises:
        UsageError: something is unknown, missing, defined twice, or depends on itself; the message names it.
    """
    if not isinstance(tables, Mapping):
        raise UsageError(f"{where}: expected tables, as in [components.safety].")
    components = [_parse_table(str(name), table, f"{where}.{name}") for name, table in tables.items()]
    components += [_parse_short(short) for short in shorts]
    given = [component.name for component in components]
    if (twice := first_repeated(given)) is not None:
        raise UsageError(f"component {twice!r} is defined twice; rename one in a table [components.NAME] with a kind.")
    try:
        order_of(components)
    except CycleError as error:
        raise UsageError(f"components depend on each other: {' of '.join(reversed(error.args[1]))}.") from error
    return tuple(components)


def _parse_table(name: str, table: object, where: str) -> Component:
    if not isinstance(table, Mapping) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: expected a table, named with lower-case letters, digits and _.")
    kind = str(table.get("kind", "python" if "python" in table else "rule" if name in RULES else name))
    if kind not in _KINDS:
        raise UsageError(f"{where}: kind {kind!r} is not one of {listed(COMPONENT_KINDS)}.")
    checks = _KINDS[kind].options
    known = ("kind", *checks, *(JUDGE_KEYS if kind in JUDGED_KINDS else ()))
    refuse_unknown(table, known, where, f"a component of kind {kind} has")
    options = {key: checks[key](raw, f"{where}.{key}") for key, raw in table.items() if key in checks}
    judge = judge_settings(table, f"{where}.") if kind in JUDGED_KINDS else ()
    options = _implied(name, kind) | options
    return _checked(Component(name, kind, tuple(sorted(options.items())), judge), where)


def _implied(name: str, kind: str) -> dict[str, Option]:
    """Return the option implied by the name of a table."""
    if kind == "rule" and name in RULES:
        return {"rule": name}
    return {"field": name} if kind == "field" and name != "field" else {}


def _parse_short(short: str) -> Component:
    where = f"--component {short}"
    kind, colon, value = short.partition(":")
    if kind in RULES and not colon:
        kind, value = "rule", kind
    if kind not in _KINDS:
        raise UsageError(f"{where}: expected one of {listed((*COMPONENT_KINDS, *RULES))}, or KIND:OPTION.")
    option = _KINDS[kind].short
    if value and option is None:
        raise UsageError(f"{where}: {kind} takes no option.")
    options = {option: _KINDS[kind].options[option](value, where)} if value and option is not None else {}
    return _checked(Component(_name_of(kind, value), kind, tuple(options.items())), where)


def _name_of(kind: str, value: str) -> str:
    """Return the name of a component given by `--component KIND:VALUE`."""
    if kind in ("field", "python") and value:
        return re.sub(r"[^a-z0-9_]+", "_", re.split(r"[.:]", value)[-1].lower()).strip("_")
    return value if kind == "rule" else kind


def _checked(component: Component, where: str) -> Component:
    given = dict(component.options)
    if not _NAME.fullmatch(component.name):
        raise UsageError(f"{where}: cannot derive a name; define it in a table [components.NAME].")
    if component.name == DIVERSITY or (component.name == GENRM) is not (component.kind == GENRM):
        raise UsageError(
            f"{where}: the names {GENRM} and {DIVERSITY} are reserved for the reward from verdicts and for "
            "[diversity]; give the component another name."
        )
    if missing := [name for name in _KINDS[component.kind].required if name not in given]:
        raise UsageError(f"{where}: a component of kind {component.kind} requires {' and '.join(missing)}.")
    if component.kind == "consistency" and len(given) != 1:
        raise UsageError(f"{where}: set exactly one of extract, pattern and field, to locate the answer.")
    return component


def parse_diversity(raw: object, where: str) -> Diversity:
    """Parse the `[diversity]` table.

    Raises:
        UsageError: something is unknown or out of bounds; the message names it.
    """
    given = checks.table(raw, where)
    is_judged = given.get("method") == "llm"
    refuse_unknown(given, (*_DIVERSITY_KEYS, *(JUDGE_KEYS if is_judged else ())), where)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in _DIVERSITY_KEYS:
            values[key] = _DIVERSITY_KEYS[key](value, f"{where}.{key}")
    method = values.get("method", "ngram")
    for name in _WITHOUT_EFFECT[method]:
        if name in values:
            raise UsageError(f"{where}: {name} has no effect with method {method}.")
    return Diversity(**values, judge=judge_settings(given, f"{where}.") if is_judged else ())


def parse_total(raw: object, where: str) -> TotalTable:
    """Parse the `[total]` table.

    Raises:
        UsageError: something is unknown, missing or out of bounds; the message names it.
    """
    given = checks.table(raw, where)
    refuse_unknown(given, _TOTAL_KEYS, where)
    weights = checks.numbers(given.get("weights", {}), f"{where}.weights")
    if not any(weight > 0 for _, weight in weights):
        raise UsageError(
            f"{where}: at least one component must have a weight above 0, as in {{ genrm = 1.0, safety = 0.5 }}."
        )
    optional = checks.names(given.get("optional", []), f"{where}.optional")
    if stray := set(optional) - {name for name, _ in weights}:
        raise UsageError(f"{where}.optional: {min(stray)!r} has no weight, so it is not part of the total.")
    return TotalTable(
        weights,
        checks.numbers(given.get("gates", {}), f"{where}.gates"),
        optional,
        None if given.get("clip") is None else checks.bounds(given["clip"], f"{where}.clip"),
        boolean(given.get("normalise", False), f"{where}.normalise"),
    )
