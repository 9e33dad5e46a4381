"""Measure a judge: ask it about labelled pairs, each in both orders, and count how often it is right."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from genrm_cli.errors import ChangedInputError, InputError, TooManyUnscoredError, UsageError
from genrm_cli.evaluation.accuracy import (
    Judgement,
    PairOutcome,
    Preference,
    evaluate,
    evaluate_by_category,
    preference_of,
)
from genrm_cli.groups.comparisons import grading_of
from genrm_cli.groups.components import without_components
from genrm_cli.groups.find_profile import profile_of
from genrm_cli.groups.group_case import outcome_record
from genrm_cli.groups.judge_set import JudgeSet, check_judges, open_judges
from genrm_cli.jobs.context import RunContext, cancelled_by_sigterm
from genrm_cli.jobs.cost import plan_of
from genrm_cli.jobs.index import Reject
from genrm_cli.jobs.journals import check_journal_place, open_journal
from genrm_cli.jobs.provenance import input_record, judge_record, provenance_of, versions_record
from genrm_cli.judging.engine import Asking, Judge, judge_all
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.profiles.profile import count_turns
from genrm_cli.judging.profiles.scales import verdict_of_grades
from genrm_cli.judging.requests import ListwisePrompt, Outcome, PairwisePrompt, Prompt
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.reading.labelled import LabelledPair, parse_pairs
from genrm_cli.rollouts.record import Turn, UnreadableRecordError
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import judges_of
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.location import require_rl_prefix
from genrm_cli.storage.records import BadLineError, parse_record, render_document
from genrm_cli.storage.sink import Outputs, check_writable, is_same_place
from genrm_cli.storage.source import Source, open_source
from genrm_cli.verdicts import Failure, FailureKind, Grades, Verdict

MAX_REJECTS = 100
_NAMED_PROBLEMS = 3
_SHOWN_CHARS = 200
_NOT_ASKED = Outcome(Failure(FailureKind.NOT_ASKED, "not asked"))
_WORDS = {Preference.CHOSEN: "right", Preference.REJECTED: "wrong", Preference.TIE: "tie"}

Ticket = tuple["_Case", bool]


def evaluate_judge(pairs_uri: str, result_uri: str | None, run: RunContext) -> dict[str, Any]:
    """Ask a judge about labelled pairs and return the result object, which is also written if a place is named.

    Args:
        pairs_uri: the labelled pairs.
        result_uri: where the result goes; None to write none. `-` is stdout.
        run: settings, events, and the tally that counts the calls.

    Raises:
        GenrmError: its subclasses say what went wrong; no result has appeared then.
        KeyboardInterrupt: the run was interrupted, by SIGTERM too.
    """
    settings = without_components(run.settings)  # a settings file may be shared with `genrm score`
    run = replace(run, settings=settings)
    check_judges(settings)
    check_journal_place(settings)
    _refuse_unfit(pairs_uri, result_uri, settings)
    started_s = time.monotonic()
    with open_source(pairs_uri, run.s3, settings.max_line_bytes, run.stop.is_set) as source:
        provenance = provenance_of(source.identity, settings)
        if result_uri is not None:
            check_writable(result_uri, run.s3)  # before anything is paid for
        with Outputs(run.s3, overwrite=settings.overwrite, provenance=provenance) as outputs:
            sink = None if result_uri is None else outputs.open(result_uri)
            survey = _read_pairs(source, run)
            _judge_to_the_end(source, survey, result_uri or "-", run)
            source.verify_unchanged()
            result = _result_of(source, survey, run, time.monotonic() - started_s)
            if sink is not None:
                sink.write(render_document(result))
            outputs.commit()
    return result


def refuse_partial(result: dict[str, Any]) -> None:
    """Refuse a result that says little: the run was stopped before its end, or nothing was judged.

    Raises:
        TooManyUnscoredError: says which.
    """
    if result["partial"]:
        raise TooManyUnscoredError(
            f"the run was stopped by --{result['stopped_by'].replace('_', '-')}: the figures are partial, "
            f"{result['figures']['not_asked']} judgements were not asked. Run the same command again: "
            "verdicts that a journal keeps are not asked again."
        )
    if not result["figures"]["verdicts"]:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in result["figures"]["failures_by_kind"].items())
        raise TooManyUnscoredError(f"the judge gave no verdict at all ({kinds or 'nothing was asked'}).")


@dataclass(slots=True)
class _Case:
    """A pair without its texts, and what became of it; the orders are chosen first, chosen second.

    A judge that grades each response alone is asked about the chosen one, then about the rejected one.
    """

    line: int
    pair: LabelledPair
    chosen_chars: int
    rejected_chars: int
    outcomes: dict[bool, Outcome] = field(default_factory=dict)

    def outcome(self, chosen_first: bool) -> Outcome:
        outcome = self.outcomes.get(chosen_first, _NOT_ASKED)
        if not isinstance(outcome.result, Grades):
            return outcome
        grades = outcome.result.values
        if len(grades) == 1:
            other = self.outcomes.get(not chosen_first, _NOT_ASKED).result
            if not isinstance(other, Grades):
                return replace(outcome, result=other)
            grades = (*grades, *other.values)
        return replace(outcome, result=verdict_of_grades(*grades))

    def judgement(self, chosen_first: bool) -> Judgement:
        outcome = self.outcome(chosen_first)
        tokens = outcome.prompt_tokens, outcome.completion_tokens
        return Judgement(_meaning_of(outcome, chosen_first), outcome.attempts, *tokens, outcome.latency_s)

    def pair_outcome(self) -> PairOutcome:
        orders = self.judgement(True), self.judgement(False)
        return PairOutcome(self.pair.item, *orders, self.pair.category, self.chosen_chars, self.rejected_chars)

    def record(self) -> dict[str, Any]:
        pair = self.pair
        return {
            "id": pair.id,
            "key": pair.key,
            "item": pair.item,
            "line": self.line,
            "category": pair.category,
            "chosen_chars": self.chosen_chars,
            "rejected_chars": self.rejected_chars,
            "chosen_first": self._order_record(True),
            "chosen_second": self._order_record(False),
        }

    def _order_record(self, chosen_first: bool) -> dict[str, Any]:
        outcome = self.outcome(chosen_first)
        meaning = _meaning_of(outcome, chosen_first)
        verdict = outcome.result if isinstance(outcome.result, Verdict) else None
        result = _WORDS[meaning] if isinstance(meaning, Preference) else None
        return {"result": result, **outcome_record(outcome, verdict)}


@dataclass(slots=True)
class _Survey:
    """What the first reading of the pairs found."""

    cases: list[_Case] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    redactions: Counter[str] = field(default_factory=Counter)


def _refuse_unfit(pairs_uri: str, result_uri: str | None, settings: Settings) -> None:
    if settings.panel:
        raise UsageError(
            "genrm eval measures one judge at a time: name one of the panel with --model (and --base-url, --profile)."
        )
    if settings.compat is not None:
        raise UsageError(
            f"--compat {settings.compat} puts defaults in the place of verdicts, which says nothing about a judge; "
            "leave it out (`genrm config` shows where it came from)."
        )
    if result_uri is None:
        return
    require_rl_prefix(result_uri, settings.any_prefix)
    if is_same_place(pairs_uri, result_uri):
        raise UsageError(f"the result {result_uri} is the input; choose another place with -o.")


def _read_pairs(source: Source, run: RunContext) -> _Survey:
    """Read all pairs once, keeping no text.

    Raises:
        InputError: there is none, or --strict refuses a bad line.
    """
    survey, tally = _Survey(), run.tally

    def reject(bad: Reject) -> None:
        tally.rejects += 1
        if len(survey.rejects) < MAX_REJECTS:
            survey.rejects.append(bad)

    for line, pair in _iter_pairs(source, run.settings, reject):
        chars = len(pair.chosen), len(pair.rejected)
        tally.exhibit_chars += 2 * (sum(chars) + sum(len(turn.text) for turn in pair.conversation))
        survey.cases.append(_Case(line, replace(pair, conversation=(), chosen="", rejected="", principle=None), *chars))
    tally.lines = tally.rejects + len({case.line for case in survey.cases})
    tally.groups, tally.planned = len(survey.cases), 2 * len(survey.cases)
    if run.settings.judge is None:
        tally.planned_calls = tally.planned * count_turns(profile_of(run.settings))
    first = "; ".join(f"line {bad.line}: {bad.reason}" for bad in survey.rejects[:_NAMED_PROBLEMS])
    if not survey.cases:
        raise InputError(
            f"{source.uri}: none of its {tally.lines} lines is a labelled pair ({first or 'it is empty'})."
        )
    if survey.rejects and run.settings.strict:
        raise InputError(
            f"{source.uri}: --strict refuses {tally.rejects} bad lines ({first}). Mend them, or leave --strict out: "
            "the rest is then evaluated."
        )
    return survey


def _iter_pairs(
    source: Source, settings: Settings, on_reject: Callable[[Reject], None]
) -> Iterator[tuple[int, LabelledPair]]:
    """Yield the pairs of all lines that can be read, each with its line; a pair that was there before is a bad line."""
    requirements = [parse_requirement(text) for text in settings.require_metadata]
    first_lines: dict[str, int] = {}
    for line in source.iter_lines():
        try:
            if line.oversize is not None:
                raise BadLineError(
                    f"{line.oversize:,} bytes long, more than --max-line-bytes {settings.max_line_bytes:,}"
                )
            record = parse_record(line.raw)
            pairs = parse_pairs(record, line.number)
            check_declared(record, requirements)
            _refuse_repeated(pairs, first_lines)
        except (BadLineError, UnreadableRecordError) as error:
            on_reject(Reject(line.number, str(error), line.raw[:_SHOWN_CHARS].decode("utf-8", "replace")))
            continue
        for pair in pairs:
            first_lines[pair.key] = line.number
            yield line.number, pair


def _refuse_repeated(pairs: list[LabelledPair], first_lines: dict[str, int]) -> None:
    """Refuse what was asked before: two answers to one question would pass for two observations."""
    for pair in pairs:
        if pair.key in first_lines:
            raise UnreadableRecordError(f"the same pair as in line {first_lines[pair.key]}")


def _judge_to_the_end(source: Source, survey: _Survey, journal_for: str, run: RunContext) -> None:
    try:
        asyncio.run(_judge(source, survey, journal_for, run))
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error  # SIGTERM


async def _judge(source: Source, survey: _Survey, journal_for: str, run: RunContext) -> None:
    """Ask about every pair in both orders and enter what became of it."""
    tally = run.tally

    def iter_askings(judge: Judge) -> Iterator[Asking[Ticket]]:
        for case, pair in _iter_again(source, survey, run.settings):
            yield from _askings_of(case, pair, judge, survey, run.settings)

    def on_outcome(ticket: Ticket, outcome: Outcome) -> None:
        case, chosen_first = ticket
        tally.add_outcome(outcome)
        case.outcomes[chosen_first] = replace(outcome, reply_text=None)
        tally.groups_done += len(case.outcomes) == 2

    async with cancelled_by_sigterm(), open_judges(run) as desk, open_journal(journal_for, run) as journal:
        [judge] = desk.judges_with(journal, run.settings)
        await _prepare(desk, journal, lambda: iter_askings(judge), run)
        survey.redactions.clear()  # the askings were made once already, to look into the journal
        await judge_all(_one_by_one(iter_askings(judge)), on_outcome)
        tally.redactions.update(survey.redactions)
        tally.stopped_by = desk.what_cut_short(tally)


async def _one_by_one(askings: Iterator[Asking[Ticket]]) -> AsyncIterator[Asking[Ticket]]:
    for asking in askings:
        yield asking


def _iter_again(source: Source, survey: _Survey, settings: Settings) -> Iterator[tuple[_Case, LabelledPair]]:
    """Yield the pairs that were found before, now with their texts."""
    pairs = _iter_pairs(source, settings, lambda bad: None)
    for case, found in zip_longest(survey.cases, pairs):
        if case is None or found is None or found[1].key != case.pair.key:
            raise ChangedInputError(f"{source.uri}: changed while being read; run again when nothing writes to it")
        yield case, found[1]


async def _prepare(
    desk: JudgeSet, journal: Journal | None, iter_askings: Callable[[], Iterator[Asking[Ticket]]], run: RunContext
) -> None:
    """Say what is planned and known, and try a judge that has to be asked."""
    if not desk.is_remote:
        return
    tally = run.tally
    desk.show_in(tally)
    if journal is not None and len(journal):
        tally.known = sum(judge.prepare(shown, 0).key in journal for _, judge, shown, _ in iter_askings())
    run.on_event("plan", plan_of(tally, run.settings, journal))
    if tally.planned > tally.known:
        await desk.probe(run)


def _askings_of(
    case: _Case, pair: LabelledPair, judge: Judge, survey: _Survey, settings: Settings
) -> Iterator[Asking[Ticket]]:
    """Yield both orders of a pair, masked if the settings ask for it; lengths were measured before."""
    conversation, chosen, rejected = pair.conversation, pair.chosen, pair.rejected
    principle = pair.principle or settings.principle
    if settings.redact_pattern:
        redactor, counts = redactor_of(settings.redact_pattern), survey.redactions
        conversation = tuple(Turn(turn.role, redactor.redact(turn.text, counts)) for turn in conversation)
        chosen, rejected = redactor.redact(chosen, counts), redactor.redact(rejected, counts)
        principle = principle and redactor.redact(principle, counts)
    grading = grading_of(judges_of(settings)[0])
    for chosen_first in (True, False):
        first, second = (chosen, rejected) if chosen_first else (rejected, chosen)
        shown: Prompt = PairwisePrompt(conversation, first, second, principle)
        if grading is not None:
            shown = ListwisePrompt(conversation, (first, second) if grading.whole_group else (first,), principle)
        yield Asking((case, chosen_first), judge, shown, 0)


def _meaning_of(outcome: Outcome, chosen_first: bool) -> Preference | FailureKind:
    if not isinstance(outcome.result, Verdict):
        return outcome.result.kind if isinstance(outcome.result, Failure) else FailureKind.NO_VERDICT
    return preference_of(outcome.result, chosen_first=chosen_first)


def _result_of(source: Source, survey: _Survey, run: RunContext, wall_time_s: float) -> dict[str, Any]:
    settings, tally = run.settings, run.tally
    outcomes = [case.pair_outcome() for case in survey.cases]
    prices = settings.price_in, settings.price_out
    return {
        "input": input_record(source.identity),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "partial": tally.stopped_by is not None,
        "stopped_by": tally.stopped_by,
        "judge": judge_record(settings),
        "lines": tally.lines,
        "rejected_lines": tally.rejects,
        "rejects": [bad.as_dict() for bad in survey.rejects],
        "figures": asdict(evaluate(outcomes, *prices)),
        "by_category": {name: asdict(figures) for name, figures in evaluate_by_category(outcomes, *prices).items()},
        "redactions": dict(sorted(tally.redactions.items())),
        "calls": tally.calls,
        "journal_hits": tally.journal_hits,
        "prompt_tokens": tally.prompt_tokens,
        "completion_tokens": tally.completion_tokens,
        "wall_time_s": round(wall_time_s, 3),
        "settings_digest": digest_of(settings),
        "versions": versions_record(),
        "pairs": [case.record() for case in survey.cases],
    }
