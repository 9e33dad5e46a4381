"""Plan comparisons: strategies, their numbers of calls, and the plan that fits a budget."""

from genrm_cli.pairing.strategies import (
    STRATEGIES,
    Comparison,
    count_comparisons,
    plan_comparisons,
    ring_k_for_budget,
)

__all__ = [
    "STRATEGIES",
    "Comparison",
    "count_comparisons",
    "plan_comparisons",
    "ring_k_for_budget",
]
