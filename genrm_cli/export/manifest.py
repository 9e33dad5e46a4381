"""The manifest of an export: its contents, its sources, and how far length separates chosen from rejected."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import numpy as np

from genrm_cli import __version__
from genrm_cli.export.export_options import ExportOptions
from genrm_cli.export.make_rows import RowCounts
from genrm_cli.export.read_scored import Reading
from genrm_cli.scored.json_form import Json, to_json

MANIFEST_FORMAT = 1
ADVISORY = "Rewards are a model's judgement: advisory, and no substitute for review by experts before training."
_SCORED_WITH = ("settings_digest", "strategy", "ring_k", "estimator", "repeats", "judge", "time", "versions")
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def manifest_of(
    reading: Reading,
    counts: RowCounts,
    to: str,
    options: ExportOptions,
    groups: int,
    outputs: Sequence[str],
    warnings: list[str],
) -> Json:
    """Return the manifest of an export, JSON-ready."""
    records = [{} if metrics is None else to_json(metrics) for metrics in reading.metrics]
    return {
        "format": MANIFEST_FORMAT,
        "to": to,
        "advisory": ADVISORY,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"genrm": __version__},
        "options": asdict(options),
        "inputs": [
            {
                **asdict(each.identity),
                "sha256": each.sha256,
                "lines": each.lines,
                "rollouts": each.rollouts,
                "judges": sorted(each.judges),
                "scored_with": {name: records[each.input][name] for name in _SCORED_WITH if records[each.input]},
            }
            for each in reading.inputs
        ],
        "outputs": list(outputs),
        "rollouts": reading.rollouts,
        "rejected_lines": reading.rejects.total(),
        "rejected_reasons": dict(reading.rejects.most_common(20)),
        "left_out": {reason.value: count for reason, count in reading.left_out.most_common()},
        "groups": groups,
        "incomplete_groups": reading.incomplete_groups,
        "prompts_in_several_files": reading.repeated_prompts,
        "rows": dict(counts.rows),
        "dropped": {reason.value: count for reason, count in counts.dropped.most_common() if count},
        "unfit": dict(counts.unfit.most_common()),
        "scores": {name: _distribution(side.rewards) for name, side in counts.sides.items()},
        "lengths_chars": {name: _distribution(side.chars) for name, side in counts.sides.items()},
        **_comparison_of(counts),
        "warnings": warnings,
    }


def warnings_of(reading: Reading, counts: RowCounts, options: ExportOptions, *, template_strips: bool) -> list[str]:
    """Return warnings about training on an export."""
    checks = [
        (reading.is_baseline, "judged by the built-in lexical baseline, not by a reward model: do not train on this."),
        (
            reading.incomplete_groups,
            f"{reading.incomplete_groups:,} groups lack rollouts that they were scored with.",
        ),
        (
            reading.repeated_prompts,
            f"{reading.repeated_prompts:,} prompts are answered in several files: their rollouts were scored "
            "separately and are not paired.",
        ),
        (reading.truncated, f"{reading.truncated:,} exported rollouts were cut off by a limit."),
        (
            counts.only_reasoning,
            f"{counts.only_reasoning:,} pairs differ only in their reasoning, which the judge never saw.",
        ),
        (
            template_strips and counts.with_reasoning and options.reasoning == "keep",
            f"{counts.with_reasoning:,} responses contain reasoning: a chat template that strips reasoning from "
            "earlier turns may leave them without it, or empty. Try one row, or strip it with reasoning=strip.",
        ),
    ]
    return [text for holds, text in checks if holds]


def _distribution(values: Sequence[float]) -> Json:
    numbers = np.asarray(values, dtype=np.float64)
    if not len(numbers):
        return {"count": 0}
    quantiles = [round(value, 6) for value in np.quantile(numbers, _QUANTILES).tolist()]
    return {
        "count": len(numbers),
        "mean": round(float(numbers.mean()), 6),
        "std": round(float(numbers.std()), 6),
        **dict(zip(("min", "q25", "median", "q75", "max"), quantiles, strict=True)),
    }


def _comparison_of(counts: RowCounts) -> Json:
    """Return the differences between chosen and rejected responses; empty for other exports."""
    if "chosen" not in counts.sides:
        return {}
    chosen, rejected = counts.sides["chosen"], counts.sides["rejected"]
    gaps = np.asarray(chosen.rewards) - np.asarray(rejected.rewards)
    differences = np.asarray(chosen.chars, dtype=np.int64) - np.asarray(rejected.chars, dtype=np.int64)
    uneven = int(np.count_nonzero(differences))
    return {
        "margins": _distribution(gaps.tolist()),
        "longer_chosen_share": round(int(np.count_nonzero(differences > 0)) / uneven, 6) if uneven else None,
    }
