"""All errors that users see, each with its exit code.

    GenrmError                   1  (a bug, if nothing more precise is raised)
    ├── FigureError              1  the run is done, but figures could not be computed
    ├── UsageError               2  a setting, or a combination of settings
    │   └── MissingModelError    2  an endpoint without the name of a model
    ├── InputError               3  rollouts that cannot be read
    │   └── ChangedInputError    3  rollouts that changed while they were read
    ├── JudgeError               4  a judge that cannot be reached or refuses
    ├── StorageError             5  data that cannot be listed, read or written
    ├── PendingError             6  batches are still in progress
    ├── TooManyUnscoredError     6  the run is done, but too many rollouts stayed unscored
    └── ChangedJudgeError        7  `eval --since` is done, and the judge has changed

A message is one paragraph: the location, what was found, what was expected, and what to do next. It
names settings, never flags: the command line renders them as flags, the Python API as keywords, the
server as fields."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import LiteralString

from msgspec import Struct
from msgspec.structs import replace

INTERRUPTED = 130
"""Exit code of a run that Ctrl-C or SIGTERM ended."""


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra. genrm is on no package index."""
    return f"pip install '.[{extra}]' in the clone"


class SettingRef(Struct, frozen=True):
    """A setting that a message names, optionally with a value: `SettingRef("min_age", 0)`.

    As plain text it reads like a keyword of the Python API, `min_age=0`; the command line shows
    `--min-age 0`.

    Attributes:
        name: flat name of the setting, as in a settings file, or name of an option of one command.
        value: value to show with it; None for the name alone.
    """

    name: str
    value: str | int | float | bool | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class Message(Struct, frozen=True):
    """A text that may name settings. What a server or a user wrote is plain text in it, and never
    rewritten.
    """

    parts: tuple[str | SettingRef, ...]

    @classmethod
    def of(cls, *parts: "Part") -> "Message":
        """Return a message of these parts; the parts of another message are included."""
        return cls(
            tuple(
                each
                for part in parts
                for each in (part.parts if isinstance(part, Message) else (part,))
            )
        )

    def render(self, name_of: Callable[[SettingRef], str] = str) -> str:
        """Return the text, with each setting formatted by `name_of`."""
        return "".join(part if isinstance(part, str) else name_of(part) for part in self.parts)

    def with_names(self, names: Mapping[str, str]) -> "Message":
        """Return the message with some settings renamed: the `base_url` of a policy is
        `policy_base_url`.
        """
        renamed = (
            each if isinstance(each, str) else replace(each, name=names.get(each.name, each.name))
            for each in self.parts
        )
        return Message(tuple(renamed))

    def __str__(self) -> str:
        return self.render()


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun, as in `1 group` and `2 groups`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


Part = str | SettingRef | Message
_SETTING = re.compile(r"\$([a-z][a-z0-9_]*)")


def naming(text: LiteralString, **values: str | int | float | bool | None) -> Message:
    """Return a message in whose text `$name` names a setting.

        naming("$shard requires a journal; remove $use_journal.", use_journal=False)

    Args:
        text: written by us. Text from a user or a server is a separate part: `UsageError(f"{uri}:
            ", naming(...))`.
        values: values to show with a setting.
    """
    parts = _SETTING.split(text)  # text and names alternate
    named = (
        SettingRef(part, values.get(part)) if number % 2 else part
        for number, part in enumerate(parts)
    )
    return Message(tuple(part for part in named if part != ""))


class GenrmError(Exception):
    """Base class of all errors that genrm raises on purpose.

    raise UsageError(naming("$shard requires a journal; remove $use_journal.", use_journal=False))
    raise StorageError(f"{uri}: {reason}; ", naming("use $force to replace it."))
    """

    exit_code = 1

    def __init__(self, *parts: Part) -> None:
        """Take the parts of the message in order."""
        super().__init__(*parts)
        self.message = Message.of(*parts)

    def __str__(self) -> str:
        return str(self.message)


class FigureError(GenrmError):
    """The outputs are written, but for figures or rewards that a bug kept from being computed."""


class UsageError(GenrmError):
    """A setting, or a combination of settings, cannot be used."""

    exit_code = 2


class MissingModelError(UsageError):
    """An endpoint is given, but not which of its models is the judge."""


class InputError(GenrmError):
    """Rollouts cannot be read, or the setting `strict` refused them."""

    exit_code = 3


class ChangedInputError(InputError):
    """An input changed while it was read; it may be read again later."""


class JudgeError(GenrmError):
    """The judge cannot be reached, or refuses every request."""

    exit_code = 4


class StorageError(GenrmError):
    """Data cannot be listed, read or written."""

    exit_code = 5


class TooManyUnscoredError(GenrmError):
    """The run is done and its outputs are written, but too many rollouts stayed unscored."""

    exit_code = 6


class PendingError(GenrmError):
    """Batches are still in progress; a later run collects their replies."""

    exit_code = 6


class ChangedJudgeError(GenrmError):
    """A judge was measured again, and its verdicts have changed."""

    exit_code = 7


class BadInputLineError(ValueError):
    """A line of an input cannot be used. A run rejects the line and continues, so it has no exit
    code.

    Attributes:
        message: what was found, and what to do.
        kind: the message without details that differ from line to line.
    """

    def __init__(self, *parts: Part, kind: str | None = None) -> None:
        """Take the parts of the message in order; its kind is by default the message."""
        super().__init__(*parts)
        self.message = Message.of(*parts)
        self.kind = kind or str(self.message)

    def __str__(self) -> str:
        return str(self.message)


class StoppedError(Exception):
    """The caller asked to stop. Users never see it, so it has no exit code."""


# What stops everything comes first, then what a user must repair, then what is left undone.
_FROM_WORST = (INTERRUPTED, 1, 4, 5, 2, 3, 7, 6, 0)


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code of a run over many inputs, from the codes of each; 0 for none.

    From worst to best: interrupted, a bug, judge, storage, usage, input, a refused state of the
    judges, too many unscored, done.
    """
    return min(codes, key=_FROM_WORST.index, default=0)
