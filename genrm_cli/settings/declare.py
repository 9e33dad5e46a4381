"""Declaration of one setting: default, bounds and help, beside its field."""

import types
import typing
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field
from typing import Any, Literal

Value = str | int | float | bool | tuple[str, ...] | None
Panel = Literal["Input", "Pairs", "Judge", "Limits", "Journal", "Rewards", "Output", "Storage"]

MAX_DURATION_S = 366 * 86_400.0  # longer durations overflow the clocks of some libraries


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All that is declared about one setting beside its name, type and default.

    Attributes:
        panel: section of the help.
        help: one or two sentences.
        low: smallest allowed value.
        high: largest allowed value.
        choices: allowed texts.
        changes_rewards: whether the digest covers it.
        key: its name in files, flags and the environment, where it differs from the field's.
        extra_flag: another flag for it, such as -q.
        negative: the flag that switches it off, where it is not `--no-` and its name.
        is_duration: whether it accepts values such as 90s, 15m and 2h.
    """

    panel: Panel
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    changes_rewards: bool = False
    key: str | None = None
    extra_flag: str | None = None
    negative: str | None = None
    is_duration: bool = False


def declare(default: Value, panel: Panel, text: str, *, choices: Iterable[str] = (), **more: Any) -> Any:
    """Declare a setting; a default of () means that its flag may be repeated."""
    if more.get("is_duration"):
        more["high"] = MAX_DURATION_S
    declaration = Declaration(panel=panel, help=text, choices=tuple(choices), **more)
    return field(default=default, metadata={_DECLARED: declaration})


_DECLARED = "declared"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: its flat name, unique among all settings.
        subject: the attribute of `Settings` that holds it.
        type: of a value, or of each of several: `str`, `int`, `float` or `bool`.
        default: the value when nothing is given.
        declared: the rest.
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
        """Flag that switches it off."""
        return self.declared.negative or f"--no-{self.flag.removeprefix('--')}"

    @property
    def is_many(self) -> bool:
        """Whether it takes several texts."""
        return self.default == ()


def is_declared(field: "Field[Any]") -> bool:
    """Return whether a field is a setting with a flag."""
    return _DECLARED in field.metadata


def setting_of(field: "Field[Any]", subject: str) -> Setting:
    """Return the setting that a field of a subject declares."""
    if field.default is MISSING:
        raise TypeError(f"setting {field.name} has no default")
    return Setting(field.name, subject, _type_of(field), field.default, field.metadata[_DECLARED])


def _type_of(field: "Field[Any]") -> type:
    for option in typing.get_args(field.type) or (field.type,):
        if isinstance(option, type) and option is not types.NoneType:
            return option
    raise TypeError(f"setting {field.name}: {field.type!r} is not a type")
