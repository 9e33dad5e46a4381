"""Turn a finished run into its record: its judges, the components of its rewards, and its
inputs.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from genrm_cli import __version__
from genrm_cli.groups.check import judge_specs
from genrm_cli.groups.compile import judge_name
from genrm_cli.groups.graders import graders_in
from genrm_cli.groups.plan import GroupPlan, RewardPlan
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.metrics.figures import attempt, rounded_figures
from genrm_cli.metrics.plan_reliability import (
    LISTS,
    repeats_needed,
    rings_needed,
    typical_size,
)
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.running_stats import LatencySummary, RunningStats
from genrm_cli.metrics.verdict_counts import CountOf
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rollouts.views import READING_VERSION
from genrm_cli.scored.account import RunAccount
from genrm_cli.scored.run_record import (
    FIGURES,
    FORMAT,
    FileRecord,
    GraderRecord,
    InputVersion,
    PanelRecord,
    RewardRecord,
    RunRecord,
    RunTotals,
)
from genrm_cli.settings import Settings
from genrm_cli.settings.components import find_kind
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.contract import InputIdentity, Mark
from genrm_cli.storage.places import place_of

# The others need more than the counts: `rings_needed` the plan, `wall_time_s` the clock.
_COUNTED = [name for name in FIGURES if hasattr(RunMetrics, name) and name != "failed_figures"]
_NO_STATISTICS = RunningStats().summary()
_NULLS: Mapping[str, object] = {
    "reward": _NO_STATISTICS,
    "reliability": _NO_STATISTICS,
    "length_effect": _NO_STATISTICS,
    "reward_sources": {},
    "latency": LatencySummary(mean_s=None, median_s=None, p99_s=None),
}
"""What stands for a figure that could not be computed, where it is not null itself."""


def run_totals(
    settings: Settings,
    metrics: RunMetrics,
    plan: GroupPlan,
    judges: Sequence[JudgeSpec],
    wall_time_s: float,
) -> RunTotals:
    """Return the totals of a run over one input or over many, with the judges as they were
    asked.

    A figure that cannot be computed is null, and named with its reason in `failed_figures`."""
    pairing = plan.pairing
    failed = dict(metrics.failed_figures)
    figures: dict[str, Any] = {}
    for name in _COUNTED:
        if name not in failed:
            figures[name] = attempt(failed, [name], partial(_written, metrics, name))
        if name in failed:
            figures[name] = _NULLS.get(name)
    names = ("reliability_interval", "rings_needed")
    improved = attempt(
        failed, names, partial(_reliability_figures, metrics, pairing, plan.is_listwise)
    )
    figures |= dict.fromkeys(names) | (improved or {})
    return RunTotals(
        limit=settings.limits.limit,
        judge=judge_record(settings, judges),
        reward_made_of=reward_record(settings, plan.rewards),
        min_reliability=settings.rewards.min_reliability,
        goal=pairing.goal,
        strategy=LISTS if plan.is_listwise else pairing.strategy,
        ring_k=pairing.ring_k if pairing.strategy == "ring" and not plan.is_listwise else None,
        estimator=settings.rewards.estimator,
        repeats=pairing.repeats,
        wall_time_s=round(wall_time_s, 3),
        failed_figures=failed or None,
        # Sums in another order differ in their last bits, and files must not.
        **rounded_figures(figures),
    )


def _written(metrics: RunMetrics, name: str) -> object:
    """Return a count or statistic as it is written; the metrics may go on counting."""
    return _summary_of(getattr(metrics, name))


def _summary_of(value: Any) -> object:
    if isinstance(value, CountOf):
        return replace(value)  # a copy
    if hasattr(value, "summary"):  # counted in a form of its own, such as `RunningStats`
        return value.summary()
    if isinstance(value, Mapping):
        return {str(key): _summary_of(each) for key, each in sorted(value.items())}
    return value


def _reliability_figures(
    metrics: RunMetrics, pairing: PairingPlan, is_listwise: bool
) -> dict[str, object]:
    """Return the interval of the reliability, from all verdicts of all inputs, and the rings or
    repeats that would make it high; empty if they are unknown.
    """
    mean = metrics.reliability.mean
    n = typical_size(metrics.group_sizes)
    if mean is None or n is None:
        return {}
    expected = metrics.expected_signal
    # Inputs that were calibrated one by one know less of the judge than their verdicts together.
    if expected is not None and metrics.verdict_sums is not None:
        pooled = CalibrationStatistics.of_numbers(metrics.verdict_sums).fit().expects
        expected = pooled and expected._replace(distance=pooled.distance)
    interval = expected and expected.interval_of_mean(metrics.reliability)
    if interval is None:
        return {}
    low, high = interval
    in_common = None if metrics.panel is None else metrics.panel.reliability()
    if in_common is None or in_common >= mean:
        needed = (
            repeats_needed(pairing.repeats, mean, interval)
            if is_listwise
            else rings_needed(pairing, n, mean, interval)
        )
        return {"reliability_interval": interval, "rings_needed": needed}
    # What one judge says consistently and no other repeats is no signal of the panel: a judge that
    # adds nothing must not raise its reliability.
    share = in_common / mean
    measured = metrics.reliability.summary()
    scaled = {name: share * getattr(measured, name) for name in ("mean", "std", "min", "max")}
    return {
        "reliability": replace(measured, **scaled),
        "reliability_interval": (low * share, high * share),
        "rings_needed": None,
    }


def run_record(
    totals: RunTotals,
    settings: Settings,
    *,
    input_: InputVersion | None,
    output: str,
    output_mark: Mark | None,
    files: tuple[FileRecord, ...] | None = None,
    journal: str | None,
    damaged_verdicts: int | None = None,
) -> RunRecord:
    """Return the record of a finished input; see `RunRecord` for the arguments."""
    record = RunRecord(
        **structs.asdict(totals),
        format=FORMAT,
        input=input_,
        output=output,
        output_mark=output_mark,
        files=files,
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        reading_version=READING_VERSION,
        partial=totals.stopped_by is not None or totals.failures_by_kind.get("not_asked", 0) > 0,
        settings_digest=digest_of(settings),
        versions=versions_record(),
        journal=journal,
        damaged_verdicts=damaged_verdicts,
        train="unknown",
        because=(),
    )
    account = RunAccount.of(record)
    return replace(record, train=account.train, because=account.because)


def input_version(identity: InputIdentity) -> InputVersion:
    """Return the version of an input that was read."""
    return InputVersion(**structs.asdict(identity), place=place_of(identity.uri))


def judge_record(settings: Settings, judges: Sequence[JudgeSpec] | None = None) -> PanelRecord:
    """Return the judges and their profiles.

    `judges` are those of the run as they were asked; by default as the settings describe them.
    """
    specs = [
        spec for spec in (judge_specs(settings) if judges is None else judges) if spec.compares
    ]
    name = judge_name(settings) if specs else None
    if not specs or not settings.panel.judges:
        return _one_judge(name, specs[0] if specs else None, settings)
    return replace(
        _one_judge(name, None, settings),
        panel=tuple(_one_judge(spec.config.name, spec, settings) for spec in specs),
    )


def _one_judge(name: str | None, spec: JudgeSpec | None, settings: Settings) -> PanelRecord:
    profile = None if spec is None else spec.profile
    return PanelRecord(
        name=name,
        model=None if spec is None else spec.config.judge.model,
        is_baseline=spec is not None and spec.config.judge.judge is not None,
        base_urls=() if spec is None else tuple(spec.config.judge.base_url),
        profile=None if profile is None else profile.name,
        profile_version=None if profile is None else profile.version,
        profile_from=None if spec is None or profile is None else spec.source.value,
        probe=None if spec is None else spec.probe,
        compat=settings.judge.compat if spec is not None else None,
    )


def reward_record(settings: Settings, rewards: RewardPlan) -> RewardRecord | None:
    """Return the components of rewards, with versions of their sources; None if rewards come from
    verdicts alone.
    """
    if not rewards.is_composed:
        return None
    given = settings.rewards
    total = given.total
    versions = {each.name: find_kind(each.kind).version(each) for each in given.components}
    return RewardRecord(
        components={name: rewards.sources[name] for name in rewards.names},
        versions={name: version for name, version in versions.items() if version is not None},
        graders={
            grader.component: GraderRecord(
                model=grader.config.judge.model,
                base_urls=tuple(grader.config.judge.base_url),
                profile=grader.profile.name,
                profile_version=grader.profile.version,
            )
            for grader in graders_in(settings)
        },
        diversity=None if given.diversity is None else asdict(given.diversity) | {"judge": None},
        total=None
        if total is None
        else asdict(total) | {"weights": dict(total.weights), "gates": dict(total.gates)},
    )


def versions_record() -> dict[str, str]:
    """Return the versions of genrm and Python."""
    return {"genrm": __version__, "python": platform.python_version()}
