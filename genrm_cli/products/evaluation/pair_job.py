"""The file job that asks about labelled pairs, and its comparisons as outcomes of pairs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from genrm_cli.errors import InputError
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.line_records import ComparisonRecord
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.inputs import OutputPlaces, Task
from genrm_cli.jobs.judging_session import PlanEvent
from genrm_cli.metrics.event import Event
from genrm_cli.pairing.lists import ListPlan, RolloutList
from genrm_cli.products.evaluation.labelled_pairs import ID_FIELD, LABELLED_FIELD, Case
from genrm_cli.scored.files import ScoredInput
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.settings import changed
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict

_LEFT_OUT = Failure(FailureKind.NO_VERDICT, "the judge left one of both responses out of its list")
# An escaped text is up to three times as long in the other encoding, and has the line beside it.
_LONGER = 8


@dataclass(frozen=True, slots=True)
class ListsInBothOrders(ListPlan):
    """Every second list is the reverse of the one before, so that both show each pair, in another
    order.
    """

    def iter_lists(self, n: int, key: str = "") -> Iterator[RolloutList]:
        """Yield the lists of n comparable rollouts; none if n < 2."""
        forward = ListPlan(self.list_size, self.repeats // 2, self.seed)
        for shown, repeat in forward.iter_lists(n, key):
            yield RolloutList(shown, 2 * repeat)
            yield RolloutList(shown[::-1], 2 * repeat + 1)


def job_of(run: RunContext) -> RunContext:
    """Return the run of the file job: all pairs in both orders, and nothing is asked again."""
    given = run.settings.input
    below = {
        name: f"{LABELLED_FIELD}.{path}"
        for name in ("reference_field", "rubric_field")
        if (path := getattr(given, name)) is not None
    }
    settings = changed(
        run.settings,
        together=False,
        format=None,
        response_field="response",
        prompt_field="prompt",
        id_field=ID_FIELD,
        group_by=ID_FIELD,
        ignore_fields=LABELLED_FIELD,
        require_metadata=(),
        max_line_bytes=_LONGER * given.max_line_bytes,
        strategy="all_pairs",
        max_extra=0.0,
        keep_replies=False,
        **below,
    )
    plan = compile_plan(settings)
    size = plan.lists.list_size
    lists = ListsInBothOrders(size, 2 * plan.pairing.repeats, plan.lists.seed)
    plan = replace(plan, lists=lists, pairing=replace(plan.pairing, both_orders=True))

    def on_event(event: Event) -> None:
        # The file of the job is nobody's input.
        run.on_event(replace(event, input=None) if isinstance(event, PlanEvent) else event)

    return replace(run, settings=settings, plan=plan, on_event=on_event)


def task_in(folder: str, journal_for: str) -> Task:
    """Return the input of the file job in a folder, with the journal of an output."""
    below = Path(folder)
    places = OutputPlaces(
        scored=str(below / "pairs.scored.jsonl"),
        comparisons=str(below / "pairs.comparisons.jsonl"),
        journal_for=journal_for,
    )
    return Task(str(below / "pairs.jsonl"), places)


@contextmanager
def naming_pairs(task: Task, pairs_uri: str) -> Iterator[None]:
    """Let an error about the file of the job name the labelled pairs instead."""
    try:
        yield
    except InputError as error:
        parts = (
            part.replace(task.uri, pairs_uri) if isinstance(part, str) else part
            for part in error.message.parts
        )
        raise InputError(*parts) from error


def keep_outcomes(task: Task, cases: Sequence[Case], run: RunContext) -> None:
    """Give each pair the outcomes of the comparisons that show it; blocks."""
    by_key: dict[str, list[Case]] = {}
    for case in cases:
        by_key.setdefault(case.asked, []).append(case)
    judges = {judge.name: number for number, judge in enumerate(run.plan.judges)}
    scored = ScoredInput(task.places.scored, task.places.scored_files)
    with ScoredRun(
        scored, run.settings, kept_of=lambda record: {ID_FIELD: record[ID_FIELD]}
    ) as groups:
        groups.read(run.store)
        for group in groups.iter_groups():
            records = sorted(group.comparisons, key=lambda record: record.judge_idx)
            for number, case in enumerate(by_key[group.members[0].record[ID_FIELD]]):
                _keep(case, records, judges, is_paid=number == 0)


def _keep(
    case: Case, records: Sequence[ComparisonRecord], judges: Mapping[str, int], *, is_paid: bool
) -> None:
    for record in records:
        found = outcome_for(*case.shown, record)
        if found is not None:
            order, outcome = found
            outcome = outcome if is_paid else without_cost(outcome)
            case.outcomes.setdefault((judges[record.judge], order), []).append(outcome)


def outcome_for(
    chosen: int, rejected: int, record: ComparisonRecord
) -> tuple[bool, Outcome] | None:
    """Return whether a comparison shows the chosen response of a pair before the other one, and its
    outcome for the pair; None if it does not show the pair.

    A request about one response shows the chosen one, or else the other one.
    """
    shown = record.indices
    result: Verdict | Grades | Failure | None = record.verdict
    if record.failure is not None:
        result = Failure(record.failure.kind, record.failure.detail)
    elif record.grades is not None:
        graded = zip(shown, record.grades, strict=True)
        values = tuple(grade for index, grade in graded if index in (chosen, rejected))
        known = tuple(grade for grade in values if grade is not None)
        result = Grades(known) if len(known) == len(values) else _LEFT_OUT
    if result is None or not (len(shown) == 1 or {chosen, rejected} <= set(shown)):
        return None
    is_first = shown[0] == chosen
    if len(shown) > 1:
        is_first = shown.index(chosen) < shown.index(rejected)
    return is_first, Outcome(
        result,
        attempts=record.attempts,
        latency_s=record.latency_s,
        prompt_tokens=record.prompt_tokens,
        completion_tokens=record.completion_tokens,
    )


def without_cost(outcome: Outcome) -> Outcome:
    """Return an outcome whose cost counts for another pair of its list."""
    return replace(outcome, attempts=0, latency_s=0.0, prompt_tokens=0, completion_tokens=0)
