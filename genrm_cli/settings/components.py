"""The parts of a reward: components, diversity and total, as settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from genrm_cli.settings.kinds import Value

Option = str | float | bool | tuple[str, ...]
Options = tuple[tuple[str, Option], ...]
JudgeValues = tuple[tuple[str, Value], ...]

TABLES = ("components", "diversity", "total")  # of a settings file
GENRM, DIVERSITY = "genrm", "diversity"
JUDGED_KINDS = frozenset({"rubric", "rubric_rank"})
# Settings that a judge of a panel or of a component may override.
JUDGE_KEYS = (
    *("model", "base_url", "temperature", "top_p", "max_reply_tokens", "api_key_env", "api_key_file"),
    *("ca_bundle", "judge_id", "concurrency", "call_timeout"),
)


@dataclass(frozen=True, slots=True)
class Component:
    """One `[components.NAME]` table, or one `--component`.

    `kind` is a name in `catalog.COMPONENT_KINDS`; a rubric set yields one component for each of its rubrics, under
    their names. `judge` overrides settings of the run for the judge that grades the component.
    """

    name: str
    kind: str
    options: Options = ()
    judge: JudgeValues = ()

    @property
    def is_judged(self) -> bool:
        """Whether a judge grades it, in separate calls."""
        return self.kind in JUDGED_KINDS

    def option(self, name: str) -> str | None:
        """Return a text option; None if it is not given."""
        value = dict(self.options).get(name)
        return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Diversity:
    """The `[diversity]` table: near-duplicates share their reward.

    Attributes:
        method: `ngram` or `llm`.
        threshold: ngram: minimum similarity of two responses in one cluster, 0 to 1.
        n: ngram: characters in an n-gram.
        fallback: llm: clusters to use if the judge gives none, `unique` or `uniform`.
        components: the components to divide; empty for all with a weight in the total.
        json_schema: llm: whether to request JSON by `response_format`.
        judge: llm: settings of the judge that finds clusters, overriding those of the run.
    """

    method: str = "ngram"
    threshold: float = 0.5
    n: int = 3
    fallback: str = "unique"
    components: tuple[str, ...] = ()
    json_schema: bool = True
    judge: JudgeValues = ()


@dataclass(frozen=True, slots=True)
class TotalTable:
    """The `[total]` table: how components become the reward.

    Attributes:
        gates: minimum value of a component, below which the reward is 0.
        optional: components that may be missing.
        clip: minimum and maximum reward; None leaves an end open.
        normalise: whether to divide the sum by the weights of the components that are present.
    """

    weights: tuple[tuple[str, float], ...]
    gates: tuple[tuple[str, float], ...] = ()
    optional: tuple[str, ...] = ()
    clip: tuple[float | None, float | None] | None = None
    normalise: bool = False


def order_of(components: Sequence[Component]) -> list[Component]:
    """Sort components so that each follows those that it is computed from."""
    by_name = {component.name: component for component in components}
    needed = {component.name: ranked(component) for component in components}
    order = TopologicalSorter(needed).static_order()
    return [by_name[name] for name in order if name in by_name]


def ranked(component: Component) -> tuple[str, ...]:
    """Return the name of the component that a rank is computed from; empty for other kinds."""
    return (component.option("of") or GENRM,) if component.kind == "rank" else ()


def needs_verdicts(components: Sequence[Component], total: TotalTable | None) -> bool:
    """Return whether the reward or a component is computed from pairwise verdicts."""
    if total is None or any(component.kind in ("genrm", "win_rate") for component in components):
        return True
    weighed = {name for name, _ in (*total.weights, *total.gates)}
    return GENRM in weighed.union(*map(ranked, components))
