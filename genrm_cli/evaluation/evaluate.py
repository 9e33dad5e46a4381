"""Measure a judge: ask it about labelled pairs in both orders and count its right verdicts."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from genrm_cli.errors import ChangedInputError, InputError, SettingRef, TooManyUnscoredError, UsageError
from genrm_cli.evaluation.accuracy import (
    Judgement,
    PairOutcome,
    Preference,
    evaluate,
    evaluate_by_category,
    preference_of,
)
from genrm_cli.evaluation.replies import Replies, read_replies
from genrm_cli.groups.check import check_settings
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import count_known, iter_prompts
from genrm_cli.groups.plan import GroupPlan, PairingPlan
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.estimate import estimate_rest
from genrm_cli.jobs.index import Reject
from genrm_cli.jobs.journals import check_journal_place, open_journal
from genrm_cli.jobs.judge_input import ask_judges
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.open_judges import JudgeSpec, OpenJudges, open_judges
from genrm_cli.judging.profiles.answer import verdict_of_grades
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.reading.labelled import LabelledPair, parse_pairs
from genrm_cli.rollouts.rollout import Rollout, Text, UnreadableRecordError
from genrm_cli.scored.describe_run import input_version, judge_record, provenance_of, versions_record
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.write_lines import outcome_record
from genrm_cli.settings import Settings
from genrm_cli.settings.table import changed, digest_of
from genrm_cli.storage.encoding.records import BadLineError, parse_record, render_document
from genrm_cli.storage.location import require_rl_prefix
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.sink import check_writable, is_same_place
from genrm_cli.storage.source import Source
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict

MAX_REJECTS = 100
_NAMED_PROBLEMS = 3
_SHOWN_CHARS = 200
_NOT_ASKED = Outcome(Failure(FailureKind.NOT_ASKED, "not asked"))
_WORDS = {Preference.CHOSEN: "right", Preference.REJECTED: "wrong", Preference.TIE: "tie"}
_CHOSEN = 0  # index of the chosen response of a pair


def without_components(settings: Settings) -> Settings:
    """Return settings without components, because a settings file may be shared with `genrm score`."""
    return changed(settings, component=(), components=(), diversity=None, total=None, only_components=False)


async def evaluate_judge(
    pairs_uri: str, result_uri: str | None, run: RunContext, *, replies_uri: str | None = None
) -> dict[str, Any]:
    """Ask a judge about labelled pairs; return the result and, unless `result_uri` is None, write it there.

    The settings of the run have no components; its metrics count the calls. With `replies_uri`, no judge is asked: its
    recorded replies are parsed by its profile.

    Raises:
        GenrmError: any failure; no result was written.
        CancelledError: the run was interrupted, also by SIGTERM.
    """
    settings = run.settings
    if replies_uri is None:
        check_settings(settings)
        check_journal_place(settings)
    _refuse_unfit(pairs_uri, result_uri, settings)
    replies = None if replies_uri is None else read_replies(replies_uri, run.s3, settings.input.max_line_bytes)
    started_s = time.monotonic()
    with run.open_source(pairs_uri) as source:
        provenance = provenance_of(source.identity, settings)
        if result_uri is not None:
            check_writable(result_uri, run.s3)  # before anything is paid for
        with Outputs(run.s3, overwrite=settings.output.force, provenance=provenance, mode=source.mode) as outputs:
            sink = None if result_uri is None else outputs.open(result_uri)
            pairs = _read_pairs(source, run)
            async with cancelled_by_signals():
                if replies is None:
                    judges = await _judge(source, pairs, result_uri or "-", run)
                else:
                    judges = _take_replies(source, pairs, replies, run)
            source.verify_unchanged()
            result = _result_of(source, pairs, run, judges, time.monotonic() - started_s)
            if sink is not None:
                sink.write(render_document(result))
            outputs.commit()
    return result


def refuse_partial(result: dict[str, Any]) -> None:
    """Refuse the result of a run that was stopped early or has no verdict.

    Raises:
        TooManyUnscoredError: the message names the reason.
    """
    if result["partial"]:
        raise TooManyUnscoredError(
            "the run was stopped by ",
            SettingRef(result["stopped_by"]),
            f": the metrics are partial, {result['figures']['not_asked']} judgements were not asked. Run the same "
            "command again to continue: verdicts in the journal are reused.",
        )
    if not result["figures"]["verdicts"]:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in result["figures"]["failures_by_kind"].items())
        raise TooManyUnscoredError(f"the judge gave no verdict at all ({kinds or 'nothing was asked'}).")


@dataclass(slots=True)
class _Case:
    """A pair without its texts, and its outcomes by order: whether the chosen response was shown (or graded) first."""

    line: int
    pair: LabelledPair
    chosen_chars: int
    rejected_chars: int
    outcomes: dict[bool, Outcome] = field(default_factory=dict)

    def take(self, judged: JudgedGroup) -> None:
        """Store the results of the judged pair."""
        for request, outcome in judged.results:
            self.outcomes[request.shown[0] == _CHOSEN] = outcome

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
        return {"result": result, **to_json(outcome_record(outcome, verdict))}


@dataclass(slots=True)
class _Pairs:
    """The labelled pairs of an input, without their texts."""

    cases: list[_Case] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def _refuse_unfit(pairs_uri: str, result_uri: str | None, settings: Settings) -> None:
    if settings.panel.judges:
        raise UsageError(
            "genrm eval measures one judge at a time: name one of the panel with ",
            *(SettingRef("model"), " (and ", SettingRef("base_url"), ", ", SettingRef("profile"), ")."),
        )
    if (compat := settings.judge.compat) is not None:
        raise UsageError(
            SettingRef("compat", compat),
            " replaces missing verdicts with defaults, which say nothing about a judge; omit it (`genrm config` shows "
            "its source).",
        )
    if result_uri is None:
        return
    require_rl_prefix(result_uri, settings.storage.any_prefix)
    if is_same_place(pairs_uri, result_uri):
        raise UsageError(f"the result {result_uri} is the input; choose another path with -o.")


def _read_pairs(source: Source, run: RunContext) -> _Pairs:
    """Read all pairs once, without keeping texts.

    Raises:
        InputError: no line is a pair, or `strict` refuses a bad line.
    """
    found, metrics = _Pairs(), run.metrics

    def reject(bad: Reject) -> None:
        metrics.rejects += 1
        if len(found.rejects) < MAX_REJECTS:
            found.rejects.append(bad)

    for line, pair in _iter_pairs(source, run.settings, reject):
        chars = len(pair.chosen), len(pair.rejected)
        metrics.prompt_chars += 2 * (sum(chars) + sum(len(turn.text) for turn in pair.conversation))
        found.cases.append(_Case(line, replace(pair, conversation=(), chosen="", rejected="", principle=None), *chars))
    metrics.lines = metrics.rejects + len({case.line for case in found.cases})
    metrics.groups, metrics.planned = len(found.cases), 2 * len(found.cases)
    metrics.planned_calls = metrics.planned * run.plan.judges[0].turns
    first = "; ".join(map(str, found.rejects[:_NAMED_PROBLEMS]))
    if not found.cases:
        raise InputError(f"{source.uri}: no line is a labelled pair ({first or 'the file is empty'}).")
    if found.rejects and run.settings.input.strict:
        raise InputError(
            *(f"{source.uri}: ", SettingRef("strict"), f" refuses {metrics.rejects} bad lines ({first}). Fix them, "),
            *("or omit ", SettingRef("strict"), " to evaluate the rest."),
        )
    return found


def _iter_pairs(
    source: Source, settings: Settings, on_reject: Callable[[Reject], None]
) -> Iterator[tuple[int, LabelledPair]]:
    """Yield the pairs of all readable lines, each with its line number. A repeated pair is a bad line."""
    requirements = [parse_requirement(text) for text in settings.input.require_metadata]
    first_lines: dict[str, int] = {}
    for line in source.iter_lines():
        try:
            if line.oversize is not None:
                raise BadLineError(
                    f"{line.oversize:,} bytes long, more than max_line_bytes = {settings.input.max_line_bytes:,}"
                )
            record = parse_record(line.raw)
            pairs = parse_pairs(record, line.number)
            check_declared(record, requirements)
            _refuse_repeated(pairs, first_lines)
        except (BadLineError, UnreadableRecordError) as error:
            on_reject(Reject(line.number, str(error), line.raw[:_SHOWN_CHARS].decode("utf-8", "replace"), source.unit))
            continue
        for pair in pairs:
            first_lines[pair.key] = line.number
            yield line.number, pair


def _refuse_repeated(pairs: list[LabelledPair], first_lines: dict[str, int]) -> None:
    """Refuse repeated pairs: two verdicts on one pair are not two observations."""
    for pair in pairs:
        if pair.key in first_lines:
            raise UnreadableRecordError(f"the same pair as in line {first_lines[pair.key]}")


async def _judge(source: Source, pairs: _Pairs, journal_for: str, run: RunContext) -> list[JudgeSpec]:
    """Judge every pair in both orders, and return the judge with its chosen profile."""
    settings, metrics, plan = run.settings, run.metrics, _plan_of(run)
    async with (
        open_judges(run.judge_specs(), run.open_options, run.on_event) as judges,
        open_journal(journal_for, run) as journal,
    ):
        await _prepare(judges, journal, source, pairs, plan, run)
        judge_set = judges.with_journal(journal, metrics.add_outcome)
        groups = ((case, _group_of(pair)) for case, pair in _iter_again(source, pairs, settings))

        def take(case: _Case, judged: JudgedGroup) -> None:
            case.take(judged)
            metrics.redactions.update(judged.redactions)
            metrics.groups_done += 1

        await ask_judges(groups, plan, judges, judge_set, run, take)
        return judges.specs


def _take_replies(source: Source, pairs: _Pairs, replies: Replies, run: RunContext) -> list[JudgeSpec]:
    """Read the recorded replies on every pair. An order without a reply counts as not asked.

    Raises:
        UsageError: the judge does not compare two responses in one turn, or the replies are for other pairs.
    """
    plan = _plan_of(run)
    profile = plan.judges[0].profile
    if not isinstance(profile, Profile) or profile.render_second_turn is not None:
        raise UsageError(
            SettingRef("replies"), " needs a ", SettingRef("profile"), " that compares two responses in one turn."
        )
    for case, pair in _iter_again(source, pairs, run.settings):
        for id_, prompt in iter_prompts(_group_of(pair), plan):
            chosen_first = id_.shown[0] == _CHOSEN
            text = replies.get((pair.id, chosen_first))
            if text is not None and isinstance(prompt, PairwisePrompt):
                case.outcomes[chosen_first] = Outcome(profile.parse_reply(Reply(text), prompt), reply_text=text)
    if not any(case.outcomes for case in pairs.cases):
        theirs = f", such as {next(iter(replies))[0]!r}," if replies else ""
        raise UsageError(
            SettingRef("replies"),
            f" has no reply to any of the pairs: its ids{theirs} must match those of the pairs, such as "
            f"{pairs.cases[0].pair.id!r}.",
        )
    return run.judge_specs()


def _plan_of(run: RunContext) -> GroupPlan:
    """Return the plan of one pair: both orders."""
    pairing = PairingPlan("all_pairs", both_orders=True)
    return replace(run.plan, pairing=pairing, lineups_in_both_orders=True, keep_replies=False)


def _group_of(pair: LabelledPair) -> Group:
    """Return a pair as a group of two rollouts, the chosen one first."""
    rollouts = [
        Rollout(pair.conversation, (Text(answer),), principle=pair.principle) for answer in (pair.chosen, pair.rejected)
    ]
    return Group(pair.key, rollouts)


def _iter_again(source: Source, found: _Pairs, settings: Settings) -> Iterator[tuple[_Case, LabelledPair]]:
    """Yield the pairs of the first pass with their texts."""
    for case, again in zip_longest(found.cases, _iter_pairs(source, settings, lambda bad: None)):
        if case is None or again is None or again[1].key != case.pair.key:
            raise ChangedInputError(f"{source.uri}: changed while being read; run again once nothing writes to it")
        yield case, again[1]


async def _prepare(
    judges: OpenJudges, journal: Journal | None, source: Source, pairs: _Pairs, plan: GroupPlan, run: RunContext
) -> None:
    """Settle the judge, count what the journal knows, and announce the plan."""
    if not judges.is_remote:
        return
    metrics = run.metrics
    if metrics.planned:
        await judges.settle(journal)
    run.progress.pace = judges
    if journal is not None and journal.has_verdicts:
        judge_set = judges.with_journal(journal)
        groups = (_group_of(pair) for _, pair in _iter_again(source, pairs, run.settings))
        for known in (count_known(group, plan, judge_set) for group in groups):
            metrics.known += known.known
            metrics.known_calls += known.known_calls
    run.on_event("plan", estimate_rest(replace(run, metrics=metrics), journal).as_dict())


def _meaning_of(outcome: Outcome, chosen_first: bool) -> Preference | FailureKind:
    if not isinstance(outcome.result, Verdict):
        return outcome.result.kind if isinstance(outcome.result, Failure) else FailureKind.NO_VERDICT
    return preference_of(outcome.result, chosen_first=chosen_first)


def _result_of(
    source: Source, found: _Pairs, run: RunContext, judges: Sequence[JudgeSpec], wall_time_s: float
) -> dict[str, Any]:
    settings, metrics = run.settings, run.metrics
    outcomes = [case.pair_outcome() for case in found.cases]
    prices = settings.limits.price_in, settings.limits.price_out
    return {
        "format": 1,
        "input": to_json(input_version(source.identity)),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "partial": metrics.stopped_by is not None,
        "stopped_by": metrics.stopped_by,
        "judge": to_json(judge_record(settings, judges)),
        "lines": metrics.lines,
        "rejected_lines": metrics.rejects,
        "rejects": [bad.as_dict() for bad in found.rejects],
        "figures": asdict(evaluate(outcomes, *prices)),
        "by_category": {name: asdict(quality) for name, quality in evaluate_by_category(outcomes, *prices).items()},
        "redactions": dict(sorted(metrics.redactions.items())),
        "calls": metrics.calls,
        "journal_hits": metrics.journal_hits,
        "prompt_tokens": metrics.prompt_tokens,
        "completion_tokens": metrics.completion_tokens,
        "wall_time_s": round(wall_time_s, 3),
        "settings_digest": digest_of(settings),
        "versions": versions_record(),
        "pairs": [case.record() for case in found.cases],
    }
