"""All errors that users see, each with its exit code.

    GenrmError                   1  (a bug, if nothing more precise is raised)
    ├── UsageError               2  a flag, a setting, a combination of them
    ├── InputError               3  rollouts that cannot be read
    │   └── ChangedInputError 3 rollouts that changed while they were read
    ├── JudgeError               4  a judge that cannot be reached or refuses
    ├── StorageError             5  data that cannot be listed, read or written
    └── TooManyUnscoredError     6  the run is done, but too many rollouts stayed unscored

A message is one paragraph: the location, what was found, what was expected, and what to do next.
"""

from collections.abc import Iterable

INTERRUPTED = 130
"""Exit code of a run that Ctrl-C or SIGTERM ended."""


class GenrmError(Exception):
    """Base class of all errors that genrm raises on purpose."""

    exit_code = 1


class UsageError(GenrmError):
    """A flag, a setting, or a combination of them cannot be used."""

    exit_code = 2


class InputError(GenrmError):
    """Rollouts cannot be read, or `--strict` refused them."""

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


class StoppedError(Exception):
    """The caller asked to stop. Users never see it, so it has no exit code."""


_FROM_WORST = (1, 4, 5, 2, 3, 6, 0)


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code of a run over many inputs, from the codes of each; 0 for none.

    From worst to best: a bug, judge, storage, usage, input, too many unscored, done.
    """
    return min(codes, key=_FROM_WORST.index, default=0)
