"""Declaration of settings, each next to its field: default, kind of value, bounds and help."""

import typing
from collections.abc import Iterable
from dataclasses import Field, field, fields
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.catalog import listed
from genrm_cli.errors import Part, UsageError
from genrm_cli.extensions import Seam, extension_names
from genrm_cli.settings.conditions import describe
from genrm_cli.settings.kinds import (
    DURATION,
    GUARDS,
    KIND_OF_TYPE,
    TEXT,
    Kind,
    Value,
    did_you_mean,
    parse_texts,
)

MAX_DURATION_S = 366 * 86_400.0  # longer durations overflow the clocks of some libraries
# Short, and taken by no other program that runs beside a trainer.
ENVIRONMENT_PREFIX = "GENRM_"
# The key under which a dataclass field keeps its declaration.
_METADATA = "setting"


class Setting(Struct, frozen=True, kw_only=True):
    """One setting.

    Attributes:
        type: type of a single value, even if the setting takes several.
        kind: how values are written; by default that of the type.
        help: one or more sentences; `$name` names another setting.
        choices: the values to choose from; by default those of the field's `Literal`.
        seam: entry points by which installed packages register more choices.
        changes_rewards: whether the digest covers it.
        key: its name in files, flags and the environment.
        switch_off: the switch that disables it, if not `no-` and its name.
        metavar: what stands for its value in the help; by default that of the kind.
        is_required: whether the command cannot do without it.
        only_with: the conditions under which it has an effect (see `conditions`).
    """

    help: str = ""
    default: Value = None
    name: str = ""
    subject: str = ""
    type: type = str
    kind: Kind | None = None
    panel: str | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    seam: Seam | None = None
    changes_rewards: bool = False
    key: str = ""
    short_flag: str | None = None
    switch_off: str | None = None
    negative_help: str | None = None
    is_common: bool = False
    metavar: str | None = None
    is_required: bool = False
    only_with: str = ""

    @property
    def described(self) -> str:
        """Its help, with the conditions under which it has an effect."""
        return f"{self.help} {describe(self.only_with)}".strip()

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
        return f"--{self.switch_off or 'no-' + self.key.replace('_', '-')}"

    @property
    def is_many(self) -> bool:
        """Whether it takes several texts."""
        return self.default == ()

    @property
    def is_guard(self) -> bool:
        """Whether it guards data, so that an empty value is an error instead of no value."""
        return self.kind in GUARDS

    def convert(self, raw: object, where: Part) -> Value:
        """Convert text, or a value from a TOML file, to the setting's type."""
        if not self.is_many:
            return self._convert_one(raw, where)
        if self.is_guard and raw in ("", [""], ("",)):
            raise UsageError(
                where, " must not be empty: it would guard nothing. Set a value or omit it."
            )
        if (texts := parse_texts(raw)) is None:
            raise UsageError(where, f": {raw!r} is neither text nor a list of texts; quote it.")
        return tuple(str(self._convert_one(text, where)) for text in texts)

    def _convert_one(self, raw: object, where: Part) -> str | int | float | bool:
        kind = self.kind or TEXT
        if isinstance(raw, (dict, list)):
            raise UsageError(
                where,
                f": expected {kind.expected}, got {'a table' if isinstance(raw, dict) else raw!r}.",
            )
        try:
            value = kind.parse(raw)
        except ValueError as error:
            raise UsageError(where, f": {error}") from error
        if value is None:
            raise UsageError(where, f": {raw!r} is not {kind.expected}.")
        if self.choices and value not in self.choices:
            choices = self.choices + (extension_names(self.seam) if self.seam else ())
            if value not in choices:
                raise UsageError(
                    where,
                    f": {value!r} is not one of "
                    f"{listed(choices)}.{did_you_mean(str(value), choices)}",
                )
        low = self.low
        high = self.high
        if not isinstance(value, str) and not (
            (low is None or value >= low) and (high is None or value <= high)
        ):
            bounds = f"at least {low:.9g}" if high is None else f"between {low:.9g} and {high:.9g}"
            raise UsageError(where, f": {value} is out of bounds; it must be {bounds}.")
        return value


def setting(
    help_text: str, default: Value = None, *, choices: Iterable[str] = (), **more: Any
) -> Any:
    """Declare a setting; a default of () makes its flag repeatable."""
    declared = Setting(default=default, help=help_text, choices=tuple(choices), **more)
    return field(default=default, metadata={_METADATA: declared})


def reward_setting(help_text: str, default: Value = None, **more: Any) -> Any:
    """Declare a setting that can change a reward."""
    return setting(help_text, default, changes_rewards=True, **more)


def duration(
    help_text: str, default: float | None = None, *, low: float = 0.001, **more: Any
) -> Any:
    """Declare a setting in seconds."""
    return setting(help_text, default, low=low, high=MAX_DURATION_S, kind=DURATION, **more)


def setting_of(name: str, type_: Any, declaration: "Field[Any]") -> Setting:
    """Return the setting that a field of a dataclass or a parameter declares."""
    declared: Setting = declaration.metadata[_METADATA]
    options = (type_, *typing.get_args(type_))
    literal = next((option for option in options if typing.get_origin(option) is Literal), None)
    value_type = next((option for option in options if option in KIND_OF_TYPE), str)
    return replace(
        declared,
        name=name,
        type=value_type,
        kind=declared.kind or KIND_OF_TYPE[value_type],
        choices=declared.choices or typing.get_args(literal),
        key=declared.key or name,
    )


def settings_of(type_: Any) -> list[Setting]:
    """Return the settings that the fields of a dataclass declare."""
    return [
        setting_of(each.name, each.type, each)
        for each in fields(type_)
        if _METADATA in each.metadata
    ]
