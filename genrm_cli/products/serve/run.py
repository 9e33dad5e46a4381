"""Open the judges, serve, and close."""

import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from genrm_cli.errors import SettingRef, UsageError, naming
from genrm_cli.http_server.server import listen_on, run_server
from genrm_cli.metrics.event import OnEvent
from genrm_cli.products.serve.recorder import Recorder
from genrm_cli.products.serve.serve_app import build_app
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.products.serve.service import RewardService
from genrm_cli.products.serve.steps import LogStep, StepMetrics
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.resolve import state_folder
from genrm_cli.storage.location import is_remote


async def serve(
    settings: Settings,
    api_keys: Mapping[str, str],
    token: str | None,
    on_event: OnEvent,
    on_ready: Callable[[str], None],
    log_step: LogStep | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; `api_keys` are by name of the judge."""
    if settings.rewards.unscored not in ("null", "lowest"):
        more = naming(
            " is for the lines of a file; a server sends $on_failure where a trainer requires a "
            "number."
        )
        raise UsageError(SettingRef("unscored", settings.rewards.unscored), more)
    settings = _with_journal(settings)
    given = settings.serve
    with listen_on(given, has_token=token is not None) as listening:
        async with AsyncExitStack() as resources:
            scorer = await resources.enter_async_context(ServedScorer(settings, api_keys, on_event))
            service = RewardService(
                scorer,
                given,
                on_event,
                await _recorder(scorer, resources, on_event),
                _steps(scorer, resources, log_step),
            )
            app = build_app(service, given, token)
            await run_server(app, listening, given.read_timeout, on_ready, service.drain)


async def _recorder(
    scorer: ServedScorer, resources: AsyncExitStack, on_event: OnEvent
) -> Recorder | None:
    """Return what records the groups of a scorer, and completes its files at the end; None if the
    settings name no folder.
    """
    settings = scorer.settings
    if settings.serve.record is None:
        return None
    specs = scorer.open_judges.specs
    recorder = Recorder(settings.serve.record, settings, scorer.plan, specs, on_event)
    await recorder.complete_left()  # before the first request
    resources.push_async_callback(recorder.close)
    return recorder


def _steps(
    scorer: ServedScorer, resources: AsyncExitStack, log_step: LogStep | None
) -> StepMetrics | None:
    """Return the step tracker of a scorer; None without a reader."""
    if log_step is None and scorer.settings.serve.reference is None:
        return None
    steps = StepMetrics(scorer.settings, scorer, log_step)
    resources.callback(steps.end)
    return steps


def _with_journal(settings: Settings) -> Settings:
    """Return the settings with the journal of this address and user, unless they name one or want
    none.

    Without a judge that is asked, it holds the answers of cohorts.
    """
    given = settings.journal
    if given.journal is not None and is_remote(given.journal):
        raise UsageError(
            SettingRef("journal"), ": genrm serve keeps its journal on a local disk; name a file."
        )
    if not given.use_journal or given.journal is not None:
        return settings
    address = re.sub(r"[^\w.]+", "-", settings.serve.listen)
    return changed(settings, journal=str(state_folder() / f"serve-{address}.journal.sqlite"))
