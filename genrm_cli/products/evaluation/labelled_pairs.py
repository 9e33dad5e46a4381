"""The labelled pairs of an input, and the rollouts that the file job scores for them.

A pair is a group of two rollouts. A listwise judge sees lists, not pairs, when it scores groups, so
it is measured on lists: all responses of a line are a group, and each pair gets its verdict from
the scores of the list that shows both. Lines that are longer than a list are shown as pairs, so
that each pair is seen in both orders."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from genrm_cli.errors import InputError, SettingRef, naming
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import JsonObject, Record
from genrm_cli.products.evaluation.pair_lines import LabelledPair, parse_pairs
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.storage.encoding.records import BadLineError, parse_record, render_record
from genrm_cli.storage.source import Source
from genrm_cli.verdicts import Outcome

_MOST_REJECTS = 100  # the result file is one JSON object, held in memory
_NAMED_REJECTS = 3  # in an error
_SHOWN_CHARS = 200  # of a bad line: enough to recognise it
ID_FIELD = "id"
"""Field of a rollout's line with the key of its group."""
LABELLED_FIELD = "labelled"
"""Field of a rollout's line with the labelled line itself, if the judge is told more of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectRecord:
    """A line without a pair that can be judged, and why."""

    line: int
    reason: str
    text: str


@dataclass(slots=True)
class Case:
    """A pair without its texts, and the outcomes of its repeats by judge and order: whether the
    chosen response was shown (or graded) first.

    Attributes:
        asked: key of the group that shows it.
        shown: indices of its chosen and its rejected response in that group.
    """

    line: int
    pair: LabelledPair
    chosen_chars: int
    rejected_chars: int
    asked: str
    shown: tuple[int, int]
    outcomes: dict[tuple[int, bool], list[Outcome]] = field(default_factory=dict)


@dataclass(slots=True)
class LabelledPairs:
    """The labelled pairs of an input, without their texts."""

    cases: list[Case] = field(default_factory=list)
    rejects: list[RejectRecord] = field(default_factory=list)
    rejected_lines: int = 0

    @property
    def lines(self) -> int:
        """Number of lines, also of those that are rejected."""
        return self.rejected_lines + len({case.line for case in self.cases})


def read_pairs(source: Source, run: RunContext, rollouts_path: Path) -> LabelledPairs:
    """Write the pairs as rollouts, and return them without their texts; refuse an input without
    any, or with a bad line if `strict`.
    """
    found = LabelledPairs()

    def reject(bad: RejectRecord) -> None:
        found.rejected_lines += 1
        if len(found.rejects) < _MOST_REJECTS:
            found.rejects.append(bad)

    with rollouts_path.open("wb") as sink:
        for line, record, pairs in _iter_lines(source, run, reject):
            for together in _asked_together(pairs, run.plan):
                key = together[0].key
                rollouts = _answers_of(together)
                for rollout in rollouts:
                    shown = record if run.plan.chosen_fields else None
                    sink.write(render_record(_rollout_line(key, rollout, shown)))
                places = {rollout.answer: place for place, rollout in enumerate(rollouts)}
                found.cases += [_case_of(line, pair, key, places) for pair in together]
    named = [f"{source.unit} {bad.line}: {bad.reason}" for bad in found.rejects[:_NAMED_REJECTS]]
    first = "; ".join(named) or "the file is empty"
    if not found.cases:
        raise InputError(
            f"{source.uri}: no line is a labelled pair ({first}). `genrm guide "
            "choosing-a-judge` shows the formats."
        )
    if found.rejects and run.settings.input.strict:
        bad = f"{source.uri}: {found.rejected_lines} bad lines ({first}), "
        raise InputError(bad, naming("refused by $strict. Fix them, or omit $strict."))
    return found


def _case_of(line: int, pair: LabelledPair, key: str, places: Mapping[str | None, int]) -> Case:
    chosen, rejected = (rollout.answer for rollout in pair.rollouts)
    return Case(
        line,
        replace(pair, rollouts=()),
        len(chosen or ""),
        len(rejected or ""),
        key,
        (places[chosen], places[rejected]),
    )


def _asked_together(pairs: Sequence[LabelledPair], plan: GroupPlan) -> list[list[LabelledPair]]:
    """Return the pairs of a line as they are judged: each alone, or all in a list."""
    right = 1 + max(pair.places[0] for pair in pairs)
    wrong = 1 + max(pair.places[1] for pair in pairs)
    if plan.is_listwise and right + wrong <= plan.lists.list_size:
        return [list(pairs)]
    return [[pair] for pair in pairs]


def _answers_of(together: Sequence[LabelledPair]) -> list[Rollout]:
    """Return the different answers of pairs that are judged together, the chosen ones first."""
    chosen = {pair.rollouts[0].answer: pair.rollouts[0] for pair in together}
    rejected = {pair.rollouts[1].answer: pair.rollouts[1] for pair in together}
    return [*chosen.values(), *rejected.values()]


def _rollout_line(key: str, rollout: Rollout, record: JsonObject | None) -> Record:
    """Return the line of a rollout; `record` is the labelled line, if the judge is told more."""
    line: Record = {
        ID_FIELD: key,
        "prompt": [{"role": turn.role, "content": turn.text} for turn in rollout.prompt],
        "response": rollout.answer or "",
    }
    if rollout.principle is not None:
        line["principle"] = rollout.principle
    return line if record is None else line | {LABELLED_FIELD: record}


def _iter_lines(
    source: Source, run: RunContext, on_reject: Callable[[RejectRecord], None]
) -> Iterator[tuple[int, Record, list[LabelledPair]]]:
    """Yield number, record and pairs of all readable lines. A repeated pair is a bad line."""
    settings = run.settings.input
    requirements = [parse_requirement(text) for text in settings.require_metadata]
    first_lines: dict[str, int] = {}
    for line in source.iter_lines():
        try:
            if line.oversize is not None:
                raise BadLineError(
                    f"{line.oversize:,} bytes long, more than max_line_bytes = "
                    f"{settings.max_line_bytes:,}"
                )
            record = parse_record(line.raw)
            check_declared(record, requirements)
            pairs = []
            for pair in parse_pairs(record, line.number):
                if pair.key in first_lines:  # two verdicts on one pair are not two observations
                    raise UnreadableRecordError(f"the same pair as in line {first_lines[pair.key]}")
                rollouts = [run.plan.with_chosen_fields(each, record) for each in pair.rollouts]
                for name in run.plan.missing_fields(rollouts[0]):
                    setting = SettingRef(name, getattr(run.plan, name))
                    raise UnreadableRecordError("nothing under ", setting)
                pairs.append(replace(pair, rollouts=tuple(rollouts)))
        except (BadLineError, UnreadableRecordError) as error:
            text = line.raw[:_SHOWN_CHARS].decode("utf-8", "replace")
            on_reject(RejectRecord(line=line.number, reason=str(error), text=text))
            continue
        first_lines |= dict.fromkeys((pair.key for pair in pairs), line.number)
        yield line.number, record, pairs
