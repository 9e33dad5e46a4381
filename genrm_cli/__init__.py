"""Turn RL rollouts into rewards by asking a generative reward model to compare them in pairs.

The names in `__all__` are the public Python API. Each is imported when it is first used.
"""

from importlib import import_module

__version__ = "0.1.0"

TYPE_CHECKING = False  # the same as in `typing`, whose import would take longer than all else here
if TYPE_CHECKING:
    from genrm_cli.errors import (
        GenrmError,
        InputError,
        JudgeError,
        StorageError,
        UsageError,
    )
    from genrm_cli.groups.group import Group
    from genrm_cli.groups.line_records import ComparisonRecord
    from genrm_cli.groups.results import GroupRewards
    from genrm_cli.products.ranking.in_memory import rank
    from genrm_cli.products.ranking.rank_policies import Ranking
    from genrm_cli.reward_functions import (
        complementarity_rewards,
        consistency_rewards,
        merge,
        rank_rewards,
        scale_by_diversity,
    )
    from genrm_cli.rewards.estimators.calibration import Calibration
    from genrm_cli.scorer import Scorer, score

__all__ = [
    "Calibration",
    "ComparisonRecord",
    "GenrmError",
    "Group",
    "GroupRewards",
    "InputError",
    "JudgeError",
    "Ranking",
    "Scorer",
    "StorageError",
    "UsageError",
    "__version__",
    "complementarity_rewards",
    "consistency_rewards",
    "merge",
    "rank",
    "rank_rewards",
    "scale_by_diversity",
    "score",
]

_MODULES = {
    **dict.fromkeys(("Scorer", "score"), "scorer"),
    "Group": "groups.group",
    "ComparisonRecord": "groups.line_records",
    "GroupRewards": "groups.results",
    "Calibration": "rewards.estimators.calibration",
    "Ranking": "products.ranking.rank_policies",
    "rank": "products.ranking.in_memory",
    **dict.fromkeys(
        (
            "complementarity_rewards",
            "consistency_rewards",
            "merge",
            "rank_rewards",
            "scale_by_diversity",
        ),
        "reward_functions",
    ),
    **dict.fromkeys(
        ("GenrmError", "InputError", "JudgeError", "StorageError", "UsageError"), "errors"
    ),
}


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value
