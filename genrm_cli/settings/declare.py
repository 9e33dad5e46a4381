"""Declaration of one setting: default, bounds and help, beside its field."""

import types
import typing
from collections.abc import Iterable
from dataclasses import Field, dataclass, field, replace
from typing import Any, Literal

Value = str | int | float | bool | tuple[str, ...] | None
Panel = Literal["Input", "Pairs", "Judge", "Limits", "Journal", "Rewards", "Output", "Storage"]

MAX_DURATION_S = 366 * 86_400.0  # longer durations overflow the clocks of some libraries
_DECLARED = "declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What is declared about a setting beside its name, type and default.

    Attributes:
        panel: section of the help; the subject's unless given.
        changes_rewards: whether the digest covers it.
        key: its name in files, flags and the environment, where it differs from the field's.
        negative: the flag that disables it, where it is not `--no-` and its name.
        is_duration: whether it accepts values such as 90s, 15m and 2h.
        is_size: whether it accepts values such as 64MB and 1GiB.
        is_common: whether `--help` shows it; `--help-all` shows every setting.
    """

    help: str
    panel: Panel | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    changes_rewards: bool = False
    key: str | None = None
    extra_flag: str | None = None
    negative: str | None = None
    is_duration: bool = False
    is_size: bool = False
    is_common: bool = False


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

    `type` is that of a single value, also where the setting takes several.
    """

    name: str
    subject: str
    type: type
    default: Value
    declared: Declaration

    @property
    def key(self) -> str:
        """Name in settings files; upper-cased after `GENRM_`, in the environment."""
        return self.declared.key or self.name

    @property
    def flag(self) -> str:
        """Long flag."""
        return "--" + self.key.replace("_", "-")

    @property
    def negative(self) -> str:
        """Flag that disables it."""
        return self.declared.negative or f"--no-{self.flag.removeprefix('--')}"

    @property
    def is_many(self) -> bool:
        """Whether it takes several texts."""
        return self.default == ()


def setting_of(field: "Field[Any]", subject: str, panel: Panel) -> Setting | None:
    """Return the setting that a field declares; None if the field has no flag."""
    declared: Declaration | None = field.metadata.get(_DECLARED)
    if declared is None:
        return None
    options = typing.get_args(field.type) or (field.type,)
    type_ = next(option for option in options if isinstance(option, type) and option is not types.NoneType)
    default: Any = field.default
    return Setting(field.name, subject, type_, default, replace(declared, panel=declared.panel or panel))
