"""The labelled pairs of an input, read twice so that no texts are kept."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from genrm_cli.errors import ChangedInputError, InputError, SettingRef, naming
from genrm_cli.groups.group import Group
from genrm_cli.jobs.context import RunContext
from genrm_cli.products.evaluation.pair_lines import LabelledPair, parse_pairs
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.source import Source
from genrm_cli.verdicts import Outcome

_MOST_REJECTS = 100  # the result file is one JSON object, held in memory
_NAMED_REJECTS = 3  # in an error
_SHOWN_CHARS = 200  # of a bad line: enough to recognise it


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
    """

    line: int
    pair: LabelledPair
    chosen_chars: int
    rejected_chars: int
    outcomes: dict[tuple[int, bool], list[Outcome]] = field(default_factory=dict)


@dataclass(slots=True)
class LabelledPairs:
    """The labelled pairs of an input, without their texts."""

    cases: list[Case] = field(default_factory=list)
    rejects: list[RejectRecord] = field(default_factory=list)

    def iter_groups(self, source: Source, run: RunContext) -> Iterator[tuple[Case, Group]]:
        """Read the pairs again; yield each as a group of two rollouts, the chosen one first; refuse
        a changed input.
        """
        for case, again in zip_longest(self.cases, _iter_pairs(source, run, lambda bad: None)):
            if case is None or again is None or again[1].key != case.pair.key:
                raise ChangedInputError(
                    f"{source.uri}: changed while being read; run again once nothing writes to it"
                )
            yield case, Group(case.pair.key, again[1].rollouts)


def read_pairs(source: Source, run: RunContext) -> LabelledPairs:
    """Read all pairs once, without keeping texts; refuse an input without any, or with a bad line
    if `strict`.
    """
    found = LabelledPairs()
    metrics = run.metrics

    def reject(bad: RejectRecord) -> None:
        metrics.rejected_lines += 1
        if len(found.rejects) < _MOST_REJECTS:
            found.rejects.append(bad)

    orders = 2 * len(run.plan.judges) * run.settings.pairing.repeats
    for line, pair in _iter_pairs(source, run, reject):
        chosen_chars, rejected_chars = (len(each.answer or "") for each in pair.rollouts)
        prompt_chars = sum(len(turn.text) for turn in pair.rollouts[0].prompt)
        metrics.prompt_chars += orders * (chosen_chars + rejected_chars + prompt_chars)
        without_texts = replace(pair, rollouts=())
        found.cases.append(Case(line, without_texts, chosen_chars, rejected_chars))
    metrics.lines = metrics.rejected_lines + len({case.line for case in found.cases})
    metrics.groups = len(found.cases)
    metrics.comparisons_planned = orders * len(found.cases)
    turns = sum(judge.turns for judge in run.plan.judges)
    metrics.planned_calls = orders * turns // len(run.plan.judges) * len(found.cases)
    named = [f"{source.unit} {bad.line}: {bad.reason}" for bad in found.rejects[:_NAMED_REJECTS]]
    first = "; ".join(named) or "the file is empty"
    if not found.cases:
        raise InputError(f"{source.uri}: no line is a labelled pair ({first}).")
    if found.rejects and run.settings.input.strict:
        bad = f"{source.uri}: {metrics.rejected_lines} bad lines ({first}), "
        raise InputError(bad, naming("refused by $strict. Fix them, or omit $strict."))
    return found


def _iter_pairs(
    source: Source, run: RunContext, on_reject: Callable[[RejectRecord], None]
) -> Iterator[tuple[int, LabelledPair]]:
    """Yield the pairs of all readable lines, each with its line number. A repeated pair is a bad
    line.
    """
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
        for pair in pairs:
            first_lines[pair.key] = line.number
            yield line.number, pair
