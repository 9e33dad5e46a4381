"""The judges of a run: the one that the settings name, or a panel of `[[judge]]` tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from genrm_cli.errors import UsageError
from genrm_cli.settings.table import PanelJudge, Settings, Value

# What a judge may have for its own; everything else is the run's. `endpoint` is the field's word for a base URL.
OWN_KEYS = (
    *("model", "base_url", "profile", "temperature", "top_p", "max_reply_tokens", "api_key_env", "api_key_file"),
    *("ca_bundle", "judge_id", "concurrency", "call_timeout"),
)
_KEYS = ("api_key_env", "api_key_file")
_ALIASES = {"endpoint": "base_url", "name": "judge_id"}
MAX_JUDGES = 16

Convert = Callable[[str, object, str], Value]
"""Setting's name, raw value and place to the checked value; raises UsageError."""


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """One judge of a run.

    Attributes:
        name: what outputs and the journal call it: its `judge_id`, else its model; no two are the same.
        weight: how much its verdicts count, relative to the others'.
        settings: the run's, with what is this judge's own in its place.
        is_elsewhere: whether it has an endpoint of its own, so that no key goes there that was not meant for it.
    """

    name: str
    weight: float
    settings: Settings
    is_elsewhere: bool = False


@lru_cache(maxsize=64)
def judges_of(settings: Settings) -> tuple[JudgeConfig, ...]:
    """Return the judges of a run, one or more, in the order of the settings file.

    Raises:
        UsageError: two of a panel have the same name, or the quorum is more than there are.
    """
    if not settings.panel:
        return (JudgeConfig(settings.judge_id or settings.judge or settings.model or "", 1.0, settings),)
    seats = []
    for judge in settings.panel:
        values = {"panel": (), "judge": None, "judge_id": None} | _with_own_key(dict(judge.values))
        own = replace(settings, **values)  # type: ignore[arg-type]  # each was checked
        seats.append(JudgeConfig(own.judge_id or own.model or "", judge.weight, own, "base_url" in dict(judge.values)))
    names = [seat.name for seat in seats]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise UsageError(
            f"two [[judge]] tables are called {twice!r}; give each a name of its own, as in name = 'strict'."
        )
    if (settings.quorum or 1) > len(seats):
        raise UsageError(f"--quorum {settings.quorum} is more than the {len(seats)} judges of the panel.")
    return tuple(seats)


def refuse_overridden(panel: Sequence[PanelJudge], sources: Mapping[str, str]) -> None:
    """Refuse what a judge of a panel has for its own and is given for all: one of the two would count for nothing.

    Args:
        panel: the judges.
        sources: names of settings that were given in a place that goes before the file, and that place.

    Raises:
        UsageError: names the setting.
    """
    for number, judge in enumerate(panel, 1):
        for name in ("judge_id", *dict(judge.values)):
            if name in sources:
                raise UsageError(
                    f"{name} is given by {sources[name]}, but [[judge]] {number} of the settings file has its own; "
                    "change it there, or name one judge with --model."
                )


def graders_of(settings: Settings) -> tuple[JudgeConfig, ...]:
    """Return who grades the components that are graded, one for each, and who finds clusters for `[diversity]`.

    They are the run's judge, or the first of its panel, with what their tables say in its place. One with an endpoint
    of its own gets no key that a judge of a panel has for itself.
    """
    base = judges_of(settings)[0].settings
    own = {component.name: component.judge for component in settings.components if component.is_judged}
    if settings.diversity is not None and settings.diversity.method == "llm":
        own["diversity"] = settings.diversity.judge
    return tuple(
        JudgeConfig(f"component {name}", 1.0, _grader(base, settings, dict(values)), "base_url" in dict(values))
        for name, values in own.items()
    )


def _grader(base: Settings, run: Settings, values: Mapping[str, object]) -> Settings:
    if "base_url" in values:
        base = replace(base, api_key_env=run.api_key_env, api_key_file=run.api_key_file, ca_bundle=run.ca_bundle)
    own_judge = {"judge": None, "judge_id": None} if {"base_url", "model"} & set(values) else {}
    given = {"panel": (), **own_judge, **_with_own_key(values)}
    return replace(base, **given)  # type: ignore[arg-type]  # each was checked


def _with_own_key(values: Mapping[str, object]) -> dict[str, object]:
    """Leave the run's key out where a judge names one of its own: a key file would go before its variable."""
    return dict(values) if values.keys().isdisjoint(_KEYS) else dict.fromkeys(_KEYS) | dict(values)


def parse_panel(tables: object, where: str, convert: Convert) -> tuple[PanelJudge, ...]:
    """Read the `[[judge]]` tables of a settings file.

    Args:
        tables: what the file holds.
        where: the file and the key, for messages.
        convert: checks the value of a setting.

    Raises:
        UsageError: something is missing, unknown or out of bounds; names it.
    """
    if isinstance(tables, Mapping):
        raise UsageError(f"{where}: [judge] is one table; a panel is written as [[judge]], once for each judge.")
    if not isinstance(tables, list) or not 0 < len(tables) <= MAX_JUDGES:
        raise UsageError(f"{where}: expected 1 to {MAX_JUDGES} tables [[judge]].")
    return tuple(_parse_judge(table, f"{where} {number}", convert) for number, table in enumerate(tables, 1))


def _parse_judge(table: object, where: str, convert: Convert) -> PanelJudge:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: {table!r} is no table.")
    weight = 1.0
    values: list[tuple[str, Value]] = []
    for key, raw in table.items():
        name = _ALIASES.get(key, key.replace("-", "_"))
        if name in dict(values):
            raise UsageError(f"{where}: {key!r} is given twice, the second time by another name.")
        if name == "weight":
            weight = float(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else 0.0
            if not 0 < weight < 1e9:
                raise UsageError(f"{where}: weight {raw!r} is not a number above 0.")
        elif name in OWN_KEYS:
            values.append((name, convert(name, raw, f"{where}: {key}")))
        else:
            known = ", ".join(("weight", *_ALIASES, *OWN_KEYS))
            raise UsageError(f"{where}: a judge of a panel has no {key!r}; it has {known}.")
    if "model" not in dict(values):
        raise UsageError(f"{where}: it has no model; name it as its server does.")
    return PanelJudge(weight, tuple(sorted(values)))
