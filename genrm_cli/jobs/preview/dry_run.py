"""Say what a run would do with each input, and what it would cost, without doing it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from genrm_cli.errors import GenrmError
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.planning import Decision, FileResult, Status, plan_inputs
from genrm_cli.jobs.index import FirstRejects, index_input
from genrm_cli.jobs.preview.estimate import estimate_run
from genrm_cli.jobs.score_file import refuse_unreadable
from genrm_cli.metrics.run_metrics import RunMetrics


def iter_dry_run(inputs: Sequence[str], run: RunContext) -> Iterator[FileResult]:
    """Yield what a run would do with each input; those to be scored are read, and have a plan.

    Raises:
        UsageError: the inputs and settings contradict each other.
    """
    for decision in plan_inputs(inputs, run):
        is_due = decision.status is Status.SCORE
        yield _planned(decision, replace(run, metrics=RunMetrics())) if is_due else decision.result()


def _planned(decision: Decision, run: RunContext) -> FileResult:
    result = decision.result()
    first = FirstRejects()
    try:
        with (
            decision.task.sources(run) as sources,
            index_input(sources, run, first) as index,
        ):
            refuse_unreadable(index, first)
            return replace(result, plan=estimate_run(index, run, decision.task.places.scored))
    except GenrmError as error:
        reason = str(error).removeprefix(f"{result.uri}: ")
        return replace(result, status=Status.FAILED, reason=reason, error=error)
