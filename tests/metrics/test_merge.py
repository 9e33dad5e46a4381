"""Metrics of the parts of a run merge into those of the whole run."""

import json
from random import Random

import pytest
from scored_lines import totals_of

from genrm_cli.metrics.component_metrics import ComponentMetrics
from genrm_cli.metrics.panel_metrics import PanelMetrics
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.json_form import to_json
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Verdict


def summary_of(metrics, wall_time_s):
    """Return the totals of a run as they are written."""
    return to_json(totals_of(metrics, wall_time_s))


def random_verdict(random):
    """Draw a verdict; scores tie now and then."""
    return Verdict(
        float(random.randint(1, 5)), float(random.randint(1, 5)), float(random.randint(1, 6))
    )


def metrics_of(seeds):
    """Count one group of comparisons for each seed."""
    metrics = RunMetrics()
    for seed in seeds:
        random = Random(seed)
        first = random_verdict(random)
        second = random_verdict(random)
        metrics.lines += seed
        metrics.group_sizes[seed % 3] += 1
        metrics.add_outcome(Outcome(first, attempts=2, prompt_tokens=seed))
        metrics.add_outcome(Outcome(Failure(FailureKind.NO_VERDICT, f"seed {seed}")))
        metrics.add_scores(first)
        metrics.pairs.both_orders.add(first, second)
        metrics.shares[f"component {seed % 2}"] += 0.5
        metrics.latency.add(0.01 * seed)
        component = metrics.components.setdefault(f"component {seed % 2}", ComponentMetrics())
        component.add_group([float(seed), 1.0, None])
        metrics.panel = metrics.panel or PanelMetrics(("x", "y"))
        metrics.panel.add_comparison([first, second])
        metrics.reward.add(random.random())
    return metrics


def shown(value):
    """Compare numbers up to rounding."""
    if isinstance(value, dict):
        return {key: shown(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [shown(member) for member in value]
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


def test_the_metrics_of_two_parts_merge_into_those_of_the_whole():
    """Every count, statistic and panel number is the same, also when one part is empty."""
    for cut in [0, 1, 4, 9]:
        merged = metrics_of(range(cut))
        merged.merge(metrics_of(range(cut, 9)))
        assert json.loads(json.dumps(summary_of(merged, 1.0))) == shown(
            summary_of(metrics_of(range(9)), 1.0)
        )


def test_a_merged_part_can_go_on_counting():
    """Merging copies: what is counted later in one part does not change the total."""
    total = RunMetrics()
    part = metrics_of([1])
    total.merge(part)
    before = summary_of(total, 1.0)
    part.merge(metrics_of([2, 3]))
    assert summary_of(total, 1.0) == before
