"""The manifest of an export: its contents, its sources, and how far length separates chosen from
rejected.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray

from genrm_cli import __version__
from genrm_cli.errors import counted
from genrm_cli.json_types import Record
from genrm_cli.products.export.candidates import code_of
from genrm_cli.products.export.make_rows import RowMaker
from genrm_cli.products.export.read_scored import ExportCounts, ExportInput
from genrm_cli.products.export.row_spool import SideNumbers
from genrm_cli.scored.account import RunAccount
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
_QUANTILES = {"min": 0.0, "q25": 0.25, "median": 0.5, "q75": 0.75, "max": 1.0}


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
        "left_out": {code_of(reason): count for reason, count in counts.left_out.most_common()},
        "groups": sum(map(len, runs)),
        "exported_groups": counts.groups,
        "incomplete_groups": counts.incomplete_groups,
        "rows": dict(counts.rows),
        "dropped": {reason.code: count for reason, count in counts.dropped.most_common() if count},
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
            **to_builtins(file.identity),
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
    said = [
        (counts.incomplete_groups, "group", "without rollouts that were scored with them."),
        (counts.unreviewed, "session", "exported that no expert has reviewed."),
        (counts.truncated, "exported rollout", "cut off by a limit."),
        (
            only_reasoning,
            "pair",
            "with a difference only in the reasoning, which the judge never saw.",
        ),
        (
            with_reasoning,
            "response",
            "with reasoning: a chat template that strips reasoning from earlier turns may leave "
            "them without it, or empty. Try one row, or set reasoning to strip.",
        ),
    ]
    warnings = [f"{counted(count, noun)} {rest}" for count, noun, rest in said if count]
    if counts.is_baseline:
        what = "judged by the built-in lexical baseline, not by a reward model"
        warnings.insert(0, f"{what}: do not train on this.")
    return warnings


def judging_warnings(runs: Sequence[ScoredRun], unit: str) -> list[str]:
    """Return warnings about rewards that not everything speaks for training on, or that are less
    accurate than these rows need.

    Args:
        unit: kind of row.
    """
    warnings = []
    for run in runs:
        metrics = run.metrics
        if metrics is None or metrics.judge.name is None:
            continue
        if metrics.goal != "rewards" and _SUITED[metrics.goal] != unit:
            warnings.append(
                f"{run.name} was scored with goal {metrics.goal}: the rewards of the other "
                "rollouts are less accurate. Score with goal rewards for these rows."
            )
        account = RunAccount.of(metrics)
        if account.because:
            because = " ".join(account.because)
            warnings.append(f"{run.name}: train on it: {account.train}. {because}")
    return warnings


def _distribution(values: NDArray[Any]) -> Record:
    if not len(values):
        return {"count": 0}
    quantiles = np.quantile(values, list(_QUANTILES.values())).tolist()
    figures = {"mean": values.mean(), "std": values.std()} | dict(
        zip(_QUANTILES, quantiles, strict=True)
    )
    return {"count": len(values)} | {
        name: round(float(value), 6) for name, value in figures.items()
    }


def _comparison_of(sides: Mapping[str, SideNumbers]) -> Record:
    """Return the differences between chosen and rejected responses; empty for other exports."""
    if "chosen" not in sides:
        return {}
    chosen = sides["chosen"]
    rejected = sides["rejected"]
    differences = chosen.chars - rejected.chars
    uneven = differences[differences != 0]
    longer = round(float((uneven > 0).mean()), 6) if len(uneven) else None
    margins = _distribution(chosen.rewards - rejected.rewards)
    return {"margins": margins, "longer_chosen_share": longer}
