"""Settings of the comparisons that are made, and of the rewards made from them."""

from dataclasses import dataclass

from genrm_cli.settings.components import Component, Diversity, TotalTable
from genrm_cli.settings.declare import declare

_LENGTH_R, _LENGTH_A = "group_reasoning_length_penalty_coeff", "group_answer_length_penalty_coeff"
_STYLE = "group_style_penalty_coeff"
_BONUSES = {"reasoning_bonus": 0.5, "answer_bonus": 0.5, "top_percentile": 0.2}

# Coefficients that NVIDIA released with its models. Source: Nemotron 3 Nano report, arXiv 2512.20848 §3.3;
# the configurations published with Nemotron 3 Super and Ultra.
PRESETS: dict[str, dict[str, float]] = {
    "nemotron-3-nano": {**_BONUSES, _LENGTH_R: 0.5, _LENGTH_A: 0.5},
    "nemotron-3-super": {**_BONUSES, _LENGTH_R: 0.3, _LENGTH_A: 0.35, _STYLE: 0.05},
    "nemotron-3-super-rlvr": {_LENGTH_R: 0.1, _LENGTH_A: 0.1, _STYLE: 0.1},
    "nemotron-3-ultra": {**_BONUSES, _LENGTH_R: 0.1, _LENGTH_A: 0.25},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingSettings:
    """Which comparisons are made."""

    strategy: str = declare(
        "ring",
        "Pairs",
        "ring: every rollout against as many others as any and as often first as second, N times --ring-k comparisons "
        "for N rollouts. circular: each against the next one in the group, N. all_pairs: each against each, N(N-1)/2. "
        "For comparison: swap (half as many pairs, in both orders) and random.",
        choices=("circular", "all_pairs", "ring", "swap", "random"),
        changes_rewards=True,
    )
    ring_k: float = declare(
        1.0,
        "Pairs",
        "ring, swap, random: so many rings, each of N comparisons (N/2 where it joins opposite rollouts); 2.5 takes "
        "half of a third ring.",
        low=0.1,
        high=10_000,
        changes_rewards=True,
    )
    budget: int | None = declare(
        None,
        "Pairs",
        "Calls for each input: takes the ring (swap, random) with the most comparisons that need no more of them. "
        "Retries and re-askings come on top; --max-calls is the hard limit.",
        low=1,
        changes_rewards=True,
    )
    repeats: int = declare(
        1,
        "Pairs",
        "How often the whole list of comparisons is asked.",
        low=1,
        high=64,
        changes_rewards=True,
        key="judges",
    )
    both_orders: bool = declare(
        False,
        "Pairs",
        "Ask every pair in both orders; a pair counts only with both verdicts, and the metrics tell how often they "
        "contradict each other. Twice the calls.",
        changes_rewards=True,
        key="swap",
    )
    order_balanced: bool = declare(
        False, "Pairs", "all_pairs: alternate which rollout is shown first.", changes_rewards=True
    )
    seed: int = declare(0, "Pairs", "Seed of what is drawn by lot: who meets whom.", low=0, changes_rewards=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSettings:
    """How verdicts become rewards."""

    estimator: str = declare(
        "combined",
        "Rewards",
        "From verdicts to base scores. simple_tiebreaker: mean of a rollout's scores, as NeMo Gym. combined: least "
        "squares over scores and rankings, adjusted for opponents and the judge's preference for a place; "
        "combined_fitted: with weights learned from the judge's own verdicts. Also win_rate and bradley_terry.",
        choices=("simple_tiebreaker", "combined", "combined_fitted", "win_rate", "bradley_terry"),
        changes_rewards=True,
    )
    min_reliability: float | None = declare(
        None,
        "Rewards",
        "Leave groups unscored of whose spread less than this share is signal (0 to 1).",
        low=0,
        high=1,
        changes_rewards=True,
    )
    preset: str | None = declare(
        None,
        "Rewards",
        "Released length and style coefficients: nemotron-3-nano, nemotron-3-super, nemotron-3-super-rlvr or "
        "nemotron-3-ultra; a coefficient given by itself overrides its preset.",
        choices=tuple(PRESETS),
    )
    reasoning_bonus: float = declare(
        0.0,
        "Rewards",
        "Added to the rollout with the shortest reasoning if its score is among the top.",
        low=0,
        changes_rewards=True,
    )
    answer_bonus: float = declare(
        0.0,
        "Rewards",
        "Added to the rollout with the shortest answer if its score is among the top.",
        low=0,
        changes_rewards=True,
    )
    top_percentile: float = declare(
        0.2,
        "Rewards",
        "Share of the group that counts as the top for the two bonuses.",
        low=0,
        high=1,
        changes_rewards=True,
    )
    group_reasoning_length_penalty_coeff: float = declare(
        0.0,
        "Rewards",
        "Weight of short reasoning, relative to the group and centred on 0.",
        low=0,
        changes_rewards=True,
    )
    group_answer_length_penalty_coeff: float = declare(
        0.0,
        "Rewards",
        "Weight of a short answer, relative to the group and centred on 0.",
        low=0,
        changes_rewards=True,
    )
    group_style_penalty_coeff: float = declare(
        0.0,
        "Rewards",
        "Weight of little markup (headers, lists, bold, emoji), relative to the group and centred on 0.",
        low=0,
        changes_rewards=True,
    )
    default_score: float = declare(
        3.0, "Rewards", "Reward of a rollout that is alone in its group.", changes_rewards=True
    )
    unscored: str = declare(
        "null",
        "Rewards",
        "What a rollout without a verdict gets: null, drop (its line is left out) or a number.",
        changes_rewards=True,
    )
    max_unscored: float = declare(
        0.05,
        "Rewards",
        "Exit code 6 when more than this share of the rollouts in groups stayed unscored.",
        low=0,
        high=1,
    )
    component: tuple[str, ...] = declare(
        (),
        "Rewards",
        "Compute one more component of the reward: win_rate, rank, a rule (safety, empathy, bias, task_completion), "
        "rubric:SET, field:PATH, consistency:FORM, ... Repeat it for several; tables in the settings file say more.",
    )
    only_components: bool = declare(
        False, "Rewards", "Compute the rewards anew from what the journal holds; ask nothing."
    )
    components: tuple[Component, ...] = ()
    diversity: Diversity | None = None
    total: TotalTable | None = None
