"""The file job that asks about labelled pairs: pairs in, rollouts for the job, judged pairs out.

A pair is a group of two rollouts. A listwise judge sees lists, not pairs, when it scores groups, so
it is measured on lists: all responses of a line are a group, and each pair gets its verdict from
the scores of the list that shows both. Lines that are longer than a list are shown as pairs, so
that each pair is seen in both orders."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import InputError, SettingRef, naming
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.inputs import OutputPlaces, Task, places_in
from genrm_cli.jobs.judging_session import PlanEvent
from genrm_cli.json_types import Record
from genrm_cli.judging.profiles.profile import parts_of
from genrm_cli.metrics.event import Event
from genrm_cli.pairing.lists import ListPlan, RolloutList
from genrm_cli.products.evaluation.pair_lines import LabelledLine, LabelledPair, parse_labelled
from genrm_cli.products.evaluation.pair_records import PairRecord, order_of
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.rollouts.views import unseen_media
from genrm_cli.scored.files import ScoredInput
from genrm_cli.scored.groups import ScoredRun
from genrm_cli.scored.lines import Shown, answers_by_pair
from genrm_cli.scored.parse_lines import parse_object
from genrm_cli.settings import changed
from genrm_cli.settings.table import render_flag
from genrm_cli.storage.encoding.records import BadLineError, Line, render_record
from genrm_cli.storage.source import Source

_MOST_REJECTS = 100  # the result file is one JSON object, held in memory
_NAMED_REJECTS = 3  # in an error
_SHOWN_CHARS = 200  # of a bad line: enough to recognise it
_ID_FIELD = "id"  # of a rollout's line: the key of its group
# Of a rollout's line: the labelled line itself, if the judge is told more of it.
_LABELLED_FIELD = "labelled"
# An escaped text is up to three times as long in the other encoding, and has the line beside it.
_LONGER = 8


class RejectRecord(Struct, frozen=True, kw_only=True):
    """A line without a pair that can be judged, and why."""

    line: int
    reason: str
    text: str


class LabelledPairs(Struct):
    """The labelled pairs of an input, without their texts.

    Attributes:
        groups: by the key of the group that shows them, the pairs, not asked yet, each with the
            indices of its chosen and its rejected response in that group.
        lines: number of lines, also of those that are rejected.
    """

    groups: dict[str, list[tuple[Shown, PairRecord]]] = {}
    lines: int = 0
    rejected_lines: int = 0
    rejects: list[RejectRecord] = []

    @property
    def pairs(self) -> list[PairRecord]:
        """All pairs, in the order of their lines."""
        return [pair for asked in self.groups.values() for _, pair in asked]

    def reject(self, line: Line, error: BadLineError | UnreadableRecordError) -> None:
        """Count a bad line, and keep the first ones."""
        self.rejected_lines += 1
        if len(self.rejects) < _MOST_REJECTS:
            text = line.raw[:_SHOWN_CHARS].decode("utf-8", "replace")
            # Only the command line reads it.
            reason = error.message.render(render_flag)
            self.rejects.append(RejectRecord(line=line.number, reason=reason, text=text))


class ListsInBothOrders(ListPlan, frozen=True):
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
    paths = {"reference_field": given.reference_field, "rubric_field": given.rubric_field}
    below = {name: f"{_LABELLED_FIELD}.{path}" for name, path in paths.items() if path is not None}
    settings = changed(
        run.settings,
        together=False,
        format=None,
        response_field="response",
        prompt_field="prompt",
        id_field=_ID_FIELD,
        group_by=_ID_FIELD,
        ignore_fields=_LABELLED_FIELD,
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
        # The file of the job is not an input of the user.
        run.on_event(replace(event, input=None) if isinstance(event, PlanEvent) else event)

    return dataclasses.replace(run, settings=settings, plan=plan, on_event=on_event)


@contextmanager
def open_pairs(
    pairs_uri: str, journal_for: str, run: RunContext
) -> Iterator[tuple[LabelledPairs, Task, Source]]:
    """Read labelled pairs; yield them, the input of their file job, with the journal of an output,
    and where they come from. Errors about the file of the job name the pairs instead.
    """
    with run.open_source(pairs_uri) as source, TemporaryDirectory() as folder:
        places = places_in(folder, OutputPlaces(journal_for))
        task = Task(str(Path(folder) / "pairs.jsonl"), places)
        try:
            yield _read_pairs(source, run, task), task, source
        except InputError as error:
            parts = (
                part.replace(task.uri, pairs_uri) if isinstance(part, str) else part
                for part in error.message.parts
            )
            raise type(error)(*parts) from error


def _read_pairs(source: Source, run: RunContext, task: Task) -> LabelledPairs:
    """Write the pairs as the rollouts of the job, and return them without their texts.

    Raises:
        InputError: there is none, or a line is bad and `strict` is set.
    """
    given = run.settings.input
    requirements = [parse_requirement(text) for text in given.require_metadata]
    longest = run.plan.lists.list_size if run.plan.is_listwise else 2
    first_lines: dict[str, int] = {}
    found = LabelledPairs()
    with Path(task.uri).open("wb") as sink:
        for line in source.iter_lines():
            found.lines += 1
            try:
                record = parse_object(line, given)
                check_declared(record, requirements)
                labelled = _told(parse_labelled(record, line.number), record, run.plan)
                for pair in labelled.pairs:
                    # Two verdicts on one pair are not two observations.
                    if pair.key in first_lines:
                        first = first_lines[pair.key]
                        raise UnreadableRecordError(f"the same pair as in line {first}")
            except (BadLineError, UnreadableRecordError) as error:
                found.reject(line, error)
                continue
            first_lines |= dict.fromkeys((pair.key for pair in labelled.pairs), line.number)
            shared: Record = {_LABELLED_FIELD: record} if run.plan.chosen_fields else {}
            for pairs in _asked_together(labelled, longest):
                chosen = [pair.chosen for pair in pairs]
                answers = list(dict.fromkeys([*chosen, *(pair.rejected for pair in pairs)]))
                key = pairs[0].key
                for answer in answers:
                    sink.write(render_record(_rollout(key, labelled, answer) | shared))
                found.groups[key] = [
                    (
                        (answers.index(pair.chosen), answers.index(pair.rejected)),
                        pair.record,
                    )
                    for pair in pairs
                ]
    named = [f"{source.unit} {bad.line}: {bad.reason}" for bad in found.rejects[:_NAMED_REJECTS]]
    reasons = "; ".join(named) or "the file is empty"
    if not found.groups:
        raise InputError(
            f"{source.uri}: no line is a labelled pair ({reasons}). `genrm guide "
            "choosing-a-judge` shows the formats."
        )
    if found.rejects and given.strict:
        all_bad = f"{source.uri}: {found.rejected_lines} bad lines ({reasons}), "
        raise InputError(all_bad, naming("refused by $strict. Fix them, or omit $strict."))
    return found


def _told(labelled: LabelledLine, record: Record, plan: GroupPlan) -> LabelledLine:
    """Return a line with the principle that the judge is told; refuse one that lacks a field for
    the judge, or has media that it does not see.
    """
    rollout = Rollout(
        labelled.conversation,
        labelled.said_media,
        labelled.principle,
        prompt_media=labelled.asked_media,
    )
    rollout = plan.with_chosen_fields(rollout, record)
    for name in plan.missing_fields(rollout):
        raise UnreadableRecordError("nothing under ", SettingRef(name, getattr(plan, name)))
    unseen = [] if plan.ignore_media else unseen_media(rollout, plan.view)
    for kind in unseen:
        raise UnreadableRecordError(
            f"the judge would not see its {kind}; ",
            naming("set $images if it sees images, or $ignore_media"),
        )
    return replace(labelled, principle=rollout.principle)


def _asked_together(labelled: LabelledLine, longest: int) -> list[Sequence[LabelledPair]]:
    """Return the pairs of a line as they are judged: each alone, or all in a list of at most
    `longest` responses.
    """
    right, wrong = labelled.pairs[-1].record.places
    if right + wrong + 2 <= longest:
        return [labelled.pairs]
    return [[pair] for pair in labelled.pairs]


def _rollout(key: str, labelled: LabelledLine, answer: str) -> Record:
    """Return the line of a rollout, with images in their places."""
    media = (*labelled.asked_media, *labelled.said_media)
    images = tuple((each.mark, each.url) for each in media if each.url is not None)
    turns = [(turn.role, turn.text) for turn in labelled.conversation]
    *prompt, said = (
        {"role": role, "content": parts_of(text, images)}
        for role, text in (*turns, ("assistant", answer))
    )
    response = answer if isinstance(said["content"], str) else [said]
    line: Record = {_ID_FIELD: key, "prompt": prompt, "response": response}
    if labelled.principle is not None:
        line["principle"] = labelled.principle
    return line


def judged_pairs(task: Task, pairs: LabelledPairs, run: RunContext) -> tuple[PairRecord, ...]:
    """Return the pairs with what the judges of the job say about them; blocks."""
    judges = [judge.name for judge in run.plan.judges]
    scored = ScoredInput(task.places.scored, task.places.scored_files)
    judged: list[PairRecord] = []
    with ScoredRun(
        scored, run.settings, kept_of=lambda record: {_ID_FIELD: record[_ID_FIELD]}
    ) as groups:
        groups.read(run.store)
        for group in groups.iter_groups():
            answers = answers_by_pair(group.comparisons)
            asked = pairs.groups[group.members[0].record[_ID_FIELD]]
            for number, (shown, pair) in enumerate(asked):
                # A list is one request for all of its pairs.
                of_order = partial(order_of, judges=judges, is_paid=number == 0)
                judged.append(
                    replace(
                        pair,
                        chosen_first=of_order(answers[shown], chosen_first=True),
                        chosen_second=of_order(answers[shown[::-1]], chosen_first=False),
                    )
                )
    return tuple(judged)
