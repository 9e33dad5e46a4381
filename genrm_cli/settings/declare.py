"""Declaration of one setting: default, bounds and help, beside its field."""

import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, field, replace
from typing import Any, Literal

from genrm_cli.extensions import Seam

Value = str | int | float | bool | tuple[str, ...] | None
Panel = Literal["Input", "Pairs", "Judge", "Limits", "Journal", "Rewards", "Output", "Storage", "Tracking", "Server"]

MAX_DURATION_S = 366 * 86_400.0  # longer durations overflow the clocks of some libraries
ENVIRONMENT_PREFIX = "GENRM_"
_DECLARED = "declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The declaration of a setting beyond its name, type and default.

    Attributes:
        panel: section of the help; by default that of the subject.
        changes_rewards: whether the digest covers it.
        seam: entry points by which installed packages register more choices.
        key: its name in files, flags and the environment, if it differs from the name of the field.
        help: one or more sentences; `$name` names another setting.
        negative: name of the switch that disables it, if not `no-` and its name.
        negative_help: help of that flag, for a setting that is on by default.
        is_duration: whether it accepts values such as 90s, 15m and 2h.
        is_size: whether it accepts values such as 64MB and 1GiB.
        is_common: whether `--help` shows it; `--help-all` shows every setting.
        needs_trust: whether it names a path, a host or a key, runs code or overwrites, so that an untrusted settings
            file in the working folder may not set it; a function decides by the value. By default, text without
            choices and booleans need trust; numbers, durations and choices do not.
    """

    help: str
    panel: Panel | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    seam: Seam | None = None
    changes_rewards: bool = False
    key: str | None = None
    extra_flag: str | None = None
    negative: str | None = None
    negative_help: str | None = None
    is_duration: bool = False
    is_size: bool = False
    is_common: bool = False
    needs_trust: bool | Callable[[object], bool] | None = None


def names_file(value: object) -> bool:
    """Return whether a value, which is a name or a TOML file, is a file."""
    return ".toml" in str(value)


def setting(default: Value, help_text: str, *, choices: Iterable[str] = (), **more: Any) -> Any:
    """Declare a setting; a default of () makes its flag repeatable."""
    declaration = Declaration(help=help_text, choices=tuple(choices), **more)
    return field(default=default, metadata={_DECLARED: declaration})


def reward_setting(default: Value, help_text: str, **more: Any) -> Any:
    """Declare a setting that can change a reward."""
    return setting(default, help_text, changes_rewards=True, **more)


def duration(default: float | None, help_text: str, *, low: float = 0.001, is_common: bool = False) -> Any:
    """Declare a setting in seconds."""
    return setting(default, help_text, low=low, high=MAX_DURATION_S, is_duration=True, is_common=is_common)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its flat name, unique among all, and the attribute of `Settings` that holds it.

    `type` is the type of a single value, even if the setting takes several.
    """

    name: str
    subject: str
    type: type
    default: Value
    declared: Declaration

    @property
    def key(self) -> str:
        """Name in settings files."""
        return self.declared.key or self.name

    @property
    def variable(self) -> str:
        """Name in the environment."""
        return ENVIRONMENT_PREFIX + self.key.upper()

    @property
    def flag(self) -> str:
        """Long flag."""
        return f"--{self.key.replace('_', '-')}"

    @property
    def negative(self) -> str:
        """Flag that disables it."""
        return f"--{self.declared.negative or 'no-' + self.key.replace('_', '-')}"

    @property
    def is_many(self) -> bool:
        """Whether it takes several texts."""
        return self.default == ()

    def needs_trust(self, value: object) -> bool:
        """Return whether a settings file must be named or trusted to set this value."""
        declared = self.declared.needs_trust
        if callable(declared):
            return declared(value)
        if declared is None:
            declared = self.type is bool or (self.type is str and not self.declared.choices)
        return declared and value != self.default


def setting_of(field: "Field[Any]", subject: str, panel: Panel) -> Setting | None:
    """Return the setting that a field declares; None if the field has no flag."""
    declared: Declaration | None = field.metadata.get(_DECLARED)
    if declared is None:
        return None
    options = typing.get_args(field.type) or (field.type,)
    type_ = next(option for option in options if isinstance(option, type) and option is not types.NoneType)
    default: Any = field.default
    return Setting(field.name, subject, type_, default, replace(declared, panel=declared.panel or panel))
