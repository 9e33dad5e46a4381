"""The metrics of a server in Prometheus format, read on request."""

from collections.abc import Iterator, Mapping

from msgspec import to_builtins
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.products.serve.service import RewardService

_GAUGES = {
    "open_groups": "Groups and cohorts without an answer",
    "oldest_group_age_seconds": "Age of the oldest group without an answer",
    "waiting_requests": "Requests that wait for an answer",
    "comparisons_being_judged": "Comparisons of groups whose members have come",
    "judge_calls_in_flight": "Calls to judges in flight",
    "position_preference": "Mean of score_1 - score_2: above 0 where position 1 is preferred",
    "calibration_comparisons": "Comparisons that the calibration is based on",
}
# Fields of `ServiceCounts`.
_COUNTERS = {
    "deadlines": "Cohorts closed by a deadline",
    "missing_members": "Members that had not come when a deadline closed their cohort",
    "absent_members": "Members that a trainer said will not come",
    "repeated_requests": "Requests of members or groups that had come before",
    "late_members": "Members that came after their cohort was closed",
    "disagreements": "Requests that contradicted an earlier one",
    "refused_requests": "Requests refused because of load or shutdown",
    "default_rewards": "Rewards replaced by on_failure",
}


class ServiceCollector(Collector):
    """Collects the counters of a service, and of its judges."""

    def __init__(self, service: RewardService) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        return _iter_metrics(self._service)


def _iter_metrics(service: RewardService) -> Iterator[Metric]:
    yield from _of_groups(service)
    yield from _of_judges(service)
    steps = service.steps
    if steps is not None and steps.win_rate is not None:
        text = "Win rate against the reference answers in the latest step, and its interval"
        rate = to_builtins(steps.win_rate)
        shares = {name: rate[f"{name}_percent"] for name in ("win", "low", "high")}
        yield _labelled(GaugeMetricFamily, "reference_win_percent", text, "value", shares)


def _of_groups(service: RewardService) -> Iterator[Metric]:
    calibration = service.scorer.running
    counts = service.counts
    values = {
        "open_groups": service.open_groups,
        "oldest_group_age_seconds": service.table.oldest_s,
        "waiting_requests": service.waiting,
        "comparisons_being_judged": service.being_judged,
        "judge_calls_in_flight": service.scorer.open_judges.in_flight,
        "position_preference": calibration.fitted.gap_bias,
        "calibration_comparisons": calibration.comparisons,
    }
    for name, value in values.items():
        yield GaugeMetricFamily(f"genrm_{name}", _GAUGES[name], value)
    for name, text in _COUNTERS.items():
        yield CounterMetricFamily(f"genrm_{name}", text, getattr(counts, name))
    yield _labelled(CounterMetricFamily, "groups", "Groups answered", "status", counts.groups)
    text = "Highest less lowest reward of a group"
    spreads = counts.spreads
    yield SummaryMetricFamily(
        "genrm_reward_spread", text, spreads.count, spreads.count * (spreads.mean or 0.0)
    )


def _of_judges(service: RewardService) -> Iterator[Metric]:
    metrics = service.scorer.metrics
    results = {
        "verdict": metrics.verdicts,
        "journal": metrics.journal_hits,
        "failure": metrics.failures,
    }
    yield _labelled(
        CounterMetricFamily, "comparisons", "Comparisons with a result", "result", results
    )
    yield _labelled(
        CounterMetricFamily,
        "comparison_failures",
        "Failed comparisons",
        "kind",
        metrics.failures_by_kind,
    )
    yield CounterMetricFamily("genrm_judge_calls", "Calls to judges", metrics.calls)
    tokens = {"prompt": metrics.prompt_tokens, "completion": metrics.completion_tokens}
    yield _labelled(CounterMetricFamily, "judge_tokens", "Tokens of judges", "kind", tokens)
    limits = service.scorer.settings.limits
    if limits.price_in or limits.price_out:
        used = metrics.prompt_tokens, metrics.completion_tokens
        cost = cost_of(*used, limits.price_in, limits.price_out)
        yield CounterMetricFamily("genrm_judge_cost", "Cost of judges at the given prices", cost)
    yield _histogram(service.scorer.open_judges.latencies)


def _histogram(latencies: Latencies) -> Metric:
    """Return the latencies of judges; their sum is that of the buckets' upper bounds."""
    counts = []
    total = 0.0
    seen = 0
    for bound_s, count in latencies.doubling_buckets():
        seen += count
        total += bound_s * count
        counts.append((f"{bound_s:g}", seen))
    family = HistogramMetricFamily("genrm_judge_latency_seconds", "Latency of judge calls")
    family.add_metric([], [*counts, ("+Inf", seen)], total)
    return family


def _labelled(
    form: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    family = form(f"genrm_{name}", text, labels=[label])
    for value, number in sorted(values.items()):
        family.add_metric([value], number)
    return family
