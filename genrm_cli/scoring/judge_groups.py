"""Judge all groups of an input, a few at a time in memory."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator

from genrm_cli.judging.engine import Judge, judge_all
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.verdict import Exhibit, Outcome
from genrm_cli.pairing import Comparison
from genrm_cli.rollouts.grouping import GroupTable
from genrm_cli.scoring.book import ScoreBook
from genrm_cli.scoring.context import Run
from genrm_cli.scoring.estimate import plan_of
from genrm_cli.scoring.group import GroupCase
from genrm_cli.scoring.judges import GRACE_S, open_judge
from genrm_cli.scoring.survey import read_group
from genrm_cli.storage.source import Source

SHOWN_GROUPS = 4
Asking = tuple[tuple[GroupCase, Comparison], Exhibit, int]


async def judge_groups(
    source: Source, table: GroupTable, run: Run, book: ScoreBook, journal: Journal | None, started_s: float
) -> None:
    """Judge all groups and enter what became of them in the book.

    Args:
        source: the input, to read the groups' texts from.
        table: which rollouts form which group.
        run: settings, tally and events.
        book: gets scores and comparisons.
        journal: what is known already; None to keep none.
        started_s: when the run began, by the monotonic clock; its deadline counts from there.

    Raises:
        JudgeError: the judge cannot be used, or has been down for too long.
        StorageError: the journal cannot be written.
    """

    def conclude(case: GroupCase) -> None:
        scores = case.conclude(run.tally)
        book.enter(case.number, case.rows, scores, case.comparison_records(run.settings.keep_replies))
        if case.number < SHOWN_GROUPS:
            book.keep_sample(case.number, case.samples(scores))

    def iter_askings() -> Iterator[Asking]:
        for case in _iter_cases(source, table, run):
            if not case.planned:
                conclude(case)
            yield from _askings_of(case)

    def on_outcome(ticket: tuple[GroupCase, Comparison], outcome: Outcome) -> None:
        case, comparison = ticket
        run.tally.add_outcome(outcome)
        if case.add_outcome(comparison, outcome):
            conclude(case)

    async with open_judge(run, journal) as desk:
        if desk.remote is not None:
            run.tally.known = count_known(source, table, run, desk.judge, journal)
            run.on_event("plan", plan_of(run.tally, run.settings, journal))
            if run.settings.deadline is not None:
                desk.remote.set_deadline(run.settings.deadline - (time.monotonic() - started_s), GRACE_S)
        async with _cancelled_by_sigterm():  # not above: what does not wait ends at once by itself
            if run.tally.planned > run.tally.known:
                await desk.probe(run)
            await judge_all(iter_askings(), desk.judge, on_outcome)


def _iter_cases(source: Source, table: GroupTable, run: Run) -> Iterator[GroupCase]:
    for number, rows in enumerate(table.iter_groups()):
        key, rollouts = read_group(source, table, rows, run.settings)
        yield GroupCase(number, rows, key, rollouts, table.prompts_differ(rows), run.settings)


def _askings_of(case: GroupCase) -> Iterator[Asking]:
    for comparison, exhibit in case.iter_comparisons():
        yield (case, comparison), exhibit, comparison.judge_idx


def count_known(source: Source, table: GroupTable, run: Run, judge: Judge, journal: Journal | None) -> int:
    """Count the planned comparisons whose verdicts the journal holds; reads all groups only if it holds any."""
    if journal is None or not len(journal):
        return 0
    known = 0
    for case in _iter_cases(source, table, run):
        for _, exhibit, judge_idx in _askings_of(case):
            known += judge.prepare(exhibit, judge_idx).key in journal
    return known


@contextlib.asynccontextmanager
async def _cancelled_by_sigterm() -> AsyncIterator[None]:
    """Let SIGTERM (cron's timeout, a spot instance's end) cancel the run like Ctrl-C: what is answered is kept."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGTERM)
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        # The loop would leave the system's handler, which ends a process that writes its outputs half-way.
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
