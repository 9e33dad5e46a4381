"""Score one input: the same lines with rewards, and a summary of how far to trust them."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from genrm_cli.errors import InputError, TooManyUnscoredError
from genrm_cli.groups.judge_set import JudgeSet
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.index import Reject, dialect_of, index_input, iter_duplicates, plan_within_budget
from genrm_cli.jobs.inputs import Task
from genrm_cli.jobs.journals import open_journal
from genrm_cli.jobs.judge_groups import judge_groups
from genrm_cli.jobs.provenance import metrics_of, provenance_of
from genrm_cli.jobs.score_store import ScoreStore
from genrm_cli.judging.journal import Journal
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing import RING_STRATEGIES
from genrm_cli.rollouts.dialects import Score
from genrm_cli.rollouts.grouping import GroupTable
from genrm_cli.settings import Settings
from genrm_cli.storage.formats.lines import Line
from genrm_cli.storage.formats.records import parse_record_exactly, render_document, render_record
from genrm_cli.storage.leases import Lease
from genrm_cli.storage.sink import Outputs, Sink
from genrm_cli.storage.source import Source, open_source

_NAMED_PROBLEMS = 3


@dataclass(frozen=True, slots=True)
class Report:
    """What a finished run says of itself.

    Attributes:
        metrics: the object that is written beside the output.
        samples: rewards of the first groups with the beginnings of their answers, for a person to look at.
    """

    metrics: dict[str, Any]
    samples: list[dict[str, Any]]


async def score_task(task: Task, run: RunContext, desk: JudgeSet, claim: Lease | None, *, overwrite: bool) -> Report:
    """Score one input and write its outputs, all of them or none.

    Reading and writing are done in threads, beside the calls of other inputs.

    Args:
        task: the input and its output places.
        run: settings, events, and a tally of this input's own.
        desk: the judge.
        claim: on the output; looked at once more before anything appears.
        overwrite: whether outputs that exist may be replaced.

    Raises:
        GenrmError: its subclasses say what went wrong; no output has appeared then.
    """
    work = _Work(task, run, overwrite=overwrite)
    try:
        await run.in_thread(work.read)
        async with open_journal(task.places.scored, run) as journal:
            planned = replace(run, settings=plan_within_budget(work.table, run.settings))
            await judge_groups(work.source, work.table, planned, work.book, desk, journal)
        return await run.in_thread(lambda: work.write(claim, journal))
    finally:
        await run.in_thread(work.close)


class _Work:
    """One input on its way: what is open, and the two halves that block."""

    def __init__(self, task: Task, run: RunContext, *, overwrite: bool) -> None:
        self.source: Source
        self.table: GroupTable
        self._task = task
        self._run = run
        self._overwrite = overwrite
        self._opened = ExitStack()
        self.book = self._opened.enter_context(ScoreStore())
        self._outputs: Outputs
        self._sinks: dict[str, Sink] = {}
        self._started_s = time.monotonic()

    def read(self) -> None:
        """Open everything and read the input once."""
        run, settings, places = self._run, self._run.settings, self._task.places
        source = open_source(self._task.uri, run.s3, settings.max_line_bytes, run.stop.is_set)
        self.source = self._opened.enter_context(source)
        provenance = provenance_of(source.identity, settings)
        self._outputs = self._opened.enter_context(Outputs(run.s3, overwrite=self._overwrite, provenance=provenance))
        for name in ("scored", "comparisons", "rejects", "metrics"):  # the metrics last: they vouch for the others
            if (uri := getattr(places, name)) is not None:
                self._sinks[name] = self._outputs.open(uri)
        self.table = index_input(source, settings, run.tally, self._reject)
        _refuse_unreadable(source, settings, run.tally)
        if settings.strict:
            refuse_problems(source, self.table, settings, run.tally)
        self.book.prepare(len(self.table))

    def write(self, claim: Lease | None, journal: Journal | None) -> Report:
        """Write every line with its rewards, and make all outputs appear."""
        run, tally = self._run, self._run.tally
        _write_scored_lines(self.source, self.table, run.settings, tally, self.book, self._sinks["scored"])
        for block in self.book.iter_comparison_blocks():
            _write(self._sinks.get("comparisons"), block)
        self.source.verify_unchanged()
        scored = self._sinks["scored"]
        scored.finish()
        wall_time_s = time.monotonic() - self._started_s
        metrics = metrics_of(self.source.identity, self._task.places.scored, scored.mark, run, wall_time_s)
        metrics["journal"] = None if journal is None else journal.path
        planned = plan_within_budget(self.table, run.settings)
        metrics |= {"strategy": planned.strategy, "estimator": planned.estimator}
        metrics["ring_k"] = planned.ring_k if planned.strategy in RING_STRATEGIES else None
        _write(self._sinks.get("metrics"), render_document(metrics))
        if claim is not None:
            claim.verify()
        self._outputs.commit()
        return Report(metrics, self.book.samples())

    def close(self) -> None:
        """Let go of everything; what has not appeared never will."""
        self._opened.close()

    def _reject(self, reject: Reject) -> None:
        _write_record(self._sinks.get("rejects"), reject.as_dict())


def refuse_unscored(tally: RunMetrics, settings: Settings) -> None:
    """Refuse a finished run of which too much stayed unscored.

    Raises:
        TooManyUnscoredError: it was stopped before its end, or more than `max_unscored` of the rollouts in groups of
            two and more have no reward.
    """
    if tally.stopped_by == "only_components":
        raise TooManyUnscoredError(
            f"the journal lacks {tally.failures['not_asked']} answers, and --only-components asks for none: the "
            "outputs are partial. Leave it out to ask for what is missing."
        )
    if tally.stopped_by is not None:
        raise TooManyUnscoredError(
            f"the run was stopped by --{tally.stopped_by.replace('_', '-')}: the outputs are partial, "
            f"{tally.failures['not_asked']} comparisons were not asked. Run the same command again: "
            "verdicts that a journal keeps are not asked again."
        )
    if tally.unscored_share() > settings.max_unscored:
        reasons = "; ".join(f"{count} × {reason}" for reason, count in tally.reasons.most_common())
        raise TooManyUnscoredError(
            f"{tally.unscored_in_groups} of {tally.rollouts_in_groups} rollouts in groups stayed unscored, "
            f"more than --max-unscored {settings.max_unscored:g} allows: {reasons}."
        )


def refuse_problems(source: Source, table: GroupTable, settings: Settings, tally: RunMetrics) -> None:
    """Refuse an input with bad lines or rollouts that are there twice, naming the first few.

    Raises:
        InputError: there are some.
    """
    problems = []
    if tally.rejects:
        problems.append(f"{tally.rejects} bad lines ({_first_rejects(source, settings)})")
    if tally.duplicates:
        lines = [f"line {place.line}" for place in iter_duplicates(table)]
        problems.append(f"{tally.duplicates} rollouts are there twice ({', '.join(lines[:_NAMED_PROBLEMS])})")
    if problems:
        raise InputError(
            f"{source.uri}: --strict refuses {' and '.join(problems)}. Mend them, or leave --strict out: "
            "bad lines then go to the rejects, and the rest is scored."
        )


def _refuse_unreadable(source: Source, settings: Settings, tally: RunMetrics) -> None:
    """Refuse an input of which no line can be read: most likely it is not what it was taken for.

    Raises:
        InputError: there are lines, and all of them are bad.
    """
    if tally.rollouts or not tally.lines:
        return
    start = next(source.iter_lines()).raw
    hint = next((hint for mark, hint in _LOOKS_LIKE.items() if start.startswith(mark)), "")
    raise InputError(
        f"{source.uri}: none of its {tally.lines} lines can be scored ({_first_rejects(source, settings)}). {hint}"
        "`genrm validate` shows more."
    )


_LOOKS_LIKE = {
    b"\x1f\x8b": "It looks compressed with gzip: name it .gz. ",
    b"\x28\xb5\x2f\xfd": "It looks compressed with zstandard: name it .zst. ",
    b"\xff\xfe": "It looks like UTF-16: convert it to UTF-8. ",
    b"[": "It looks like one JSON array: write its items as lines. ",
}


def _first_rejects(source: Source, settings: Settings) -> str:
    first: list[Reject] = []
    index_input(source, settings, RunMetrics(), first.append)
    return "; ".join(f"line {reject.line}: {reject.reason}" for reject in first[:_NAMED_PROBLEMS])


def _write_scored_lines(
    source: Source, table: GroupTable, settings: Settings, tally: RunMetrics, book: ScoreStore, sink: Sink
) -> None:
    """Write every line that could be read, in input order, with its rewards."""
    row = 0
    for line in source.iter_lines():
        scores = []
        while row < len(table) and table.place(row).line == line.number:
            scores.append(book.read_score(row))
            row += 1
        if not scores:
            continue
        if settings.unscored == "drop" and all(score.reward is None for score in scores):
            tally.lines_dropped += 1
            continue
        _write_record(sink, _annotated(line, scores, settings))


def _annotated(line: Line, scores: list[Score], settings: Settings) -> dict[str, Any]:
    if settings.unscored not in ("null", "drop"):
        given = float(settings.unscored)
        scores = [score if score.reward is not None else Score(given, score.detail) for score in scores]
    record = parse_record_exactly(line.raw)
    dialect_of(record, settings).annotate(record, scores)
    return record


def _write(sink: Sink | None, data: bytes) -> None:
    if sink is not None:
        sink.write(data)


def _write_record(sink: Sink | None, record: dict[str, Any]) -> None:
    _write(sink, render_record(record))
