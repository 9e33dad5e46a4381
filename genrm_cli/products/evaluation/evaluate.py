"""Measure a judge: ask it about labelled pairs in both orders and count its right verdicts."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from msgspec import Struct

from genrm_cli.errors import (
    ChangedJudgeError,
    Message,
    SettingRef,
    TooManyUnscoredError,
    UsageError,
    naming,
)
from genrm_cli.groups.check import check_settings, refuse_defaults
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.refusals import resume_text
from genrm_cli.jobs.estimate import RunEstimate
from genrm_cli.jobs.journals import check_journal_place
from genrm_cli.jobs.offline.open_exchange import check_offline, open_exchange
from genrm_cli.jobs.previews.preview import preview_task
from genrm_cli.jobs.score_file import score_task
from genrm_cli.judging.opening.open_judges import open_judges
from genrm_cli.products.evaluation.accuracy import JudgeQuality, evaluate, evaluate_by_category
from genrm_cli.products.evaluation.benchmarks import BenchmarkScore, benchmark_scores
from genrm_cli.products.evaluation.pair_job import (
    RejectRecord,
    job_of,
    judged_pairs,
    open_pairs,
)
from genrm_cli.products.evaluation.pair_records import PairRecord
from genrm_cli.products.evaluation.people import PeopleQuality, people_quality, read_labels
from genrm_cli.products.evaluation.since import (
    EarlierResult,
    JudgeChange,
    compare_since,
    parse_earlier,
)
from genrm_cli.scored.describe_run import input_version
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import InputVersion, PanelRecord
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.table import digest_of
from genrm_cli.storage.encoding.records import render_document
from genrm_cli.storage.outputs import check_output, write_output
from genrm_cli.verdicts import StoppedBy

# Fields of a run record that a result repeats.
_OF_RUN = (
    *("time", "partial", "stopped_by", "judge", "redactions", "versions"),
    *("calls", "journal_hits", "prompt_tokens", "completion_tokens"),
)


class EvalResult(Struct, frozen=True, kw_only=True):
    """The result of one run.

    Attributes:
        partial: whether a limit left judgements unasked.
        rejects: the first rejected lines; `rejected_lines` counts all.
        figures: quality over all pairs; of a panel, that of its joint verdicts.
        people: what people's labels say; None without any.
        repeats: times that each order of a pair was asked.
        benchmarks: scores of lines with several pairs, by the rules of benchmarks.
        since: whether the judge has changed; None without an earlier result.
        redactions: matches masked in the texts sent, by kind.
    """

    format: Literal[1] = 1
    input: InputVersion
    time: str
    partial: bool
    stopped_by: StoppedBy | None
    judge: PanelRecord
    repeats: int
    lines: int
    rejected_lines: int
    rejects: tuple[RejectRecord, ...]
    figures: JudgeQuality
    by_category: Mapping[str, JudgeQuality]
    benchmarks: Mapping[str, BenchmarkScore]
    people: PeopleQuality | None
    redactions: Mapping[str, int]
    calls: int
    journal_hits: int
    prompt_tokens: int
    completion_tokens: int
    wall_time_s: float
    settings_digest: str
    versions: Mapping[str, str]
    since: JudgeChange | None = None
    pairs: tuple[PairRecord, ...]


def plan_evaluation(pairs_uri: str, result_uri: str | None, run: RunContext) -> RunEstimate:
    """Estimate what `evaluate_judge` would ask, without a call; blocks."""
    check_settings(run.settings)
    job = job_of(run)
    with open_pairs(pairs_uri, result_uri or "-", run) as (_, task, _):
        return preview_task(task, job).plan


async def evaluate_judge(
    pairs_uri: str,
    result_uri: str | None,
    run: RunContext,
    labels_uri: str | None = None,
    journal_for: str | None = None,
    since_uri: str | None = None,
) -> EvalResult | None:
    """Ask a judge about labelled pairs; return the result and, unless `result_uri` is None, write
    it there.

    `labels_uri` has what people said about the pairs. `journal_for` names the output whose journal
    is used, by default that of the result. `since_uri` is an earlier result, to tell whether the
    judge has changed: nothing is recalled then. Return None, without a result, if the pairs wait
    for replies that a later run will have.

    The settings of the run have no components; its metrics count the calls.

    Raises:
        GenrmError: any failure; no result was written.
        CancelledError: the run was interrupted, also by SIGTERM.
    """
    settings = run.settings
    check_settings(settings)
    check_journal_place(settings)
    check_offline(settings)
    refuse_defaults(settings, "a judge")
    earlier = None if since_uri is None else _earlier_of(since_uri, settings, run)
    if result_uri is not None:
        check_output(result_uri, [uri for uri in (pairs_uri, since_uri) if uri], settings)
    started_s = time.monotonic()
    job = job_of(run)
    with open_pairs(pairs_uri, journal_for or result_uri or "-", run) as (labelled, task, source):
        labels = None
        if labels_uri is not None:
            with run.open_source(labels_uri) as labels_source:
                labels = read_labels(labels_source, labelled.pairs)
        async with (
            cancelled_by_signals(),
            open_exchange(job) as exchange,
            open_judges(run.judge_specs(), run.open_options, run.on_event) as judges,
        ):
            asking = replace(job, exchange=exchange)
            record = await score_task(task, asking, judges, None, overwrite=False)
        source.verify_unchanged()  # else figures would mix two inputs
        if record is None:
            return None
        pairs = await run.in_thread(lambda: judged_pairs(task, labelled, job))
    prices = settings.limits.price_in, settings.limits.price_out
    change = None
    if earlier is not None and since_uri is not None:
        as_then = changed(settings, repeats=earlier.repeats)
        is_as_then = digest_of(as_then) == earlier.settings_digest
        change = compare_since(earlier, pairs, since_uri, same_settings=is_as_then)
    result = EvalResult(
        **{name: getattr(record, name) for name in _OF_RUN},
        input=input_version(source.identity),
        repeats=settings.pairing.repeats,
        lines=labelled.lines,
        rejected_lines=labelled.rejected_lines,
        rejects=tuple(labelled.rejects),
        figures=evaluate(pairs, *prices),
        by_category=evaluate_by_category(pairs, *prices),
        benchmarks=benchmark_scores(pairs),
        people=None if labels is None else people_quality(pairs, labels),
        wall_time_s=round(time.monotonic() - started_s, 3),
        settings_digest=digest_of(settings),
        since=change,
        pairs=pairs,
    )
    if result_uri is not None:
        write_output(result_uri, render_document(to_json(result)), [pairs_uri], settings)
    return result


def refuse_partial(result: EvalResult, settings: Settings) -> None:
    """Refuse the result of a run that was stopped early or has no verdict, with a
    `TooManyUnscoredError`.
    """
    if result.stopped_by is not None:
        limit = SettingRef(result.stopped_by)
        remedy = resume_text(settings)
        if result.since is not None:  # nothing is recalled then
            remedy = Message.of("Every run asks all pairs again: omit ", limit, ", or raise it.")
        raise TooManyUnscoredError(
            "the run was stopped by ",
            limit,
            f": the metrics are partial, {result.figures.not_asked} judgements were not asked. ",
            remedy,
        )
    if not result.figures.verdicts:
        kinds = ", ".join(
            f"{count} × {kind}" for kind, count in result.figures.failures_by_kind.items()
        )
        raise TooManyUnscoredError(
            f"the judge gave no verdict at all ({kinds or 'nothing was asked'}). ",
            naming("See its replies with `genrm compare`, or choose another $profile."),
        )


def refuse_changed(result: EvalResult) -> None:
    """Raise a `ChangedJudgeError` if the judge has changed since an earlier result."""
    if result.since is not None and result.since.answer == "changed":
        raise ChangedJudgeError(
            f"the judge has changed since {result.since.base}: its rewards of then and now do not "
            "mix. Where the new one is wanted, ",
            naming("name it with $judge_id, as the journal has verdicts of the old one under "),
            "the old name, and measure it as the new base.",
        )


def _earlier_of(uri: str, settings: Settings, run: RunContext) -> EarlierResult:
    """Read an earlier result; refuse one that cannot tell the judge's own flips."""
    earlier = parse_earlier(run.store.at(uri).read(), uri)
    if earlier.repeats < 2 and settings.pairing.repeats < 2:
        raise UsageError(
            f"{uri}: each pair was asked once, so the judge's own flips are unknown; ",
            naming("set $repeats, now or in a new base.", repeats=2),
        )
    return earlier
