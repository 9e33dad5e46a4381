"""The parts of a reward as settings: components, diversity and total; and the kinds of components.

A kind is a module of `genrm_cli.rewards.components` with a `KIND`, or an entry point
`genrm.components` of an installed package. It is imported when it is first used."""

import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

from msgspec import Struct

from genrm_cli.errors import Part, UsageError
from genrm_cli.extensions import Seam, extension_names, load_extension
from genrm_cli.settings.kinds import Value

Option = Value
Options = tuple[tuple[str, Option], ...]
JudgeValues = tuple[tuple[str, Value], ...]
Source = Literal["judge", "rules", "input", "responses", "functions"]

TABLES = ("components", "criteria", "diversity", "s3", "shaping", "total")  # of a settings file
# The component of the verdicts; no other may have its name.
GENRM = "genrm"
DIVERSITY = "diversity"
# Names beside components where trainers read them: what gates change in NeMo Gym's
# `reward_components`, the metrics of verl's reward manager, what TRL's reward function returns.
_TAKEN = ("limits", "signal", "came", "scored", "rewards", "advantages")
# A module of this package is a kind: adding one needs no list.
_BUILT_IN = "genrm_cli.rewards.components"
# Settings that a judge of a panel or of a component may override.
JUDGE_KEYS = (
    *(
        "model",
        "base_url",
        "temperature",
        "top_p",
        "max_reply_tokens",
        "request_field",
        "max_model_len",
        "images",
    ),
    *("api_key_env", "judge_id", "concurrency", "call_timeout"),
)


@dataclass(frozen=True, slots=True)
class Component:
    """One `[components.NAME]` table, or one `--component`.

    `kind` is one of `kind_names()`; a rubric set yields one component for each of its rubrics,
    under their names. `judge` overrides settings of the run for the judge that grades the
    component."""

    name: str
    kind: str
    options: Options = ()
    judge: JudgeValues = ()

    @property
    def is_judged(self) -> bool:
        """Whether a judge grades it, in separate calls."""
        return find_kind(self.kind).is_judged

    def option(self, name: str) -> str | None:
        """Return a text option; None if it is not given."""
        value = dict(self.options).get(name)
        return None if value is None else str(value)


class ComponentKind(Struct, frozen=True, kw_only=True):
    """A kind of component; subclasses in `genrm_cli.rewards.component` hold its computation.

    Attributes:
        options: keys of its table, each with the check of its value (see
            `genrm_cli.settings.checks`).
        required: options that must be given.
        short: option that `--component KIND:VALUE` sets.
        implied: option that the name of a table sets where the table lacks it.
        refuse: returns why options do not go together; None if they do.
        name_of: name of a component given as `--component KIND:VALUE`; None for the name of the
            kind.
        source: kind of data that its values depend on.
        from_verdicts: whether it has no values without pairwise verdicts.
        is_judged: whether a judge grades it, in separate calls.
        inputs: names of its input components.
        version: version of its computation, recorded with the results; None if there is none.
    """

    options: Mapping[str, Callable[[object, Part], Option]]
    required: tuple[str, ...] = ()
    short: str | None = None
    implied: Callable[[str], Mapping[str, Option]] = lambda _name: {}
    refuse: Callable[[Mapping[str, Option]], str | None] = lambda _options: None
    name_of: Callable[[str], str] | None = None
    source: Source = "functions"
    from_verdicts: bool = False
    is_judged: bool = False
    inputs: Callable[[Component], tuple[str, ...]] = lambda _component: ()
    version: Callable[[Component], str | int | None] = lambda _component: None


def refuse_reserved(name: str, kind: str, where: Part) -> None:
    """Refuse a component whose name is one of ours where components travel; `genrm` is the name of
    its kind, and of no other.
    """
    is_other = (name == GENRM) is not (kind == GENRM)
    if is_other or name in (DIVERSITY, *_TAKEN):
        taken = GENRM if is_other else name
        raise UsageError(where, f": the name {taken} is reserved; give the component another name.")


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, those of installed packages last."""
    return (*_built_in(), *extension_names(Seam.COMPONENTS))


@cache
def _built_in() -> tuple[str, ...]:
    spec = find_spec(_BUILT_IN)
    paths = [] if spec is None else spec.submodule_search_locations
    return tuple(sorted(module.name for module in pkgutil.iter_modules(paths)))


def find_kind(name: str) -> ComponentKind:
    """Return a kind of component by its name."""
    if name not in _built_in():
        return load_extension(Seam.COMPONENTS, name, ComponentKind)
    kind: ComponentKind = import_module(f"{_BUILT_IN}.{name}").KIND
    return kind


def last_part(value: str) -> str:
    """Return the last part of a dotted path or a function's location, as the name of a
    component.
    """
    return re.sub(r"[^a-z0-9_]+", "_", re.split(r"[.:]", value)[-1].lower()).strip("_")


def kind_of_name(name: str) -> str:
    """Return the kind of a component given by name alone: the kind of that name, or one that
    implies it.
    """
    if name in kind_names():
        return name
    return next(
        (kind for kind in extension_names(Seam.COMPONENTS) if find_kind(kind).implied(name)), name
    )


@dataclass(frozen=True, slots=True)
class Diversity:
    """The `[diversity]` table: near-duplicates share their reward.

    Attributes:
        threshold: ngram: minimum similarity of two responses in one cluster, 0 to 1.
        n: ngram: characters in an n-gram.
        fallback: llm: clusters to use if the judge gives none.
        components: the components to divide; empty for all with a weight in the total.
        json_schema: llm: whether to request JSON by `response_format`.
        judge: llm: settings of the judge that finds clusters, overriding those of the run.
    """

    method: Literal["ngram", "llm"] = "ngram"
    threshold: float = 0.5
    n: int = 3
    fallback: Literal["unique", "uniform"] = "unique"
    components: tuple[str, ...] = ()
    json_schema: bool = True
    judge: JudgeValues = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """The `[shaping]` table: coefficients of the length and style terms, on the scale of scores.

    Attributes:
        reasoning_bonus: bonus for the shortest reasoning among the top scores.
        answer_bonus: bonus for the shortest answer among the top scores.
        top_percentile: share of the group that counts as top scores, 0 to 1.
        group_reasoning_length_penalty_coeff: weight of short reasoning.
        group_answer_length_penalty_coeff: weight of a short answer.
        group_style_penalty_coeff: weight of sparse markup (headers, lists, bold, emoji).
    """

    reasoning_bonus: float = 0.0
    answer_bonus: float = 0.0
    top_percentile: float = 0.2
    group_reasoning_length_penalty_coeff: float = 0.0
    group_answer_length_penalty_coeff: float = 0.0
    group_style_penalty_coeff: float = 0.0


NO_SHAPING = Shaping()


@dataclass(frozen=True, slots=True)
class TotalTable:
    """The `[total]` table: how components become the reward.

    Attributes:
        gates: minimum value of a component, below which the reward is 0.
        optional: components that may be missing.
    """

    weights: tuple[tuple[str, float], ...]
    gates: tuple[tuple[str, float], ...] = ()
    optional: tuple[str, ...] = ()


def order_of(components: Sequence[Component]) -> list[Component]:
    """Sort components so that each follows its inputs."""
    by_name = {component.name: component for component in components}
    needed = {component.name: inputs_of(component) for component in components}
    order = TopologicalSorter(needed).static_order()
    return [by_name[name] for name in order if name in by_name]


def inputs_of(component: Component) -> tuple[str, ...]:
    """Return the names of the components that a component is computed from."""
    return find_kind(component.kind).inputs(component)


def needs_verdicts(components: Sequence[Component], total: TotalTable | None) -> bool:
    """Return whether the reward or a component is computed from pairwise verdicts."""
    if total is None or any(find_kind(component.kind).from_verdicts for component in components):
        return True
    weighed = {name for name, _ in (*total.weights, *total.gates)}
    return GENRM in weighed.union(*map(inputs_of, components))
