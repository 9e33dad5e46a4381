"""The metrics of a run as flat numbers, with names that trackers group in charts."""

from typing import Any

from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import RunTotals

_COUNTS = (
    "groups",
    "rollouts",
    "scored",
    "single",
    "unscored",
    "verdicts",
    "journal_hits",
    "failures",
    "calls",
    "retries",
)
_TOKENS = ("prompt_tokens", "completion_tokens", "cached_prompt_tokens")
_SHARES = (
    *("unscored_share", "first_place_win_rate", "flip_rate", "repeat_agreement", "tiebreak_usage_rate"),
    *("contradiction_rate", "echoed_ranking_rate"),
)


def flat_metrics(metrics: RunTotals, cost: float | None = None) -> dict[str, float]:
    """Return the numbers of a run's metrics; numbers that were not measured are omitted.

    Args:
        metrics: of one input or of many.
        cost: cost of the run's calls, in the currency of the prices; None without prices.
    """
    found: dict[str, Any] = {
        **{f"reward/{name}": value for name, value in to_json(metrics.reward).items()},
        "reward/groups_without_spread": metrics.groups_without_spread,
        **{f"reliability/{name}": value for name, value in to_json(metrics.reliability).items()},
        "reliability/groups_noisy": metrics.groups_noisy,
        **{f"run/{name}": getattr(metrics, name) for name in _COUNTS},
        **{f"run/{name}": getattr(metrics, name) for name in ("wall_time_s", "calls_per_s")},
        **{f"judge/{name}": getattr(metrics, name) for name in _SHARES},
        **{f"judge/latency_{name}": getattr(metrics.latency, name) for name in ("median_s", "p99_s")},
        **{f"failures/{kind}": count for kind, count in metrics.failures_by_kind.items()},
        **{f"cost/{name}": getattr(metrics, name) for name in _TOKENS},
        "cost/total": cost,
    }
    return {name: float(value) for name, value in found.items() if value is not None}
