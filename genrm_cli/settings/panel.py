"""The judges of a run, one or a panel of `[[judge]]` tables, and their API keys.

A key comes from a file or the environment; it is never a setting and never shown.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path

from genrm_cli.catalog import listed
from genrm_cli.errors import UsageError
from genrm_cli.settings.components import JUDGE_ALIASES, JUDGE_KEYS
from genrm_cli.settings.convert import convert_named
from genrm_cli.settings.declare import Value
from genrm_cli.settings.judge_settings import JudgeSettings, LimitSettings, PanelJudge
from genrm_cli.settings.table import Settings

OWN_KEYS = (*JUDGE_KEYS, "profile")
_KEYS = ("api_key_env", "api_key_file")
_ALIASES = {**JUDGE_ALIASES, "name": "judge_id"}
MAX_JUDGES = 16
API_KEY_VARIABLES = ("GENRM_API_KEY", "OPENAI_API_KEY")


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
    judge, panel = settings.judge, settings.panel
    if not panel.judges:
        return (_config(judge.judge_id or judge.judge or judge.model or "", 1.0, settings, judge, {}),)
    shared = replace(judge, judge=None, judge_id=None)
    configs = tuple(_panel_config(each, settings, shared) for each in panel.judges)
    _refuse_ambiguous(configs, panel.quorum)
    return configs


def _panel_config(judge: PanelJudge, settings: Settings, shared: JudgeSettings) -> JudgeConfig:
    own = dict(judge.values)
    return _config(str(own.get("judge_id") or own["model"]), judge.weight, settings, shared, own)


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
    """Refuse a setting that is given for the run and that a judge of the panel has of its own: one has no effect.

    Args:
        panel: the judges.
        sources: sources of the settings from flags and the environment, by name.

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
    """Drop the run's key where a judge names its own: a key file would override its variable."""
    return dict(values) if values.keys().isdisjoint(_KEYS) else dict.fromkeys(_KEYS) | dict(values)


def parse_panel(tables: object, where: str) -> tuple[PanelJudge, ...]:
    """Parse the `[[judge]]` tables of a settings file.

    Args:
        tables: the value in the file.
        where: the file and the key, for messages.

    Raises:
        UsageError: something is missing, unknown or out of bounds; names it.
    """
    if isinstance(tables, Mapping):
        raise UsageError(f"{where}: [judge] is a single table; write a panel as [[judge]], once for each judge.")
    if not isinstance(tables, list) or not 0 < len(tables) <= MAX_JUDGES:
        raise UsageError(f"{where}: expected 1 to {MAX_JUDGES} tables [[judge]].")
    return tuple(_parse_judge(table, f"{where} {number}") for number, table in enumerate(tables, 1))


def _parse_judge(table: object, where: str) -> PanelJudge:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: {table!r} is not a table.")
    values: dict[str, Value] = {}
    for key, raw in table.items():
        name = _ALIASES.get(key, key.replace("-", "_"))
        if name in values:
            raise UsageError(f"{where}: {key!r} is given twice, the second time by another name.")
        if name in OWN_KEYS:
            values[name] = convert_named(name, raw, f"{where}: {key}")
        elif name != "weight":
            known = listed(("weight", *_ALIASES, *OWN_KEYS))
            raise UsageError(f"{where}: unknown key {key!r}; a judge of a panel has {known}.")
    if "model" not in values:
        raise UsageError(f"{where}: model is missing: the judge's name on its server.")
    return PanelJudge(_weight(table.get("weight", 1.0), where), tuple(sorted(values.items())))


def _weight(raw: object, where: str) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 < raw < 1e9:
        raise UsageError(f"{where}: weight {raw!r} is not a number above 0.")
    return float(raw)


def find_api_key(judge: JudgeSettings, environ: Mapping[str, str], *, only_named: bool = False) -> str | None:
    """Find a judge's API key; None if it has none.

    Args:
        judge: settings of the judge.
        environ: the process environment.
        only_named: ignore the default variables; use only the file or variable that the settings name.

    Raises:
        UsageError: the named variable is not set, the file cannot be read, or the key cannot be sent.
    """
    if judge.api_key_file is not None:
        return _checked_key(_read_key_file(judge.api_key_file), f"the file {judge.api_key_file}")
    if judge.api_key_env is not None:
        return _checked_key(_named_key(judge.api_key_env, environ), judge.api_key_env)
    name = next((name for name in API_KEY_VARIABLES if environ.get(name, "").strip()), None)
    return None if name is None or only_named else _checked_key(environ[name], name)


def _named_key(name: str, environ: Mapping[str, str]) -> str:
    if key := environ.get(name, "").strip():
        return key
    # A name not in capitals may be the key itself, given by mistake: it must not be shown.
    shown = name if re.fullmatch(r"[A-Z0-9_]+", name) else "a variable"
    raise UsageError(
        f"--api-key-env names {shown}, which is not set. Give the variable's name, never the key; "
        "export the variable, or omit the option if the endpoint needs no key."
    )


def _read_key_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UsageError(f"--api-key-file {path}: cannot read the file: {reason}.") from error


def _checked_key(text: str, where: str) -> str:
    key = text.strip()
    if not key or not (key.isascii() and key.isprintable()):
        # The HTTP library would refuse it too, with the key in its message.
        raise UsageError(
            f"the key in {where} is empty or has characters that no key has (a line break, a quotation mark)."
        )
    return key
