"""The tables of a settings file that say what a reward is made of: components, diversity, total."""

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from genrm_cli.errors import UsageError

Option = str | float | bool | tuple[str, ...]

ANSWER_FORMS = ("boxed", "number", "labelled")
ADVISORY_RULES = ("safety", "empathy", "bias", "task_completion")
_GENRM, _DIVERSITY = "genrm", "diversity"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# A component that a judge grades may be graded by another model than the one that compares.
JUDGE_KEYS = (
    *("model", "base_url", "temperature", "top_p", "max_reply_tokens", "api_key_env", "api_key_file"),
    *("ca_bundle", "judge_id", "concurrency", "call_timeout"),
)
_JUDGE_ALIASES = {"endpoint": "base_url"}


@dataclass(frozen=True, slots=True)
class Component:
    """One `[components.NAME]` table, or one `--component`.

    Attributes:
        name: of the component; a rubric set yields one component for each of its rubrics instead.
        kind: how it is computed.
        options: what the table says beside, checked, by name.
        judge: settings of the judge that grades it, by name, where they differ from the run's.
    """

    name: str
    kind: str
    options: tuple[tuple[str, Option], ...] = ()
    judge: tuple[tuple[str, Option], ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether a judge grades it, in calls of its own."""
        return KINDS[self.kind].judged

    def option(self, name: str) -> str | None:
        """Return an option that is a text; None if it is not given."""
        value = dict(self.options).get(name)
        return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Diversity:
    """The `[diversity]` table: near copies share their reward.

    Attributes:
        method: `ngram` or `llm`.
        threshold: from which similarity on two responses are of one cluster (ngram), 0 to 1.
        n: characters of a gram (ngram).
        fallback: what holds when the judge gave no clusters (llm): `unique` or `uniform`.
        components: the components that are divided; empty for all that the total weighs.
        json_schema: whether the judge is held to JSON by `response_format` (llm).
        judge: as for a component.
    """

    method: str = "ngram"
    threshold: float = 0.5
    n: int = 3
    fallback: str = "unique"
    components: tuple[str, ...] = ()
    json_schema: bool = True
    judge: tuple[tuple[str, Option], ...] = ()


@dataclass(frozen=True, slots=True)
class TotalTable:
    """The `[total]` table: how components become the reward.

    Attributes:
        weights: by component.
        gates: the least value by component; below it the reward is 0.
        optional: components that may be missing.
        clip: least and greatest reward; None leaves an end open.
        normalise: whether the sum is divided by the weights of the components that are there.
    """

    weights: tuple[tuple[str, float], ...]
    gates: tuple[tuple[str, float], ...] = ()
    optional: tuple[str, ...] = ()
    clip: tuple[float | None, float | None] | None = None
    normalise: bool = False


Convert = Callable[[str, object, str], Any]
"""Setting's name, raw value and place to the checked value; raises UsageError."""


def _text(raw: object, where: str) -> Option:
    if not isinstance(raw, str) or not raw:
        raise UsageError(f"{where}: {raw!r} is not a text.")
    return raw


def _one_of(*choices: str) -> Callable[[object, str], Option]:
    def check(raw: object, where: str) -> Option:
        if raw not in choices:
            raise UsageError(f"{where}: {raw!r} is not one of {', '.join(choices)}.")
        return str(raw)

    return check


def _truth(raw: object, where: str) -> Option:
    if not isinstance(raw, bool):
        raise UsageError(f"{where}: {raw!r} is neither true nor false.")
    return raw


def _pattern(raw: object, where: str) -> Option:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns of expressions whose meaning will change
            groups = re.compile(str(_text(raw, where))).groups
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise UsageError(f"{where}: {raw!r} is not a regular expression: {error}.") from error
    if groups != 1:
        raise UsageError(f"{where}: {raw!r} has {groups} groups; the answer is what its one group matches.")
    return str(raw)


def _function(raw: object, where: str) -> Option:
    if not isinstance(raw, str) or not _FUNCTION.fullmatch(raw):
        raise UsageError(f"{where}: {raw!r} is not package.module:function.")
    return raw


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a kind of component takes: options by name, those it needs, the one that `--component KIND:X` gives."""

    options: Mapping[str, Callable[[object, str], Option]]
    needs: tuple[str, ...] = ()
    short: str | None = None
    judged: bool = False


KINDS: Mapping[str, _Kind] = {
    "genrm": _Kind({}),
    "win_rate": _Kind({}),
    "rank": _Kind({"of": _text, "ties": _one_of("mean", "order")}, short="of"),
    "consistency": _Kind({"extract": _one_of(*ANSWER_FORMS), "pattern": _pattern, "field": _text}, short="extract"),
    "complementarity": _Kind({"field": _text}, needs=("field",), short="field"),
    "rubric": _Kind({"set": _text, "json_schema": _truth}, needs=("set",), short="set", judged=True),
    "rubric_rank": _Kind({"set": _text, "json_schema": _truth}, needs=("set",), short="set", judged=True),
    "rule": _Kind({"rule": _one_of(*ADVISORY_RULES)}, needs=("rule",), short="rule"),
    "field": _Kind({"field": _text}, needs=("field",), short="field"),
    "python": _Kind({"python": _function}, needs=("python",), short="python"),
}


def parse_components(tables: object, shorts: Sequence[str], where: str, convert: Convert) -> tuple[Component, ...]:
    """Read the `[components]` tables of a settings file, and those given by `--component`.

    Args:
        tables: what the file holds.
        shorts: `KIND` or `KIND:OPTION`, as `--component` takes it.
        where: the file and the key, for messages.
        convert: checks the value of a setting of a judge.

    Raises:
        UsageError: something is unknown, missing, there twice, or needs itself; names it.
    """
    if not isinstance(tables, Mapping):
        raise UsageError(f"{where}: expected tables, as in [components.safety].")
    components = [_parse_table(str(name), table, f"{where}.{name}", convert) for name, table in tables.items()]
    components += [_parse_short(short) for short in shorts]
    names = [component.name for component in components]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise UsageError(
            f"the component {twice!r} is there twice; a table [components.NAME] with a kind gives one another name."
        )
    _refuse_cycles(components)
    return tuple(components)


def _parse_table(name: str, table: object, where: str, convert: Convert) -> Component:
    if not isinstance(table, Mapping) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: a component is a table whose name is made of small letters, digits and _.")
    default = "python" if "python" in table else "rule" if name in ADVISORY_RULES else name
    kind_name = str(table.get("kind", default))
    if kind_name not in KINDS:
        raise UsageError(f"{where}: kind {kind_name!r} is not one of {', '.join(KINDS)}.")
    kind, options, judge = KINDS[kind_name], dict[str, Option](), dict[str, Option]()
    for key, raw in table.items():
        own = _JUDGE_ALIASES.get(key, key)
        if key == "kind":
            continue
        if key in kind.options:
            options[key] = kind.options[key](raw, f"{where}.{key}")
        elif kind.judged and own in JUDGE_KEYS:
            _refuse_second(judge, own, f"{where}.{key}")
            judge[own] = convert(own, raw, f"{where}.{key}")
        else:
            known = ("kind", *kind.options, *(JUDGE_KEYS if kind.judged else ()))
            raise UsageError(f"{where}: a component of kind {kind_name} has no {key!r}; it has {', '.join(known)}.")
    if kind_name == "rule" and "rule" not in options and name in ADVISORY_RULES:
        options["rule"] = name
    if kind_name == "field" and "field" not in options and name != "field":
        options["field"] = name
    return _checked(Component(name, kind_name, tuple(sorted(options.items())), tuple(sorted(judge.items()))), where)


def _parse_short(short: str) -> Component:
    where = f"--component {short}"
    kind_name, colon, value = short.partition(":")
    if kind_name in ADVISORY_RULES and not colon:
        kind_name, value = "rule", kind_name
    if kind_name not in KINDS:
        raise UsageError(f"{where}: expected one of {', '.join((*KINDS, *ADVISORY_RULES))}, or KIND:OPTION.")
    kind, options = KINDS[kind_name], dict[str, Option]()
    if value:
        if kind.short is None:
            raise UsageError(f"{where}: {kind_name} takes nothing after a colon.")
        options[kind.short] = kind.options[kind.short](value, where)
    name = value if kind_name == "rule" else kind_name
    if kind_name in ("field", "python") and value:
        name = re.sub(r"[^a-z0-9_]+", "_", re.split(r"[.:]", value)[-1].lower()).strip("_")
    return _checked(Component(name, kind_name, tuple(options.items())), where)


def _checked(component: Component, where: str) -> Component:
    kind, given = KINDS[component.kind], dict(component.options)
    if not _NAME.fullmatch(component.name):
        raise UsageError(f"{where}: no name can be made of it; give it a table [components.NAME].")
    if component.name == _DIVERSITY or (component.name == _GENRM) is not (component.kind == _GENRM):
        raise UsageError(
            f"{where}: {_GENRM} is what the verdicts give, by no other name, and {_DIVERSITY} what [diversity] says; "
            "give the component another name."
        )
    if missing := [name for name in kind.needs if name not in given]:
        raise UsageError(f"{where}: a component of kind {component.kind} needs {' and '.join(missing)}.")
    if component.kind == "consistency" and len(given) != 1:
        raise UsageError(f"{where}: say how an answer is found, by one of extract, pattern and field.")
    return component


def _refuse_cycles(components: Sequence[Component]) -> None:
    graph = {component.name: [_of(component)] for component in components if component.kind == "rank"}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise UsageError(f"components need one another: {' of '.join(reversed(error.args[1]))}.") from error


def order_of(components: Sequence[Component]) -> list[Component]:
    """Return components so that each stands behind those that it is made of."""
    by_name = {component.name: component for component in components}
    needed = {component.name: [] if component.kind != "rank" else [_of(component)] for component in components}
    order = TopologicalSorter(needed).static_order()
    return [by_name[name] for name in order if name in by_name]


def needs_verdicts(components: Sequence[Component], total: TotalTable | None) -> bool:
    """Whether pairs have to be judged: the reward, or a component that was asked for, is made of verdicts."""
    of_verdicts = [component.kind in ("genrm", "win_rate") for component in components]
    ranked = {_of(component) for component in components if component.kind == "rank"}
    if total is None or any(of_verdicts) or _GENRM in ranked:
        return True
    return _GENRM in {name for name, _ in (*total.weights, *total.gates)}


def _of(component: Component) -> str:
    return component.option("of") or _GENRM


def parse_diversity(table: object, where: str, convert: Convert) -> Diversity:
    """Read the `[diversity]` table.

    Raises:
        UsageError: something is unknown or out of bounds; names it.
    """
    given = _table(table, where)
    values: dict[str, object] = {}
    judge: dict[str, Option] = {}
    for key, raw in given.items():
        place = f"{where}.{key}"
        own = _JUDGE_ALIASES.get(key, key)
        if key == "method":
            values["method"] = _one_of("ngram", "llm")(raw, place)
        elif key == "threshold":
            values["threshold"] = _number(raw, place, 0.0, 1.0)
        elif key == "n":
            values["n"] = _whole(raw, place, 1, 64)
        elif key in ("fallback", "fallback_on_error"):
            values["fallback"] = _one_of("unique", "uniform")(raw, place)
        elif key == "components":
            values["components"] = _names(raw, place)
        elif key == "json_schema":
            values["json_schema"] = _truth(raw, place)
        elif own in JUDGE_KEYS and given.get("method") == "llm":
            _refuse_second(judge, own, place)
            judge[own] = convert(own, raw, place)
        else:
            known = "method, threshold, n, fallback, components, and for llm those of a judge"
            raise UsageError(f"{where}: there is no {key!r}; known are {known}.")
    unfit = {"ngram": ("fallback", "json_schema"), "llm": ("threshold", "n")}[str(values.get("method", "ngram"))]
    if useless := [name for name in unfit if name in values]:
        raise UsageError(f"{where}: {useless[0]} says nothing to the method {values.get('method', 'ngram')}.")
    return Diversity(**values, judge=tuple(sorted(judge.items())))  # type: ignore[arg-type]  # each was checked


def _refuse_second(given: Mapping[str, object], name: str, where: str) -> None:
    if name in given:
        raise UsageError(f"{where}: {name} is given twice, once as {' or '.join(_JUDGE_ALIASES)}; leave one out.")


def parse_total(table: object, where: str) -> TotalTable:
    """Read the `[total]` table.

    Raises:
        UsageError: something is unknown, missing or out of bounds; names it.
    """
    given = _table(table, where)
    if unknown := set(given) - {"weights", "gates", "optional", "clip", "normalise"}:
        raise UsageError(
            f"{where}: there is no {min(unknown)!r}; known are weights, gates, optional, clip and normalise."
        )
    weights = _numbers(given.get("weights", {}), f"{where}.weights")
    if not weights or not any(weight > 0 for _, weight in weights):
        raise UsageError(
            f"{where}: weights says how much each component counts, as in {{ genrm = 1.0, safety = 0.5 }}."
        )
    optional = _names(given.get("optional", []), f"{where}.optional")
    if stray := set(optional) - {name for name, _ in weights}:
        raise UsageError(f"{where}.optional: {min(stray)!r} has no weight, so it is not part of the total.")
    normalise = given.get("normalise", False)
    if not isinstance(normalise, bool):
        raise UsageError(f"{where}.normalise: {normalise!r} is neither true nor false.")
    gates = _numbers(given.get("gates", {}), f"{where}.gates")
    return TotalTable(weights, gates, optional, _clip(given.get("clip"), f"{where}.clip"), normalise)


def _table(table: object, where: str) -> Mapping[str, object]:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: {table!r} is no table.")
    return table


def _numbers(raw: object, where: str) -> tuple[tuple[str, float], ...]:
    return tuple((str(name), _number(value, f"{where}.{name}", 0.0, 1e9)) for name, value in _table(raw, where).items())


def _number(raw: object, where: str, low: float, high: float) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not low <= raw <= high:
        raise UsageError(f"{where}: {raw!r} is not a number from {low:g} to {high:g}.")
    return float(raw)


def _whole(raw: object, where: str, low: int, high: int) -> int:
    number = _number(raw, where, low, high)
    if not number.is_integer():
        raise UsageError(f"{where}: {raw!r} is not a whole number.")
    return int(number)


def _names(raw: object, where: str) -> tuple[str, ...]:
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise UsageError(f"{where}: {raw!r} is not a list of component names.")
    return tuple(raw)


def _clip(raw: object, where: str) -> tuple[float | None, float | None] | None:
    if raw is None:
        return None
    if not isinstance(raw, list) or len(raw) != 2 or not all(map(_is_end, raw)):
        raise UsageError(f"{where}: {raw!r} is not the least and the greatest reward, as in [0, 5].")
    low, high = map(float, raw)
    if not low < high:
        raise UsageError(f"{where}: {raw!r} leaves nothing between.")
    return None if low == -math.inf else low, None if high == math.inf else high


def _is_end(raw: object) -> bool:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return abs(raw) < 2**1023  # a float holds it
    return isinstance(raw, float) and not math.isnan(raw)
