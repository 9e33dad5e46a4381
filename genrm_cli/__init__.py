"""Turn RL rollouts into rewards by asking a generative reward model to compare them in pairs.

The public Python API, imported lazily: `Scorer`, `score`, `Group`, `GroupRewards`, `Calibration` and the errors.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from genrm_cli.errors import (
        GenrmError,
        InputError,
        JudgeError,
        StorageError,
        TooManyUnscoredError,
        UsageError,
    )
    from genrm_cli.groups.group import Group
    from genrm_cli.groups.results import ComparisonResult, GroupRewards
    from genrm_cli.rewards.estimators import Calibration
    from genrm_cli.scorer import Scorer, score

_HOMES = {
    **dict.fromkeys(("Scorer", "score"), "scorer"),
    "Group": "groups.group",
    **dict.fromkeys(("ComparisonResult", "GroupRewards"), "groups.results"),
    "Calibration": "rewards.estimators",
    **dict.fromkeys(
        ("GenrmError", "InputError", "JudgeError", "StorageError", "TooManyUnscoredError", "UsageError"), "errors"
    ),
}

__all__ = [
    "Calibration",
    "ComparisonResult",
    "GenrmError",
    "Group",
    "GroupRewards",
    "InputError",
    "JudgeError",
    "Scorer",
    "StorageError",
    "TooManyUnscoredError",
    "UsageError",
    "__version__",
    "score",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the package itself must load at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
