"""All settings of a run, composed of one dataclass per subject."""

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, partial
from typing import Any

from msgspec import structs

from genrm_cli.commands import CommandEntry
from genrm_cli.errors import SettingRef
from genrm_cli.settings.conditions import unmet
from genrm_cli.settings.declare import Setting, settings_of
from genrm_cli.settings.file_settings import (
    InputSettings,
    JournalSettings,
    OfflineSettings,
    OutputSettings,
    ServeSettings,
    StorageSettings,
    TrackingSettings,
)
from genrm_cli.settings.judge_settings import JudgeSettings, LimitSettings, PanelSettings
from genrm_cli.settings.reward_settings import PairingSettings, RewardSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The effective settings of one run. Times are in seconds, sizes in bytes."""

    input: InputSettings = field(default_factory=InputSettings)
    pairing: PairingSettings = field(default_factory=PairingSettings)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    panel: PanelSettings = field(default_factory=PanelSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    offline: OfflineSettings = field(default_factory=OfflineSettings)
    rewards: RewardSettings = field(default_factory=RewardSettings)
    output: OutputSettings = field(default_factory=OutputSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)


# The section of the help in which a subject's settings appear, if it is not named after it.
_PANELS = {
    "pairing": "Pairs",
    "panel": "Judge",
    "offline": "Request files",
    "serve": "Server",
}
# Flat names of the tables of settings files, with their subject and field.
_TABLES = {
    "criteria": ("judge", "criteria"),
    "panel": ("panel", "judges"),
    "components": ("rewards", "components"),
    "shaping": ("rewards", "shaping"),
    "diversity": ("rewards", "diversity"),
    "total": ("rewards", "total"),
}
# A table that changes no reward.
_PLAIN_TABLES = {"s3": ("storage", "s3")}


@cache
def all_settings() -> tuple[Setting, ...]:
    """Return every setting that has a flag, in the order of the help."""
    return tuple(
        structs.replace(
            each,
            subject=subject.name,
            panel=each.panel or _PANELS.get(subject.name, subject.name.title()),
        )
        for subject in fields(Settings)
        for each in settings_of(subject.type)
    )


def settings_of_entry(entry: CommandEntry) -> list[Setting]:
    """Return the settings that a command uses; others have no effect on it."""
    every = all_settings()
    return [each for each in every if each.panel in entry.panels or each.name in entry.names]


def setting_named(name: str) -> Setting:
    """Return the setting of this flat name."""
    return next(setting for setting in all_settings() if setting.name == name)


@cache
def _locations() -> dict[str, tuple[str, str]]:
    return {setting.name: (setting.subject, setting.name) for setting in all_settings()} | (
        _TABLES | _PLAIN_TABLES
    )


def settings_from(**flat: Any) -> Settings:
    """Build settings from flat keywords, without checking files or the environment.

    Takes `panel` for the judges of a panel.
    """
    return changed(Settings(), **flat)


def changed(settings: Settings, **flat: Any) -> Settings:
    """Return a copy of the settings with other values, given by flat name."""
    given: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in flat.items():
        if name not in _locations():
            raise TypeError(f"{name!r} is not a setting")
        subject, own_name = _locations()[name]
        given[subject][own_name] = value
    subjects = {name: replace(getattr(settings, name), **new) for name, new in given.items()}
    return replace(settings, **subjects)


def render_flag(ref: SettingRef) -> str:
    """Return a setting as the command line takes it: `--min-age 0`, `--no-journal`, `--offline`."""
    setting = next((setting for setting in all_settings() if setting.name == ref.name), None)
    dashed = ref.name.replace("_", "-")
    if ref.value is False:
        return setting.negative if setting else f"--no-{dashed}"
    flag = setting.flag if setting else f"--{dashed}"
    return flag if ref.value is None or ref.value is True else f"{flag} {ref.value}"


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its flat name."""
    subject, own_name = _locations()[name]
    return getattr(getattr(settings, subject), own_name)


def has_effect(setting: Setting, settings: Settings) -> bool:
    """Whether a setting has an effect beside the others."""
    return unmet(setting.only_with, partial(value_of, settings)) is None


def digest_of(settings: Settings) -> str:
    """Return the sha256 (hex) over every setting that can change a reward beside the others, and no
    other.
    """
    import hashlib  # with OpenSSL: 4 MB, which no help needs

    deciding_settings = [setting for setting in all_settings() if setting.changes_rewards]
    names = {setting.name for setting in deciding_settings if has_effect(setting, settings)}

    def as_values(table: Any) -> dict[str, Any]:
        values = asdict(table)
        # A judge of a table has settings by flat name; some of them only say where it runs.
        for key in ("judge", "values"):
            if key in values:
                values[key] = [each for each in values[key] if each[0] in names]
        return values

    deciding = {name: value_of(settings, name) for name in names | _TABLES.keys()}
    text = json.dumps(deciding, sort_keys=True, default=as_values)
    return hashlib.sha256(text.encode()).hexdigest()
