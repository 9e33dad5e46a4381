"""The judges of a run: the one that the settings name, or a panel of `[[judge]]` tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

from genrm_cli.errors import UsageError
from genrm_cli.settings.declare import Value
from genrm_cli.settings.judge_settings import JudgeSettings, LimitSettings, PanelJudge
from genrm_cli.settings.table import Settings

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
        name: its name in outputs and the journal: its `judge_id`, else its model; unique in the run.
        weight: how much its verdicts count, relative to the others'.
        judge: the run's settings, with its own in their place.
        limits: likewise.
        default_score: the score of an unreadable reply under `compat`.
        is_elsewhere: whether it has an endpoint of its own, which gets no key that was not meant for it.
    """

    name: str
    weight: float
    judge: JudgeSettings
    limits: LimitSettings
    default_score: float
    is_elsewhere: bool = False


@lru_cache(maxsize=64)
def judges_of(settings: Settings) -> tuple[JudgeConfig, ...]:
    """Return the judges of a run, one or more, in the order of the settings file.

    Raises:
        UsageError: two judges of a panel have the same name, or the quorum exceeds their number.
    """
    judge = settings.judge
    if not settings.panel.judges:
        return (_config(judge.judge_id or judge.judge or judge.model or "", 1.0, settings, judge, {}),)
    configs = []
    for each in settings.panel.judges:
        own = dict(each.values)
        configs.append(
            _config(
                str(own.get("judge_id") or own["model"]),
                each.weight,
                settings,
                replace(judge, judge=None, judge_id=None),
                own,
            )
        )
    _refuse_ambiguous(configs, settings.panel.quorum)
    return tuple(configs)


def _refuse_ambiguous(configs: Sequence[JudgeConfig], quorum: int | None) -> None:
    names = [config.name for config in configs]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise UsageError(f"two [[judge]] tables are named {twice!r}; give each its own name, as in name = 'strict'.")
    if (quorum or 1) > len(names):
        raise UsageError(f"--quorum {quorum} is more than the {len(names)} judges of the panel.")


def _config(
    name: str, weight: float, settings: Settings, base: JudgeSettings, own: Mapping[str, object]
) -> JudgeConfig:
    """Return a judge that has the run's settings but for its own."""
    given = _with_own_key(own)
    limits = {key: value for key, value in given.items() if key in _LIMITS}
    judge = {key: value for key, value in given.items() if key not in _LIMITS}
    return JudgeConfig(
        name,
        weight,
        replace(base, **judge),  # type: ignore[arg-type]  # each was checked
        replace(settings.limits, **limits),  # type: ignore[arg-type]
        settings.rewards.default_score,
        "base_url" in own,
    )


_LIMITS = frozenset(field.name for field in fields(LimitSettings))


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
    """Return a judge for each judged component, then the one that finds clusters for `[diversity]`.

    Each is the run's judge, or the first of its panel, with the settings of its table in place of the run's. A grader
    with an endpoint of its own does not get the key of a judge of the panel.
    """
    base, diversity = judges_of(settings)[0], settings.rewards.diversity
    own = {component.name: component.judge for component in settings.rewards.components if component.is_judged}
    if diversity is not None and diversity.method == "llm":
        own["diversity"] = diversity.judge
    return tuple(_grader(name, settings, base, dict(values)) for name, values in own.items())


def _grader(name: str, settings: Settings, base: JudgeConfig, own: Mapping[str, object]) -> JudgeConfig:
    judge, run = base.judge, settings.judge
    if "base_url" in own:
        judge = replace(judge, api_key_env=run.api_key_env, api_key_file=run.api_key_file, ca_bundle=run.ca_bundle)
    if not own.keys().isdisjoint(("base_url", "model")):
        judge = replace(judge, judge=None, judge_id=None)
    limited = replace(settings, limits=base.limits)
    return _config(f"component {name}", 1.0, limited, judge, own)


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
