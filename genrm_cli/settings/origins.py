"""Origins of settings, as `genrm config` shows them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from genrm_cli.settings.components import TABLES
from genrm_cli.settings.declare import Value
from genrm_cli.settings.panel import judges_of
from genrm_cli.settings.table import Settings, all_settings, value_of


@dataclass(frozen=True, slots=True)
class Origin:
    """A setting, its value, and its source in words: `flag`, `environment GENRM_X`, `default`, ..."""

    key: str
    value: Value
    source: str


def origins_of(settings: Settings, sources: Mapping[str, str], tables: Iterable[str], path: str) -> list[Origin]:
    """Return the origin of every setting; one without an entry in `sources` has its default.

    `tables` are the names of the tables in the settings file at `path`.
    """
    origins = [Origin(s.key, value_of(settings, s.name), sources.get(s.name, "default")) for s in all_settings()]
    return [*_with_panel(origins, settings, f"file {path}"), *_origins_of_tables(settings, tables, f"file {path}")]


def _with_panel(origins: list[Origin], settings: Settings, source: str) -> Iterator[Origin]:
    panel = settings.panel.judges
    names = tuple(judge.name for judge in judges_of(settings)) if panel else ()
    for origin in origins:
        yield Origin("judge", names, source) if panel and origin.key == "judge" else origin
    for name, judge in zip(names, panel, strict=True):
        yield Origin(f"judge {name}", (f"weight {judge.weight:g}", *_in_words(judge.values)), source)


def _origins_of_tables(settings: Settings, tables: Iterable[str], source: str) -> list[Origin]:
    rewards = settings.rewards
    shown: dict[str, Value] = {"components": tuple(component.name for component in rewards.components)}
    for name, table in (("diversity", rewards.diversity), ("total", rewards.total)):
        if table is not None:
            shown[name] = tuple(_in_words((each.name, getattr(table, each.name)) for each in fields(table)))
    return [Origin(name, shown[name], source) for name in TABLES if name in tables]


def _in_words(values: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Yield the values of a table in words, without empty ones."""
    for name, value in values:
        if isinstance(value, tuple):
            value = " ".join(" ".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value)
        if value not in (None, "", False):
            yield f"{name} {value}"
