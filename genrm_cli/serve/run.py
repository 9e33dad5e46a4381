"""Open the judges, serve, and close."""

import re
from collections.abc import Callable, Mapping

from genrm_cli.errors import SettingRef, UsageError, naming
from genrm_cli.http_server.server import listen_on, run_server
from genrm_cli.metrics.event import OnEvent
from genrm_cli.serve.recorder import Recorder
from genrm_cli.serve.serve_app import build_app
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.service import RewardService
from genrm_cli.serve.steps import JudgeWatch, LogStep, StepMetrics
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
    open_watch: Callable[[], JudgeWatch] | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    if settings.rewards.unscored not in ("null", "lowest"):
        more = naming(
            " is for the lines of a file; a server sends $on_failure where a trainer requires a "
            "number."
        )
        raise UsageError(SettingRef("unscored", settings.rewards.unscored), more)
    settings = _with_journal(settings)
    scorer = ServedScorer(settings, api_keys, on_event)
    with listen_on(settings.serve, has_token=token is not None) as listening:
        async with scorer:
            recorder = steps = None
            if settings.serve.record is not None:
                recorder = Recorder(
                    settings.serve.record, settings, scorer.plan, scorer.open_judges.specs, on_event
                )
            watch = None if open_watch is None else open_watch()
            if log_step or watch is not None or settings.serve.reference is not None:
                steps = StepMetrics(settings, scorer, log_step, watch)
            service = RewardService(scorer, settings.serve, on_event, recorder, steps)
            if recorder is not None:  # before the first request
                await recorder.complete_left()
            app = build_app(service, scorer, settings.serve, token)
            await run_server(app, listening, settings.serve.read_timeout, on_ready, service.drain)
            if steps is not None:
                steps.end()
            if watch is not None:
                await watch.close()
            if recorder is not None:
                await recorder.close()


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
