"""Decide what to do with each input, before anything is done."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import (
    FigureError,
    GenrmError,
    Message,
    StoppedError,
    TooManyUnscoredError,
    UsageError,
    naming,
)
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.inputs import Task, iter_tasks
from genrm_cli.jobs.due.output_state import (
    Identities,
    OutputStanding,
    finish_outputs,
    read_output_state,
)
from genrm_cli.jobs.due.refusals import refuse_unscored_share
from genrm_cli.jobs.estimate import RunEstimate
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.storage.location import is_remote

LISTED_AT_ONCE = 256  # inputs; a page of a listing on S3 has up to 1,000
DEFAULT_MIN_AGE_S = 60.0  # on S3, in unattended runs
_THREADS = 32  # each waits for a store, which keeps 64 connections
_NO_REASON = Message(())


class Status(StrEnum):
    """The result of an input; in a dry run, the planned action."""

    SCORE = "to score"
    SCORED = "scored"
    ASKED = "asked"  # groups of a shard are asked about; another run concludes
    CURRENT = "up to date"
    SKIPPED = "skipped"  # left to the next run
    FAILED = "failed"


class Decision(Struct, frozen=True):
    """The decision about an input, and later its result.

    Attributes:
        error: the error that occurred; also set if too many rollouts stayed unscored.
        identities: the versions of its files that were found.
        replaces: whether outputs exist that may be replaced.
        record: of its outputs, if they are current or made by this run.
        plan: estimated cost of scoring it; dry runs only.
    """

    task: Task
    status: Status = Status.SCORE
    reason: Message = _NO_REASON
    error: GenrmError | None = None
    identities: Identities = ()
    replaces: bool = False
    record: RunRecord | None = None
    plan: RunEstimate | None = None
    wall_time_s: float = 0.0

    @property
    def uri(self) -> str:
        """The input, or the name of a set of files."""
        return self.task.uri

    @property
    def output(self) -> str:
        """Output path; for a set, its folder."""
        return self.task.places.shown

    @property
    def exit_code(self) -> int:
        """The exit code of a run over this input alone."""
        return 0 if self.error is None else self.error.exit_code

    def skipped(self, reason: str | Message, error: GenrmError | None = None) -> "Decision":
        """Leave the input to the next run."""
        return replace(self, status=Status.SKIPPED, reason=Message.of(reason), error=error)

    def failed(self, error: GenrmError) -> "Decision":
        """Record that the input failed."""
        return replace(self, status=Status.FAILED, reason=error.message, error=error)

    def put_off(self, error: GenrmError) -> "Decision":
        """Leave the input to the next run. An input that the user named fails instead: no later run
        looks for it.
        """
        return self.failed(error) if self.task.is_named else self.skipped(error.message)

    def checked(self, check: Callable[[], None]) -> "Decision":
        """Return the result with the error that a check of its outputs raises."""
        try:
            check()
        except (FigureError, TooManyUnscoredError) as error:
            return replace(self, reason=Message.of(self.reason, "; ", error.message), error=error)
        return self

    def text(self) -> Message:
        """Return the result in one line."""
        if self.status is Status.FAILED:
            return Message.of(f"{self.status}: ", self.reason)
        is_written = self.status in (Status.SCORE, Status.SCORED)
        files = f" ({len(self.task.files):,} files)" if self.task.members else ""
        target = f" -> {self.output}" if is_written else ""
        code = f" (exit {self.exit_code})" if self.exit_code else ""
        return Message.of(f"{self.status}: {self.uri}{files}{target}: ", self.reason, code)

    def as_dict(self) -> dict[str, Any]:
        """Return the result, JSON-ready except for the reason, in which each surface renders its
        own setting names.
        """
        return {
            "input": self.uri,
            "output": self.output,
            "status": self.status.value,
            "reason": self.reason,
            "error": None if self.error is None else str(self.error),
            "exit_code": self.exit_code,
            "wall_time_s": round(self.wall_time_s, 3),
            **({"files": len(self.task.files)} if self.task.members else {}),
            **({} if self.plan is None else {"plan": self.plan.as_dict()}),
        }


def iter_decisions(inputs: Sequence[str], run: RunContext) -> Iterator[Decision]:
    """Yield what to do with each input, in the order of the listing; blocks on storage."""
    tasks = iter_tasks(inputs, run.settings, run.on_event)
    with ThreadPoolExecutor(_THREADS) as threads:
        while chunk := list(islice(tasks, LISTED_AT_ONCE)):
            yield from threads.map(lambda task: _decide(task, run), chunk)


def _decide(task: Task, run: RunContext) -> Decision:
    if run.stop.is_set():
        raise StoppedError
    decision = Decision(task)
    if task.problem is not None:
        return decision.failed(task.problem)
    try:
        # A listing names the versions, which saves a request a file.
        identities = [
            each.found.identity if each.found else run.store.at(each.uri).identify()
            for each in task.files
        ]
        return _decide_by(replace(decision, identities=identities), run, task.beside)
    except GenrmError as error:
        return decision.failed(error)


def decide_again(
    decision: Decision, run: RunContext, beside: Collection[str] | None = None
) -> Decision:
    """Finish the commit of a killed run, and decide again: another run or the writer may have gone
    on. `beside` is what the lease found beside it.
    """
    identities = []
    try:
        for file, known in zip(decision.task.files, decision.identities, strict=True):
            of_set = f"{file.uri}: " if decision.task.members else ""
            if is_remote(file.uri):
                # Reading compares it with the version that was listed, which saves a request.
                identities.append(known)
                continue
            # Only listed files: of one that the user named, reading it says what is wrong.
            if file.found is not None and not run.store.at(file.uri).exists():
                return decision.skipped(f"{of_set}gone since it was listed")
            identities.append(run.store.at(file.uri).identify())
            if file.found is not None and identities[-1] != file.found.identity:
                return decision.skipped(
                    f"{of_set}changed since it was listed: perhaps still written"
                )
        finish_outputs(decision.task.places, run.store)
        return _decide_by(replace(decision, identities=identities), run, beside)
    except GenrmError as error:
        return decision.failed(error)


def _decide_by(decision: Decision, run: RunContext, beside: Collection[str] | None) -> Decision:
    task = decision.task
    settings = run.settings
    found = read_output_state(task.places, decision.identities, settings, run.store, beside)
    decision = replace(
        decision,
        reason=Message.of(found.reason),
        replaces=found.standing is not OutputStanding.NEW,
    )
    if found.standing is OutputStanding.CURRENT and (record := found.metrics) is not None:
        current = replace(decision, status=Status.CURRENT, record=record)
        return current.checked(lambda: refuse_unscored_share(record, settings))
    if found.standing is OutputStanding.FOREIGN and not settings.output.force:
        if task.members:
            what = f"the outputs of the set {task.uri} exist"
            remedy = "; use $force to replace them, or choose others."
        else:
            what = f"{task.places.scored} exists"
            remedy = "; use $force to replace it, or choose another output."
        return decision.failed(UsageError(f"{what}, but ", found.reason, naming(remedy)))
    min_age_s = settings.input.min_age
    if min_age_s is None:
        # A local file is cheap to read again; a prefix is usually filled by another machine.
        min_age_s = DEFAULT_MIN_AGE_S if is_remote(task.files[0].uri) else 0.0
    age_s = min(
        (file.found.age_s for file in task.files if file.found is not None), default=min_age_s
    )
    if age_s < min_age_s:
        newest = "one of its files is " if task.members else ""
        too_new = (
            f"{newest}too new, {age_s:.0f} s old: it may be incomplete; run again in "
            f"{min_age_s - age_s:.0f} s, or use "
        )
        return decision.skipped(Message.of(too_new, naming("$min_age to score it now", min_age=0)))
    return decision
