"""Every error a user can meet, each with its exit code.

    GenrmError                   1  (a bug, if nothing more precise is raised)
    ├── UsageError               2  a flag, a setting, a combination of them
    ├── InputError               3  rollouts that cannot be read
    ├── JudgeError               4  a judge that cannot be reached or refuses
    ├── StorageError             5  bytes that cannot be listed, fetched or kept
    └── TooManyUnscoredError     6  the run is done, but too many rollouts stayed unscored

A message is one paragraph: where, what was found, what was expected, what to do next.
"""


class GenrmError(Exception):
    """Base of all errors that genrm raises on purpose."""

    exit_code = 1


class UsageError(GenrmError):
    """A flag, a setting, or a combination of them cannot be used."""

    exit_code = 2


class InputError(GenrmError):
    """Rollouts cannot be read, or `--strict` refused them."""

    exit_code = 3


class JudgeError(GenrmError):
    """The judge cannot be reached, or refuses every request."""

    exit_code = 4


class StorageError(GenrmError):
    """Bytes cannot be listed, fetched or kept."""

    exit_code = 5


class TooManyUnscoredError(GenrmError):
    """The run is done and its outputs are written, but too many rollouts stayed unscored."""

    exit_code = 6
