"""Score inputs on a Ray cluster: workers ask about shards, and this process writes the outputs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from genrm_cli.errors import UsageError, naming, worst_exit_code
from genrm_cli.groups.check import asks_nothing, check_settings
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.decisions import Status, iter_decisions
from genrm_cli.jobs.input_batch import BatchReport, score_inputs
from genrm_cli.jobs.journals import check_journal_place, has_remote_judge
from genrm_cli.judging.opening.open_judges import open_judges
from genrm_cli.products.cluster.fleet import Fleet
from genrm_cli.products.cluster.start import check_address, cluster
from genrm_cli.products.cluster.worker import Order
from genrm_cli.settings import Settings, changed
from genrm_cli.storage.location import is_remote, is_stream
from genrm_cli.tasks import in_thread


async def score_on_cluster(
    inputs: Sequence[str],
    run: RunContext,
    report: BatchReport,
    *,
    address: str,
    workers: int | None,
) -> BatchReport:
    """Ask about all groups on a cluster, then conclude in this process.

    Args:
        workers: None for one on each node.

    Raises:
        GenrmError: see `score_inputs`; also if the cluster cannot be used.
        CancelledError: the run was interrupted, by SIGTERM too.
    """
    _check(inputs, run.settings)
    await in_thread(lambda: check_address(address))
    fleet = None
    async with cancelled_by_signals():
        decisions = await run.in_thread(lambda: list(iter_decisions(inputs, run)))
        if any(each.status is Status.SCORE for each in decisions):
            contexts = await _settle_judges(run)
            folder = _shared_folder(inputs, run.settings)
            order = Order(run.settings, tuple(inputs), folder, contexts)
            with cluster(address) as nodes:
                fleet = Fleet(order, run, nodes, workers or len(nodes))
                await fleet.ask()
    concluding = replace(
        run,
        settings=changed(run.settings, conclude=True),
        shards_stopped_by=None if fleet is None else fleet.stopped_by,
    )
    await score_inputs(inputs, concluding, report)
    if fleet is not None:
        report.exit_code = worst_exit_code([report.exit_code, *fleet.exit_codes])
    return report


def _check(inputs: Sequence[str], settings: Settings) -> None:
    """Refuse runs that cannot be distributed."""
    check_settings(settings)
    check_journal_place(settings)
    if asks_nothing(settings) or not has_remote_judge(settings):
        raise UsageError(naming("$ray distributes the calls of a judge, but this run makes none."))
    if any(map(is_stream, inputs)):
        raise UsageError(naming("$ray makes shards of files: pass files or s3://... instead of -."))


def _shared_folder(inputs: Sequence[str], settings: Settings) -> str | None:
    """Return the folder that relative paths refer to on all nodes; None if no path is local."""
    # Without a name, the journal is on this machine.
    paths = [*inputs, settings.journal.journal or "", settings.output.output or "s3://"]
    return None if all(map(is_remote, paths)) else str(Path.cwd())


async def _settle_judges(run: RunContext) -> tuple[int, ...]:
    """Probe the judges once, for all workers; return their contexts."""
    async with open_judges(run.judge_specs(), run.open_options, run.on_event) as judges:
        await judges.probe(finds_profile=False)
        return tuple(spec.max_model_len or 0 for spec in judges.specs)
