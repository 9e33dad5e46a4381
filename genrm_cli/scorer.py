"""The public Python API: score responses without files."""

import asyncio
import logging
import os
from collections.abc import Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self, TypeVar

from genrm_cli.errors import UsageError
from genrm_cli.group_scorer import GroupScorer
from genrm_cli.groups.group import Group
from genrm_cli.groups.results import GroupRewards
from genrm_cli.judging.pacing.judge_events import JUDGE_WARNINGS
from genrm_cli.metrics.event import Event
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.settings import Settings
from genrm_cli.settings.kinds import Table
from genrm_cli.settings.resolve import resolve_settings
from genrm_cli.settings.sources.keys import find_api_keys
from genrm_cli.settings.sources.settings_file import SettingsFile
from genrm_cli.settings.table import all_settings
from genrm_cli.storage.location import is_remote

Result = TypeVar("Result")

_FILE_PANELS = ("Input", "Output", "Storage", "Tracking", "Server")
_FILE_SETTINGS = frozenset(
    {setting.key for setting in all_settings() if setting.panel in _FILE_PANELS} - {"keep_replies"}
    | {"segment_calls", "unscored", "max_unscored"}
)


class Scorer(GroupScorer):
    """Compares the responses of groups and turns the verdicts into rewards; an asynchronous context
    manager.

        async with genrm.Scorer(base_url="http://localhost:8000/v1", model="judge") as scorer:
            result = await scorer.score("What is 2 + 2?", ["4", "5", "It is 4."])
        print(result.rewards)

    All groups share the judge's connections, limits, budget and journal. `deadline` starts when the
    scorer is opened. Equal requests are made once: without a journal, as long as their outcome is
    among the latest few thousand. A scorer belongs to the event loop that opened it; tasks of that
    loop may use it concurrently. A closed scorer can be opened again. A judge that is down is
    reported as a warning of the logger `genrm_cli`.

    Attributes:
        metrics: counts over all groups scored so far.
    """

    def __init__(
        self, *, api_key: str | None = None, calibration: Calibration | None = None, **settings: Any
    ) -> None:
        """Check the settings; open nothing.

        Args:
            api_key: API key of the judge; by default `GENRM_API_KEY`, else `OPENAI_API_KEY` of the
                environment.
            calibration: calibration of the judge, from `Scorer.calibration`; the default for the
                methods below.
            settings: settings by their name in a settings file: `base_url`, `model`, `estimator`,
                `journal`, ... None means the default. Settings files and other `GENRM_` variables
                are not read.

        Raises:
            UsageError: a setting is unknown, concerns files only, or has a wrong value; or there is
                no judge.
        """
        checked = _resolve(settings)
        super().__init__(
            checked,
            find_api_keys(checked, api_key=api_key),
            on_event=_warn,
            calibration=calibration,
        )
        self._opening = asyncio.Lock()

    async def open(self) -> Self:
        """Open the scorer unless it is open: for a reward function, which has no block that lasts
        as long as training.

        Raises:
            GenrmError: see `async with`.
        """
        async with self._opening:
            return self if self.is_open else await self.__aenter__()

    async def close(self) -> None:
        """Close what `open` opened."""
        await self.__aexit__(None, None, None)

    async def score(
        self,
        prompt: object,
        responses: Sequence[object],
        *,
        key: str | None = None,
        principle: str | None = None,
        reference: str | None = None,
        calibration: Calibration | None = None,
    ) -> GroupRewards:
        """Compare the responses to one prompt and return their rewards; like `score_group`.

        Args:
            prompt: see `Group.of`, also for `responses`, `key`, `principle` and `reference`.
            responses: n >= 0.
            key: name of the group.
            principle: the criterion to judge by.
            reference: the known answer.
            calibration: see `score_group`.

        Raises:
            InputError: the prompt or a response cannot be read.
        """
        group = Group.of(prompt, responses, key=key, principle=principle, reference=reference)
        return await self.score_group(group, calibration=calibration)


def score(prompt: object, responses: Sequence[object], **settings: Any) -> GroupRewards:
    """Compare the responses to one prompt and return their rewards; blocks until the judge has
    answered.

    Works in any thread. Inside a running event loop it blocks that loop; await `Scorer.score`
    there.

    Args:
        prompt: see `Group.of`.
        responses: see `Group.of`.
        settings: see `Scorer`; also `key`, `principle` and `reference` of this group.

    Raises:
        GenrmError: see `Scorer` and `Scorer.score`.
    """
    group = Group.of(
        prompt, responses, key=settings.pop("key", None), reference=settings.pop("reference", None)
    )
    return run_blocking(Scorer(**settings).score_once(group))


def run_blocking(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end: in a new event loop, which is another thread's inside a running
    one.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _run_in_thread(work)


def _warn(event: Event) -> None:
    """Log that a judge takes other requests, or is down: a call may then wait for
    `give_up_after`.
    """
    if isinstance(event, JUDGE_WARNINGS):
        logging.getLogger("genrm_cli").warning("%s", event.text())


def _resolve(given: Table) -> Settings:
    """Return the settings of a scorer from keywords."""
    if is_remote(str(given.get("journal", ""))):
        raise UsageError("Scorer: journal is an S3 location; expected a local path.")
    return settings_of("Scorer", given, _FILE_SETTINGS)


def _plain(value: Any) -> Any:
    """Return a value as a settings file would hold it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(value) if isinstance(value, tuple) else value


def settings_of(name: str, given: Table, unused: Collection[str]) -> Settings:
    """Return the settings from the keywords of a function of this name; `unused` have no effect."""
    values = {key: _plain(value) for key, value in given.items() if value is not None}
    for key in sorted(values.keys() & set(unused)):
        raise UsageError(f"{name}: the setting {key!r} has no effect here; remove it.")
    settings, _ = resolve_settings({}, {}, SettingsFile(name, values))
    return settings


def _run_in_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in an event loop of another thread; an interrupt of this thread cancels
    it.
    """
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Result]]] = []

    async def run() -> Result:
        task = asyncio.ensure_future(work)
        started.append((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(lambda: asyncio.run(run()))
        try:
            return running.result()
        except BaseException:
            for loop, task in started:
                with suppress(RuntimeError):  # the loop is closed: the work has ended
                    loop.call_soon_threadsafe(task.cancel)
            raise
