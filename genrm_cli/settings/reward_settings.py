"""Settings for comparisons, and for the rewards computed from their verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass

from genrm_cli.catalog import ADVANTAGES, ESTIMATORS, GOALS, STRATEGIES, explained, listed
from genrm_cli.settings.components import NO_SHAPING, Component, Diversity, Shaping, TotalTable
from genrm_cli.settings.declare import reward_setting, setting
from genrm_cli.settings.kinds import UNSCORED

# NeMo RL's names, so that its recipes can be copied.
_LENGTH_R = "group_reasoning_length_penalty_coeff"
_LENGTH_A = "group_answer_length_penalty_coeff"
_STYLE = "group_style_penalty_coeff"
REFERENCE_SCORE = 3.0
"""The score that NeMo Gym gives a response that is alone, and both responses of a failed
comparison.
"""

# The same in all of NVIDIA's releases.
_BONUSES = {"reasoning_bonus": 0.5, "answer_bonus": 0.5, "top_percentile": 0.2}

# Coefficients that NVIDIA released with its models. Source: Nemotron 3 Nano report, arXiv
# 2512.20848 §3.3; NeMo RL examples/nemo_gym (nemotron-3-super stages 1 and 3, nemotron-3-ultra,
# nemotron-3.5-lightning).
PRESETS: Mapping[str, Mapping[str, float]] = {
    "nemotron-3-nano": {**_BONUSES, _LENGTH_R: 0.5, _LENGTH_A: 0.5},
    "nemotron-3-super": {**_BONUSES, _LENGTH_R: 0.3, _LENGTH_A: 0.35, _STYLE: 0.05},
    "nemotron-3-super-rlvr": {**_BONUSES, _LENGTH_R: 0.1, _LENGTH_A: 0.1, _STYLE: 0.1},
    "nemotron-3-ultra": {**_BONUSES, _LENGTH_R: 0.1, _LENGTH_A: 0.25},
    "nemotron-3.5-lightning": {**_BONUSES, _LENGTH_R: 0.12, _LENGTH_A: 0.12},
}

# Defaults under `compat`: NeMo Gym's pairs, estimator and default score, to reproduce its numbers.
COMPATIBLE: Mapping[str, Mapping[str, str | float | bool]] = {
    "nemo-gym": {
        "strategy": "circular",
        "estimator": "simple_tiebreaker",
        "advantage": "unit",
        "default_score": REFERENCE_SCORE,
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingSettings:
    """The comparisons to make."""

    strategy: str = reward_setting(
        f"Which rollouts of a group to compare. {explained(STRATEGIES)}.",
        "ring",
        choices=STRATEGIES,
        only_with="judging=pairwise, goal=rewards",
        is_common=True,
    )
    goal: str = reward_setting(
        f"What to spend calls on. {explained(GOALS)}.",
        "rewards",
        choices=GOALS,
        only_with="!compat",
    )
    max_extra: float = reward_setting(
        "Limit of the calls that replace failed comparisons, as a share of the calls planned for "
        "their group.",
        1.0,
        low=0,
    )
    ring_k: float = reward_setting(
        "Comparisons per rollout, as rings of N. 2.5 uses half of a third ring.",
        1.0,
        low=0.1,
        high=10_000,
        is_common=True,
        only_with="strategy=ring",
    )
    repeats: int = reward_setting(
        "Number of times to ask every comparison, or orders in which to show every list.",
        1,
        low=1,
        high=64,
        only_with="goal=rewards",
    )
    list_size: int = reward_setting(
        "Maximum number of responses in one list. Larger groups are split into lists that share "
        "responses.",
        8,
        low=3,
        high=64,
        only_with="judging=listwise|profile|panel",
    )
    both_orders: bool = reward_setting(
        "Ask for every pair in both orders, at twice the calls.",
        False,
        only_with="judging=pairwise, goal=rewards",
    )
    seed: int = reward_setting(
        "Random seed for pairing.", 0, low=0, only_with="strategy=ring|judging=listwise"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSettings:
    """Estimator, shaping terms, and the tables that define rewards.

    Attributes:
        components: components from `[components]` and `component`.
        shaping: the coefficients of the preset and the `[shaping]` table.
        diversity: the `[diversity]` table.
        total: the `[total]` table; None if the reward is the component `genrm` alone.
    """

    estimator: str = reward_setting(
        f"How verdicts become base scores. {explained(ESTIMATORS)}.", "adaptive", choices=ESTIMATORS
    )
    advantage: str = reward_setting(
        f"How advantages are scaled. {explained(ADVANTAGES)}.", "pooled", choices=ADVANTAGES
    )
    min_verdicts: float = reward_setting(
        "Leave rollouts unscored that have less than this share of their planned verdicts.",
        0.75,
        low=0,
        high=1,
    )
    min_reliability: float | None = reward_setting(
        "Leave groups unscored whose reliability is clearly below this (0 to 1).",
        low=0,
        high=1,
        only_with="goal=rewards",
    )
    preset: str | None = setting(
        f"Released length and style coefficients: {listed(PRESETS)}.",
        choices=PRESETS,
    )
    default_score: float | None = reward_setting(
        "Reward of a rollout that is alone in its group; excluded from means. Default: null, or 3 "
        "under $compat."
    )
    unscored: str = reward_setting(
        "Reward of a rollout without one: null, drop (omit its line), a number, or, if too few of "
        "its comparisons have verdicts, lowest, the lowest score of its group.",
        "null",
        kind=UNSCORED,
    )
    max_unscored: float = setting(
        "Exit with code 6 if a larger share of the rollouts in groups stays unscored.",
        0.05,
        low=0,
        high=1,
    )
    # Not in the digest: the components that it adds are.
    component: tuple[str, ...] = setting(
        "Compute another component of the reward: win_rate, rank, guard, form, rubric:SET, "
        "field:PATH, consistency:FORM, ... Repeatable.",
        (),
        is_common=True,
    )
    shaping: Shaping = NO_SHAPING
    components: tuple[Component, ...] = ()
    diversity: Diversity | None = None
    total: TotalTable | None = None
