"""Parsing of the tables that define rewards: `[components.NAME]` (and `--component`),
`[shaping]`, `[diversity]`, `[total]`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from graphlib import CycleError

from genrm_cli.catalog import listed
from genrm_cli.errors import Part, SettingRef, UsageError
from genrm_cli.settings import checks
from genrm_cli.settings.components import (
    JUDGE_KEYS,
    Component,
    Diversity,
    Shaping,
    TotalTable,
    find_kind,
    kind_names,
    kind_of_name,
    order_of,
    refuse_reserved,
)
from genrm_cli.settings.judge_settings import CriteriaTable
from genrm_cli.texts.late_pattern import late_pattern

# A key of TOML without quotes, and a field of a scored line.
_NAME = late_pattern(r"[a-z][a-z0-9_]*")


_DIVERSITY: Mapping[str, checks.Check] = {
    "method": checks.one_of(("ngram", "llm")),
    "threshold": checks.number(0.0, 1.0),
    "n": checks.integer(1, 64),
    "fallback": checks.one_of(("unique", "uniform")),
    "components": checks.names,
    "json_schema": checks.boolean,
}
# Refused rather than ignored: who sets a threshold for a judge expects it to count.
_WITHOUT_EFFECT = {"ngram": ("fallback", "json_schema"), "llm": ("threshold", "n")}
_CRITERIA: Mapping[str, checks.Check] = {
    "sentences": checks.each_of(checks.text),
    "fields": checks.names,
}
_TOTAL: Mapping[str, checks.Check] = {
    "weights": checks.each_of(checks.number(0.0, 1e9)),
    "gates": checks.each_of(checks.number(0.0, 1e9)),
    "optional": checks.names,
}


_SHAPING: Mapping[str, checks.Check] = {
    each.name: checks.number(0.0, 1.0 if each.name == "top_percentile" else 1e9)
    for each in fields(Shaping)
}


def parse_components(tables: object, shorts: Sequence[str], where: str) -> tuple[Component, ...]:
    """Parse the `[components]` tables of a settings file, and the values of `--component`."""
    if not isinstance(tables, Mapping):
        raise UsageError(f"{where}: expected tables, as in [components.safety].")
    components = [
        _parse_table(str(name), table, f"{where}.{name}") for name, table in tables.items()
    ]
    components += [_parse_short(short) for short in shorts]
    given = [component.name for component in components]
    if (twice := checks.first_repeated(given)) is not None:
        raise UsageError(
            f"component {twice!r} is defined twice; rename one in a table [components.NAME] with "
            "a kind."
        )
    try:
        order_of(components)
    except CycleError as error:
        raise UsageError(
            f"components depend on each other: {' of '.join(reversed(error.args[1]))}; remove one."
        ) from error
    return tuple(components)


def _parse_table(name: str, table: object, where: str) -> Component:
    if not isinstance(table, Mapping) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: expected a table, named with lower-case letters, digits and _.")
    kind = str(table.get("kind", "python" if "python" in table else kind_of_name(name)))
    if kind not in kind_names():
        raise UsageError(f"{where}: kind {kind!r} is not one of {listed(kind_names())}.")
    found = find_kind(kind)
    known = ("kind", *found.options, *(JUDGE_KEYS if found.is_judged else ()))
    checks.refuse_unknown(table, known, where, f"a component of kind {kind} has")
    options = {**found.implied(name), **checks.read_values(table, where, found.options)}
    judge = checks.judge_settings(table, f"{where}.") if found.is_judged else ()
    return _checked(Component(name, kind, tuple(sorted(options.items())), judge), where)


def _parse_short(short: str) -> Component:
    where = SettingRef("component", short)
    kind, colon, value = short.partition(":")
    if kind_of_name(kind) != kind and not colon:
        kind, value = kind_of_name(kind), kind
    if kind not in kind_names():
        raise UsageError(where, f": expected one of {listed(kind_names())}, or KIND:OPTION.")
    found = find_kind(kind)
    options = {}
    if value and found.short is None:
        raise UsageError(where, f": {kind} takes no option; omit it.")
    if value and found.short is not None:
        options[found.short] = found.options[found.short](value, where)
    name = found.name_of(value) if found.name_of is not None and value else kind
    return _checked(Component(name, kind, tuple(options.items())), where)


def _checked(component: Component, where: Part) -> Component:
    given = dict(component.options)
    kind = find_kind(component.kind)
    if not _NAME.fullmatch(component.name):
        raise UsageError(where, ": cannot derive a name; define it in a table [components.NAME].")
    refuse_reserved(component.name, component.kind, where)
    if missing := [name for name in kind.required if name not in given]:
        raise UsageError(
            where, f": a component of kind {component.kind} requires {' and '.join(missing)}."
        )
    if (refused := kind.refuse(given)) is not None:
        raise UsageError(where, f": {refused}.")
    return component


def parse_shaping(raw: object, where: str, preset: Mapping[str, float]) -> Shaping:
    """Parse the `[shaping]` table, whose coefficients override those of a preset."""
    given = checks.table(raw, where)
    checks.refuse_unknown(given, _SHAPING, where)
    shaping = Shaping(**{**preset, **checks.read_values(given, where, _SHAPING)})
    if "top_percentile" in given and not (shaping.reasoning_bonus or shaping.answer_bonus):
        raise UsageError(
            f"{where}: top_percentile has no effect without reasoning_bonus or answer_bonus; "
            "set one, or omit it."
        )
    return shaping


def parse_diversity(raw: object, where: str) -> Diversity:
    """Parse the `[diversity]` table."""
    given = checks.table(raw, where)
    is_judged = given.get("method") == "llm"
    checks.refuse_unknown(given, (*_DIVERSITY, *(JUDGE_KEYS if is_judged else ())), where)
    values = checks.read_values(given, where, _DIVERSITY)
    method = values.get("method", "ngram")
    for name in _WITHOUT_EFFECT[method]:
        if name in values:
            raise UsageError(f"{where}: {name} has no effect with method {method}; omit it.")
    return Diversity(**values, judge=checks.judge_settings(given, f"{where}.") if is_judged else ())


def parse_total(raw: object, where: str) -> TotalTable:
    """Parse the `[total]` table."""
    given = checks.table(raw, where)
    checks.refuse_unknown(given, _TOTAL, where)
    total = TotalTable(**{"weights": (), **checks.read_values(given, where, _TOTAL)})
    if not any(weight > 0 for _, weight in total.weights):
        raise UsageError(
            f"{where}: at least one component must have a weight above 0, as in "
            f"{{ genrm = 1.0, safety = 0.5 }}."
        )
    if stray := set(total.optional) - {name for name, _ in total.weights}:
        raise UsageError(
            f"{where}.optional: {min(stray)!r} has no weight, so it is not part of the total; "
            "give it one, or remove it."
        )
    return total


def parse_criteria(raw: object, where: str) -> CriteriaTable:
    """Parse the `[criteria]` table."""
    given = checks.table(raw, where)
    checks.refuse_unknown(given, _CRITERIA, where)
    values = checks.read_values(given, where, _CRITERIA)
    if not values.get("sentences"):
        raise UsageError(
            f"{where}: sentences is missing; expected a table such as "
            '{ maths = "Judge only whether the final answer is right." }.'
        )
    return CriteriaTable(**values)
