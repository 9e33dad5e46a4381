"""The trackers: Weights & Biases, MLflow and TensorBoard."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from genrm_cli.errors import UsageError
from genrm_cli.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The data of a run for trackers: its name, its configuration, and its numbers."""

    name: str
    params: JsonObject
    scalars: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tracker:
    """A tracker: the module of its client, and the function that logs a run with it."""

    module: str
    log: Callable[[ModuleType, str, TrackedRun], None]


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
TRACKERS: Mapping[str, Tracker] = {
    "wandb": Tracker("wandb", _log_wandb),
    "mlflow": Tracker("mlflow", _log_mlflow),
    "tensorboard": Tracker("tensorboard.summary", _log_tensorboard),
}


def load_tracker(name: str) -> Callable[[str, TrackedRun], None]:
    """Import a tracker's client and return a function that logs a run to a target: a project, an experiment or a
    folder.

    Raises:
        UsageError: its library is not installed.
    """
    tracker = TRACKERS[name]
    try:
        module = importlib.import_module(tracker.module)
    except ImportError as error:
        raise UsageError(f"--{name} requires the {name} extra: pip install 'genrm-cli[{name}]'. ({error})") from error
    return lambda target, run: tracker.log(module, target, run)
