"""The judges of a run, one or a panel of `[[judge]]` tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from msgspec import Struct

from genrm_cli.errors import UsageError, naming
from genrm_cli.settings.checks import (
    first_repeated,
    judge_settings,
    refuse_unknown,
    table,
)
from genrm_cli.settings.components import JUDGE_KEYS
from genrm_cli.settings.judge_settings import (
    JudgeSettings,
    LimitSettings,
    PanelJudge,
)
from genrm_cli.settings.kinds import Value
from genrm_cli.settings.reward_settings import REFERENCE_SCORE
from genrm_cli.settings.table import Settings

OWN_KEYS = (*JUDGE_KEYS, "profile")
# Every judge answers every comparison; a mistyped table of hundreds would cost as many times.
MAX_JUDGES = 16
# A table may set fields of two dataclasses: the judge and its limits.
_LIMITS = frozenset(field.name for field in fields(LimitSettings))


class JudgeConfig(Struct, frozen=True):
    """One judge of a run.

    Attributes:
        name: its name in outputs and the journal: `judge_id`, or else its model; unique in the run.
        judge: settings of the run, overridden by its own.
        limits: limits of the run, overridden by its own.
        default_score: score of an unparsable reply under `compat`.
        is_elsewhere: whether it has its own endpoint, which must not receive the key of another
            judge.
    """

    name: str
    judge: JudgeSettings
    limits: LimitSettings
    default_score: float
    is_elsewhere: bool = False


@lru_cache(maxsize=64)
def judges_of(settings: Settings) -> tuple[JudgeConfig, ...]:
    """Return the judges of a run, one or more, in the order of the settings file."""
    judge = settings.judge
    panel = settings.panel
    if not panel.judges:
        name = judge.judge_id or judge.judge or judge.model or ""
        return (_config(name, settings, judge, {}),)
    shared = replace(judge, judge=None, judge_id=None)
    configs = []
    for each in panel.judges:
        own = dict(each.values)
        name = str(own.get("judge_id") or own["model"])
        configs.append(_config(name, settings, shared, own))
    names = [config.name for config in configs]
    if (twice := first_repeated(names)) is not None:
        raise UsageError(
            f"two [[judge]] tables are named {twice!r}; give each its own name, as in judge_id = "
            "'strict'."
        )
    return tuple(configs)


def _config(
    name: str, settings: Settings, base: JudgeSettings, own: Mapping[str, Any]
) -> JudgeConfig:
    """Return a judge with the settings of the run, overridden by its own."""
    rewards = settings.rewards
    default_score = rewards.default_score
    return JudgeConfig(
        name,
        replace(base, **{key: own[key] for key in own if key not in _LIMITS}),
        replace(settings.limits, **{key: own[key] for key in own if key in _LIMITS}),
        REFERENCE_SCORE if default_score is None else default_score,
        "base_url" in own,
    )


def refuse_overridden(panel: Sequence[PanelJudge], sources: Mapping[str, str]) -> None:
    """Refuse a setting given by a flag or variable that a judge of the panel overrides: it would
    have no effect.

    `sources` describes where the settings from flags and the environment came from, by name.
    """
    for number, judge in enumerate(panel, 1):
        for name in ("judge_id", *dict(judge.values)):
            if name in sources:
                raise UsageError(
                    f"{name} is set by {sources[name]}, but [[judge]] {number} of the settings "
                    "file has its own; ",
                    naming("change it there, or name one judge with $model."),
                )


def graders_of(settings: Settings) -> tuple[JudgeConfig, ...]:
    """Return a judge for each judged component, then the judge that finds clusters for
    `[diversity]`.

    Each is the judge of the run, or the first of its panel, overridden by its own table. A grader
    with its own endpoint does not receive the key of another judge."""
    diversity = settings.rewards.diversity
    tables = {
        component.name: component.judge
        for component in settings.rewards.components
        if component.is_judged
    }
    if diversity is not None and diversity.method == "llm":
        tables["diversity"] = diversity.judge
    return tuple(
        _further_judge(f"component {name}", values, settings) for name, values in tables.items()
    )


def _further_judge(
    name: str, values: Iterable[tuple[str, Value | None]], settings: Settings
) -> JudgeConfig:
    """Return the judge of the run, or the first of its panel, overridden by a table."""
    base = judges_of(settings)[0]
    run = settings.judge
    own = dict(values)
    judge = base.judge
    if "base_url" in own:
        judge = replace(judge, api_key_env=run.api_key_env)
    if not own.keys().isdisjoint(("base_url", "model")):
        judge = replace(judge, judge=None, judge_id=None)
    return _config(name, replace(settings, limits=base.limits), judge, own)


def parse_panel(tables: object, where: str) -> tuple[PanelJudge, ...]:
    """Parse the `[[judge]]` tables of a settings file."""
    if isinstance(tables, Mapping):
        raise UsageError(
            f"{where}: [judge] is a single table; write a panel as [[judge]], once for each judge."
        )
    if not isinstance(tables, list) or not 0 < len(tables) <= MAX_JUDGES:
        raise UsageError(f"{where}: expected 1 to {MAX_JUDGES} tables [[judge]].")
    return tuple(_parse_judge(each, f"{where} {number}") for number, each in enumerate(tables, 1))


def _parse_judge(given: object, where: str) -> PanelJudge:
    own = table(given, where)
    refuse_unknown(own, OWN_KEYS, where, "a judge of a panel has")
    values = judge_settings(own, f"{where}: ", OWN_KEYS)
    if "model" not in dict(values):
        raise UsageError(f"{where}: model is missing: add the judge's name on its server.")
    return PanelJudge(values)
