"""The manifest of an export: its contents, its sources, and how far length separates chosen from
rejected.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrm_cli import __version__
from genrm_cli.errors import counted
from genrm_cli.export.make_rows import RowMaker
from genrm_cli.export.read_scored import ExportCounts, ExportInput
from genrm_cli.export.row_spool import SideNumbers
from genrm_cli.json_types import Record
from genrm_cli.metrics.group_measures import reliability_word
from genrm_cli.metrics.plan_reliability import remedy_text, unmeasured_text
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.scored.json_form import to_json

ADVISORY = (
    "Rewards are a model's judgement: advisory, and no substitute for review by experts "
    "before training."
)
# Of the run record: what decides how rewards compare.
_SCORED_WITH = (
    "settings_digest",
    "goal",
    "strategy",
    "ring_k",
    "estimator",
    "repeats",
    "judge",
    "time",
    "versions",
)
_SUITED = {"best": "sample", "pair": "pair"}  # the rows that a goal spends its calls on
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def manifest_of(
    inputs: Sequence[ExportInput],
    maker: RowMaker,
    sides: Mapping[str, SideNumbers],
    outputs: Sequence[str],
    warnings: list[str],
) -> Record:
    """Return the manifest of an export, JSON-ready."""
    runs = [each.run for each in inputs]
    counts = maker.counts
    rejects = sum((run.rejects for run in runs), Counter[str]())
    return {
        "format": 1,
        "to": maker.format.name,
        "advisory": ADVISORY,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"genrm": __version__},
        "options": asdict(maker.options),
        "inputs": [record for run in runs for record in _iter_files(run)],
        "outputs": list(outputs),
        "rollouts": sum(file.rollouts for run in runs for file in run.files),
        "rejected_lines": rejects.total(),
        "rejected_reasons": dict(rejects.most_common(20)),
        "left_out": {reason.value: count for reason, count in counts.left_out.most_common()},
        "groups": sum(map(len, runs)),
        "exported_groups": counts.groups,
        "incomplete_groups": counts.incomplete_groups,
        "rows": dict(counts.rows),
        "dropped": {reason.value: count for reason, count in counts.dropped.most_common() if count},
        "unfit": dict(counts.unfit.most_common()),
        "scores": {name: _distribution(side.rewards) for name, side in sides.items()},
        "lengths_chars": {name: _distribution(side.chars) for name, side in sides.items()},
        **_comparison_of(sides),
        "warnings": warnings,
    }


def _iter_files(run: ScoredRun) -> Iterator[Record]:
    """Yield the files of an input, each with its judges and the settings that it was scored
    with.
    """
    record = {} if run.metrics is None else to_json(run.metrics)
    for file in run.files:
        yield {
            **asdict(file.identity),
            **{name: getattr(file, name) for name in ("sha256", "lines", "rollouts")},
            "judges": sorted(run.judges),
            "scored_with": {name: record[name] for name in _SCORED_WITH if record},
        }


def warnings_of(counts: ExportCounts, with_reasoning: int, only_reasoning: int) -> list[str]:
    """Return warnings about training on an export.

    Args:
        counts: counts of the rollouts.
        with_reasoning: responses with reasoning that a chat template may strip.
        only_reasoning: pairs that differ only in their reasoning.
    """
    checks = [
        (
            counts.is_baseline,
            "judged by the built-in lexical baseline, not by a reward model: do not train on this.",
        ),
        (
            counts.incomplete_groups,
            f"{counted(counts.incomplete_groups, 'group')} without rollouts that were scored with "
            "them.",
        ),
        (
            counts.unreviewed,
            f"{counted(counts.unreviewed, 'session')} exported that no expert has reviewed.",
        ),
        (
            counts.truncated,
            f"{counted(counts.truncated, 'exported rollout')} cut off by a limit.",
        ),
        (
            only_reasoning,
            f"{counted(only_reasoning, 'pair')} with a difference only in the reasoning, which the "
            "judge never saw.",
        ),
        (
            with_reasoning,
            f"{counted(with_reasoning, 'response')} with reasoning: a chat template that strips "
            "reasoning from earlier turns may leave them without it, or empty. Try one row, or set "
            "reasoning to strip.",
        ),
    ]
    return [text for holds, text in checks if holds]


def judging_warnings(runs: Sequence[ScoredRun], unit: str) -> list[str]:
    """Return warnings about rewards that are noise, or less accurate than these rows need.

    Args:
        unit: kind of row.
    """
    warnings = []
    for run in runs:
        metrics = run.metrics
        if metrics is None or metrics.judge.name is None or unit == "judgement":
            continue
        if metrics.goal != "rewards":
            if _SUITED[metrics.goal] != unit:
                warnings.append(
                    f"{run.name} was scored with goal {metrics.goal}: the rewards of the other "
                    "rollouts are less accurate. Score with goal rewards for these rows."
                )
            continue
        mean = metrics.reliability.mean
        interval = metrics.reliability_interval
        word = reliability_word(interval)
        of_rewards = f"the reliability of the rewards of {run.name} is"
        noise = "these rows may be mostly judge noise"
        low, high = interval or (0.0, 1.0)
        if mean is None:
            why = unmeasured_text(map(int, metrics.group_sizes), metrics.strategy, metrics.repeats)
            warnings.append(f"{of_rewards} unknown: {why}.")
        elif word == "low":
            remedy = remedy_text(metrics.rings_needed, mean, is_panel=metrics.panel is not None)
            warnings.append(
                f"{of_rewards} low, {mean:.2f} ({low:.2f} to {high:.2f}): {noise}; {remedy}."
            )
        elif word == "unknown":  # no number: its estimate says nothing that the interval holds
            warnings.append(
                f"{of_rewards} unknown, between {low:.2f} and {high:.2f}: {noise}; score more "
                "groups together."
            )
    return warnings


def _distribution(values: NDArray[Any]) -> Record:
    numbers = values.astype(np.float64)
    if not len(numbers):
        return {"count": 0}
    quantiles = [round(value, 6) for value in np.quantile(numbers, _QUANTILES).tolist()]
    return {
        "count": len(numbers),
        "mean": round(float(numbers.mean()), 6),
        "std": round(float(numbers.std()), 6),
        **dict(zip(("min", "q25", "median", "q75", "max"), quantiles, strict=True)),
    }


def _comparison_of(sides: Mapping[str, SideNumbers]) -> Record:
    """Return the differences between chosen and rejected responses; empty for other exports."""
    if "chosen" not in sides:
        return {}
    chosen = sides["chosen"]
    rejected = sides["rejected"]
    differences = chosen.chars - rejected.chars
    uneven = int(np.count_nonzero(differences))
    return {
        "margins": _distribution(chosen.rewards - rejected.rewards),
        "longer_chosen_share": round(int(np.count_nonzero(differences > 0)) / uneven, 6)
        if uneven
        else None,
    }
