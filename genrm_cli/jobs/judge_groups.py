"""Judge all groups of an input, a few at a time in memory."""

from collections.abc import AsyncIterator, Iterator, Sequence

from genrm_cli.groups.comparisons import Asked
from genrm_cli.groups.components import computes_locally
from genrm_cli.groups.group_case import GroupCase
from genrm_cli.groups.group_result import GroupResult
from genrm_cli.groups.judge_set import JudgeSet
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.cost import plan_of
from genrm_cli.jobs.index import read_group
from genrm_cli.jobs.outcome_store import OutcomeStore
from genrm_cli.jobs.score_store import ScoreStore
from genrm_cli.judging.engine import Asking, Judge, judge_all
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.requests import Outcome
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.rollouts.grouping import GroupTable
from genrm_cli.storage.source import Source

SHOWN_GROUPS = 4
Ticket = tuple[GroupCase, Asked]


async def judge_groups(
    source: Source, table: GroupTable, run: RunContext, book: ScoreStore, desk: JudgeSet, journal: Journal | None
) -> None:
    """Judge all groups and enter what became of them in the book.

    Args:
        source: the input, to read the groups' texts from.
        table: which rollouts form which group.
        run: settings, tally and events.
        book: gets scores and comparisons.
        desk: the judges.
        journal: what is known already; None to keep none.

    Raises:
        JudgeError: the judge cannot be used, or has been down for too long.
        StorageError: the journal cannot be written.
    """

    judges = desk.judges_with(journal, run.settings)
    with OutcomeStore() as ledger:

        def finish(case: GroupCase) -> None:
            ledger.keep(case)
            run.tally.groups_done += 1

        async def iter_askings() -> AsyncIterator[Asking[Ticket]]:
            for case in _iter_cases(source, table, run):
                if computes_locally(run.settings):
                    await run.in_thread(case.compute_local)
                if not case.planned:
                    finish(case)
                for asking in _askings_of(case, judges):
                    yield asking

        def on_outcome(ticket: Ticket, outcome: Outcome) -> None:
            case, asked = ticket
            run.tally.add_outcome(outcome)
            if case.add_outcome(asked, outcome):
                finish(case)

        if desk.is_remote:
            desk.show_in(run.tally)
            await run.in_thread(lambda: take_stock(source, table, run, judges, journal))
            if not run.settings.only_components:
                run.on_event("plan", {"input": source.uri, **plan_of(run.tally, run.settings, journal)})
            if run.tally.planned > run.tally.known:
                await desk.probe(run)
        await judge_all(iter_askings(), on_outcome)
        _correct_plan(run.tally, run.tally.finished)
        run.tally.stopped_by = desk.what_cut_short(run.tally)
        await run.in_thread(lambda: _conclude_all(source, table, run, book, ledger))


def _conclude_all(source: Source, table: GroupTable, run: RunContext, book: ScoreStore, ledger: OutcomeStore) -> None:
    """Turn the verdicts of each group into rewards, now that all of them say what the judge is like."""
    fit = ledger.statistics().fit()
    run.tally.weights_fitted = fit.weights is not None
    for case in _iter_cases(source, table, run):
        ledger.restore(case)
        conclusion = GroupResult(case, fit)
        conclusion.count(run.tally)
        records = case.comparison_records(run.settings.keep_replies)
        book.enter(case.number, case.rows, conclusion.scores, records)
        if case.number < SHOWN_GROUPS:
            book.keep_sample(case.number, conclusion.samples())


def _iter_cases(source: Source, table: GroupTable, run: RunContext) -> Iterator[GroupCase]:
    for number, rows in enumerate(table.iter_groups()):
        texts = read_group(source, table, rows, run.settings)
        yield GroupCase(number, rows, texts, table.prompts_differ(rows), run.settings)


def _askings_of(case: GroupCase, judges: Sequence[Judge]) -> Iterator[Asking[Ticket]]:
    for asked, shown in case.iter_questions():
        yield Asking((case, asked), judges[asked.seat], shown, asked.judge_idx)


def take_stock(
    source: Source, table: GroupTable, run: RunContext, judges: Sequence[Judge], journal: Journal | None
) -> None:
    """Count the questions whose answers the journal holds, and all there are; reads the groups only if it holds any."""
    if journal is None or not journal.has_verdicts:
        return
    planned = known = 0
    for case in _iter_cases(source, table, run):
        for _, judge, shown, judge_idx in _askings_of(case, judges):
            planned += 1
            known += judge.prepare(shown, judge_idx).key in journal
    run.tally.known = known
    _correct_plan(run.tally, planned)


def _correct_plan(tally: RunMetrics, planned: int) -> None:
    """Take the number of questions for the plan's: rubrics do not ask about responses without text."""
    tally.planned_calls -= tally.planned - planned  # each of them one call
    tally.planned = planned
