"""Log runs to the trackers that the settings name."""

import importlib
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec import Struct

from genrm_cli import __version__
from genrm_cli.errors import Message, SettingRef, UsageError, how_to_install
from genrm_cli.json_types import JsonObject, Record
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.event import Event, OnEvent, Severity
from genrm_cli.scored.account import RunAccount
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import FIGURES, RunTotals
from genrm_cli.settings import Settings
from genrm_cli.settings.file_settings import TrackingSettings
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.location import is_stream, stem_of

# What every tracker accepts: a regular expression that masks texts may be another name.
_NAMES = re.compile(r"[\w ./-]+")
_PARAMS = ("goal", "strategy", "ring_k", "estimator", "repeats")
_MOST_NAME_BYTES = 200  # TensorBoard makes a folder of it, and adds a time


def _iter_numbers(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a metric, those of an object under `name/key`; figures that were not
    measured are omitted.
    """
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _iter_numbers(f"{name}/{key}", each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and _NAMES.fullmatch(name):
        yield name, float(value)


def _encodable(value: Any) -> Any:
    """Return a value that every tracker encodes: the name of a judge or an input may hold lone
    surrogates, and one of them would cost the numbers of its step, too.
    """
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


class TrackerFailedEvent(Event, frozen=True):
    """An experiment tracker did not take a run."""

    severity = Severity.WARNING
    tracker: str
    detail: str

    def text(self) -> Message:
        """Name the tracker."""
        return Message.of(SettingRef(self.tracker), f": not logged: {self.detail}")


class TrackedRun(Struct, frozen=True):
    """The data of a run for trackers: its name, its configuration, and its numbers, or those of one
    of its steps.
    """

    name: str
    params: JsonObject
    scalars: Mapping[str, float]
    step: int = 0


Log = Callable[[TrackedRun], object]
Close = Callable[[], object]
OpenRun = Callable[[TrackedRun], tuple[Log, Close]]
"""Begins a run at a tracker; returns what logs numbers, and what ends the run."""


def _open_wandb(wandb: Any, project: str, run: TrackedRun) -> tuple[Log, Close]:
    settings = wandb.Settings(silent=True, console="off")
    logged = wandb.init(project=project, name=run.name, config=dict(run.params), settings=settings)

    def log(each: TrackedRun) -> None:
        logged.log(dict(each.scalars), step=each.step)

    return log, logged.finish


def _open_mlflow(mlflow: Any, experiment: str, run: TrackedRun) -> tuple[Log, Close]:
    mlflow.set_experiment(experiment)
    mlflow.end_run()  # an earlier try
    mlflow.start_run(run_name=run.name)
    mlflow.log_params(dict(run.params))

    def log(each: TrackedRun) -> None:
        mlflow.log_metrics(dict(each.scalars), step=each.step)

    return log, mlflow.end_run


def _open_tensorboard(tensorboard: Any, folder: str, run: TrackedRun) -> tuple[Log, Close]:
    scalar_pb = importlib.import_module("tensorboard.plugins.scalar.summary_v2").scalar_pb
    events = importlib.import_module("tensorboard.compat.proto.event_pb2")
    # TensorBoard treats each folder as one run.
    place = f"{folder.rstrip('/')}/{run.name}-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    writer = tensorboard.EventFileWriter(place)

    def log(each: TrackedRun) -> None:
        summaries = [scalar_pb(name, value) for name, value in each.scalars.items()]
        for summary in summaries:
            writer.add_event(events.Event(wall_time=time.time(), step=each.step, summary=summary))
        writer.flush()

    return log, writer.close


# By name of the setting, which is also the name of the extra to install.
_TRACKERS = {
    "wandb": ("wandb", _open_wandb),
    "mlflow": ("mlflow", _open_mlflow),
    "tensorboard": ("tensorboard.summary.writer.event_file_writer", _open_tensorboard),
}


def load_trackers(settings: TrackingSettings) -> dict[str, OpenRun]:
    """Return the functions that begin a run at the trackers in the settings, by name.

    Raises:
        UsageError: the library of a tracker is not installed.
    """
    loaded: dict[str, OpenRun] = {}
    for name, (module, open_run) in _TRACKERS.items():
        target = getattr(settings, name)
        try:
            if target:
                loaded[name] = partial(open_run, importlib.import_module(module), target)
        except ImportError as error:
            extra = f"requires the {name} extra: {how_to_install(name)}. ({error})"
            raise UsageError(SettingRef(name), f" {extra}") from error
    return loaded


def run_name(inputs: Sequence[str]) -> str:
    """Return the name of a run over inputs as on the command line: that of the first one."""
    first = "stdin" if is_stream(inputs[0]) else stem_of(inputs[0].rstrip("/")).rpartition("/")[2]
    return first if len(inputs) == 1 else f"{first} and {len(inputs) - 1} more"


def tracked_run(
    name: str,
    record: RunTotals,
    settings: Settings,
    step: int = 0,
    more: Mapping[str, object] | None = None,
) -> TrackedRun:
    """Return the data of a run, or of one of its steps, for trackers: names and numbers, no
    endpoint or key.

    Args:
        name: name of the run.
        record: totals of all inputs together, or of the step.
        settings: settings of the run.
        step: number of the step.
        more: further numbers, or objects of numbers, by name.
    """
    limits = settings.limits
    account = RunAccount.of(record)
    params = {
        "judge": record.judge.name,
        "profile": record.judge.profile,
        **{name: getattr(record, name) for name in _PARAMS},
        "train_on_it": account.train,
        "because": " ".join(account.because) or None,
        "settings_digest": digest_of(settings),
        "genrm_version": __version__,
    }
    metrics = to_json(record)
    counted: Record = {name: metrics[name] for name in FIGURES if name in metrics}
    # A chart for each bucket of the histogram would bury the others.
    counted["latency"] = {name: metrics["latency"][name] for name in ("mean_s", "p99_s")}
    counted |= more or {}
    if limits.price_in or limits.price_out:
        tokens = record.prompt_tokens, record.completion_tokens
        counted["cost"] = cost_of(*tokens, limits.price_in, limits.price_out)
    numbers = dict(
        number for name, value in counted.items() for number in _iter_numbers(name, value)
    )
    known = {name: _encodable(value) for name, value in params.items() if value is not None}
    printable = "".join(char if char.isprintable() else "_" for char in name)
    short = printable.encode()[:_MOST_NAME_BYTES].decode(errors="ignore")
    return TrackedRun(short, known, numbers, step)


class RunLog:
    """Logs a run, or the steps of one, to every tracker, in its own thread, so that a slow tracker
    delays no run.

    A tracker that fails only emits an event, once, and is tried again at the next step.
    """

    def __init__(self, trackers: Mapping[str, OpenRun], on_event: OnEvent) -> None:
        """Start the thread, if there is any tracker."""
        self._trackers = trackers
        self._on_event = on_event
        self._waiting: queue.SimpleQueue[TrackedRun | None] = queue.SimpleQueue()
        self._failed: set[str] = set()
        self._thread = threading.Thread(target=self._work, daemon=True)
        if trackers:
            self._thread.start()

    def log(self, run: TrackedRun) -> None:
        """Log a step, or the only numbers of a run, soon."""
        if self._trackers:
            self._waiting.put(run)

    def close(self, within_s: float | None = None) -> None:
        """End the run once all steps are logged; give up after a while."""
        if not self._trackers:
            return
        self._waiting.put(None)
        self._thread.join(within_s)
        if self._thread.is_alive():
            for name in self._trackers:
                self._report(name, f"it did not end within {within_s:g} s")

    def _work(self) -> None:
        opened: dict[str, tuple[Log, Close]] = {}
        while (run := self._waiting.get()) is not None:
            for name, open_run in self._trackers.items():
                with self._reporting(name):
                    if name not in opened:
                        opened[name] = open_run(run)
                    opened[name][0](run)
        for name, (_, close) in opened.items():
            with self._reporting(name):
                close()

    @contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  each client raises errors of its own
            self._report(name, f"{type(error).__name__}: {error}")

    def _report(self, name: str, detail: str) -> None:
        if name not in self._failed:
            self._failed.add(name)
            self._on_event(TrackerFailedEvent(name, detail))
