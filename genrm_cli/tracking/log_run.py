"""Log a finished run to the trackers that its settings name."""

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any

from genrm_cli import __version__
from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.json_types import JsonObject, Record
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.run_summary import RunSummary
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.settings import Settings
from genrm_cli.settings.file_settings import TrackingSettings
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.location import is_stream, stem_of

_NAMES = re.compile(r"[\w ./-]+")  # what every tracker accepts: a regular expression that masks texts may be another


def _iter_numbers(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a metric, those of an object under `name/key`; what was not measured is left out."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _iter_numbers(f"{name}/{key}", each)
    elif isinstance(value, int | float) and not isinstance(value, bool) and _NAMES.fullmatch(name):
        yield name, float(value)


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The data of a run for trackers: its name, its configuration, and its numbers."""

    name: str
    params: JsonObject
    scalars: Mapping[str, float]


LogRun = Callable[[TrackedRun], None]


def _log_wandb(wandb: Any, project: str, run: TrackedRun) -> None:
    with wandb.init(
        project=project, name=run.name, config=dict(run.params), settings=wandb.Settings(silent=True, console="off")
    ) as logged:
        logged.log(dict(run.scalars))


def _log_mlflow(mlflow: Any, experiment: str, run: TrackedRun) -> None:
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=run.name):
        mlflow.log_params(dict(run.params))
        mlflow.log_metrics(dict(run.scalars))


def _log_tensorboard(summary: Any, folder: str, run: TrackedRun) -> None:
    # TensorBoard treats each folder as one run.
    writer = summary.Writer(f"{folder.rstrip('/')}/{run.name}-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}")
    for name, value in run.scalars.items():
        writer.add_scalar(name, value, step=0)
    writer.close()


# By name of the setting, which is also the name of the extra to install.
_TRACKERS = {
    "wandb": ("wandb", _log_wandb),
    "mlflow": ("mlflow", _log_mlflow),
    "tensorboard": ("tensorboard.summary", _log_tensorboard),
}


def load_trackers(settings: TrackingSettings) -> dict[str, LogRun]:
    """Return the functions that log a run to the trackers in the settings, by name.

    Raises:
        UsageError: the library of a tracker is not installed.
    """
    loaded: dict[str, LogRun] = {}
    for name, (module, log) in _TRACKERS.items():
        target = getattr(settings, name)
        try:
            if target:
                loaded[name] = partial(log, importlib.import_module(module), target)
        except ImportError as error:
            extra = f"requires the {name} extra: pip install 'genrm-cli[{name}]'. ({error})"
            raise UsageError(SettingRef(name), f" {extra}") from error
    return loaded


def tracked_run(inputs: Sequence[str], record: RunTotals, settings: Settings) -> TrackedRun:
    """Return the data of a run for trackers: names and numbers, but no text, endpoint or key.

    Args:
        inputs: inputs as on the command line; the first one names the run.
        record: totals of all inputs together.
        settings: settings of the run.
    """
    first = "stdin" if is_stream(inputs[0]) else stem_of(inputs[0].rstrip("/")).rpartition("/")[2]
    judge, limits = record.judge, settings.limits
    profile = judge.profile
    params = {
        "judge": judge.name,
        "profile": ", ".join(profile) if isinstance(profile, tuple) else profile,
        **{name: getattr(record, name) for name in ("strategy", "ring_k", "estimator", "repeats")},
        "settings_digest": digest_of(settings),
        "genrm_version": __version__,
    }
    metrics = to_json(record)
    counted: Record = {each.name: metrics[each.name] for each in fields(RunSummary)}
    if limits.price_in or limits.price_out:
        tokens = record.prompt_tokens, record.completion_tokens
        counted["cost"] = cost_of(*tokens, limits.price_in, limits.price_out)
    return TrackedRun(
        first if len(inputs) == 1 else f"{first} and {len(inputs) - 1} more",
        {name: value for name, value in params.items() if value is not None},
        dict(number for name, value in counted.items() for number in _iter_numbers(name, value)),
    )


def log_run(trackers: Mapping[str, LogRun], run: TrackedRun, on_event: Callable[[str, Record], None]) -> None:
    """Log a run to every tracker. A failing tracker only emits an event, because the outputs are already written."""
    for name, log in trackers.items():
        try:
            with contextlib.redirect_stdout(sys.stderr):  # they print links to the run
                log(run)
        except Exception as error:  # noqa: BLE001  each client raises errors of its own
            on_event("tracker_failed", {"tracker": name, "detail": f"{type(error).__name__}: {error}"})
