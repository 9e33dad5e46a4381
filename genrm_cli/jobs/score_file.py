"""Score one input: the same lines with rewards, and a summary of how far to trust them.

All outputs are opened before the input is read, so that one that cannot be written costs nothing,
and appear together at the end. The input is read twice, first to index it and then to write its
lines back; one that changed in between is refused.
"""

import dataclasses
import time
from collections.abc import Sequence
from contextlib import ExitStack

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import InputError, JudgeError
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.inputs import Task
from genrm_cli.jobs.due.refusals import refuse_input
from genrm_cli.jobs.index import InputIndex, Reject, index_input
from genrm_cli.jobs.journals import note_job, open_journal
from genrm_cli.jobs.judge_input import conclude, judge_input
from genrm_cli.jobs.stores import OutcomeStore, ScoreStore
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.opening.open_judges import OpenJudges
from genrm_cli.rollouts.formats import Format, Score
from genrm_cli.scored.describe_run import input_version, run_record, run_totals
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import FileRecord, RunRecord
from genrm_cli.storage.contract import Sink
from genrm_cli.storage.encoding.records import (
    Line,
    exact_record,
    parse_record,
    render_document,
    render_record,
)
from genrm_cli.storage.leases import Lease
from genrm_cli.storage.location import folder_of, is_remote, name_below
from genrm_cli.storage.outputs import Outputs
from genrm_cli.verdicts import FailureKind


async def score_task(
    task: Task, run: RunContext, judges: OpenJudges, lease: Lease | None, *, overwrite: bool
) -> RunRecord | None:
    """Score one input, write its outputs, all of them or none, and return its metrics.

    Return None, without outputs, if it waits for replies that a later run will have. Reading and
    writing run in threads, alongside the calls of other inputs. The lease is checked again before
    anything appears."""
    opened = ExitStack()
    metrics = run.metrics
    try:
        work = await run.in_thread(lambda: _read(task, run, opened, overwrite=overwrite))
        index = work.index
        outcomes = opened.enter_context(OutcomeStore())
        async with open_journal(task.places.journal_uri, run) as journal:
            note_job(journal, task.places.scored, [file.uri for file in task.files], run)
            if not await judge_input(index, task.uri, run, judges, journal, outcomes):
                return None
            await run.in_thread(lambda: conclude(index, run, outcomes, work.scores))
        # Rewards that are defaults only because the judge answered no call are no rewards.
        if (
            metrics.rewards_on_defaults
            and metrics.finished == metrics.failures
            and all(FailureKind(kind).is_transient for kind in metrics.failures_by_kind)
        ):
            kind, detail = next(iter(metrics.failure_examples.items()))
            raise JudgeError(
                f"the judge answered none of {metrics.failures} calls, so every reward would be a "
                f"default: {kind}: {detail}. Repair the judge, and run again."
            )
        return await run.in_thread(lambda: work.write(judges.specs, lease, journal))
    finally:
        await run.in_thread(opened.close)


async def ask_task(task: Task, run: RunContext, judges: OpenJudges) -> None:
    """Ask about the groups of a shard; verdicts and failures go to the journal, and no output is
    written.
    """
    with ExitStack() as opened:
        sources = opened.enter_context(task.sources(run))
        index = opened.enter_context(await run.in_thread(lambda: index_input(sources, run)))
        refuse_input(index, strict=run.settings.input.strict)
        # The run that concludes computes components that need no judge: a shard would pay for their
        # time, and drop the result.
        rewards = index.plan.rewards
        without = dataclasses.replace(rewards.settings, components=())
        index.plan = replace(index.plan, rewards=replace(rewards, settings=without))
        async with open_journal(task.places.journal_uri, run) as journal:
            note_job(journal, task.places.scored, [file.uri for file in task.files], run)
            outcomes = opened.enter_context(OutcomeStore())
            await judge_input(index, task.uri, run, judges, journal, outcomes)


class _InputWork(Struct, frozen=True):
    """One input in progress, with its open files; closing it discards outputs that have not
    appeared.
    """

    task: Task
    run: RunContext
    outputs: Outputs
    sinks: dict[str, Sink]
    index: InputIndex
    scores: ScoreStore
    started_s: float

    def write(
        self, judges: Sequence[JudgeSpec], lease: Lease | None, journal: Journal | None
    ) -> RunRecord:
        """Write every line with its rewards, and make all outputs appear."""
        run = self.run
        sources = self.index.sources
        files = [self._write_file(number) for number in range(len(sources.uris))]
        if "comparisons" in self.sinks:
            for block in self.scores.comparisons.iter_blocks():
                self.sinks["comparisons"].write(block)
        wall_time_s = time.monotonic() - self.started_s
        only_file = None if sources.are_many else files[0]
        metrics = run_record(
            run_totals(run.settings, run.metrics, self.index.plan, judges, wall_time_s),
            run.settings,
            input_=input_version(sources.identity) if only_file is None else only_file.input,
            output=self.task.places.scored,
            output_mark=None if only_file is None else only_file.output_mark,
            files=tuple(files) if only_file is None else None,
            journal=None if journal is None else journal.path,
            damaged_verdicts=0 if journal is None else len(journal.damaged),
        )
        if "metrics" in self.sinks:
            self.sinks["metrics"].write(render_document(to_json(metrics)))
        # As late as possible: a lease that was lost while the judge was asked costs only this run.
        if lease is not None:
            lease.verify()
        self.outputs.commit()
        return metrics

    def _write_file(self, number: int) -> FileRecord:
        """Write every line of a file that could be read, in input order, with its rewards."""
        sources = self.index.sources
        rows = self.index.table.file_rows(number)
        row = rows.start
        with sources.open(number) as source:
            uri = self.task.places.scored_files[number]
            mode = self.run.store.at(source.uri).mode()
            sink = self.sinks.get("scored") or self.outputs.open(uri, mode=mode)
            for line in source.iter_lines():
                first = row
                scores = []
                while row < rows.stop and self.index.table.line(row) == line.number:
                    scores.append(self.scores.read_score(row))
                    row += 1
                if scores:
                    self._write_line(line, self.index.format_of(first), scores, sink)
            source.verify_unchanged()
            sink.finish()
            name = uri
            if sources.are_many:
                name = name_below(folder_of(self.task.places.scored), uri)
            return FileRecord(
                input=input_version(source.identity), output=name, output_mark=sink.mark
            )

    def _write_line(self, line: Line, format_: Format, scores: list[Score], sink: Sink) -> None:
        """Write a line with its rewards, or leave it out, as the settings say of unscored ones."""
        settings = self.run.settings
        metrics = self.run.metrics
        unscored = settings.rewards.unscored
        if unscored == "drop" and all(score.reward is None for score in scores):
            metrics.dropped_lines += 1
            return
        if unscored not in ("null", "drop", "lowest"):
            scores = [
                Score(float(unscored), score.detail) if score.reward is None else score
                for score in scores
            ]
        parsed = parse_record(line.raw)
        if "scenario" in parsed:
            metrics.sessions.add(parsed, scores[0].reward)
        record = exact_record(line.raw, parsed)
        format_.annotate(record, scores)
        sink.write(render_record(record))


def _read(task: Task, run: RunContext, opened: ExitStack, *, overwrite: bool) -> _InputWork:
    started_s = time.monotonic()
    places = task.places
    sources = opened.enter_context(task.sources(run))
    outputs = opened.enter_context(
        Outputs(
            run.store,
            overwrite=overwrite,
            mark_uri=places.commit_mark,
            mode=sources.mode,
            are_missing=not overwrite and is_remote(places.scored),
        )
    )
    # They appear in this order. The metrics first: until the scored lines that they name appear,
    # no run takes the outputs for current. The scored lines last: a reader that waits for them
    # finds the others.
    named = {
        "metrics": places.metrics,
        "comparisons": places.comparisons,
        "rejects": places.rejects,
    }
    sinks = {name: outputs.open(uri) for name, uri in named.items() if uri is not None}
    if not sources.are_many:
        sinks["scored"] = outputs.open(places.scored)

    def reject(bad: Reject) -> None:
        if "rejects" in sinks:
            sinks["rejects"].write(render_record(bad.as_dict()))

    index = opened.enter_context(index_input(sources, run, reject))
    refuse_input(index, strict=run.settings.input.strict)
    if task.is_named and not len(index.table):
        raise InputError(
            f"{task.uri}: it contains no rollouts; `genrm formats` shows lines of each format."
        )
    # An empty rejects file is written only if it replaces an earlier one.
    has_rejects = run.metrics.rejected_lines or (
        overwrite and "rejects" in sinks and run.store.at(sinks["rejects"].uri).exists()
    )
    if "rejects" in sinks and not has_rejects:
        outputs.discard(sinks.pop("rejects"))
    scores = opened.enter_context(ScoreStore())
    return _InputWork(task, run, outputs, sinks, index, scores, started_s)
