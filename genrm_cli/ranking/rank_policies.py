"""Rank policies: read the inputs, ask the judges what is missing, and return the leaderboard."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from genrm_cli.errors import SettingRef, TooManyUnscoredError, UsageError, counted, naming
from genrm_cli.groups.check import check_settings, judge_specs, refuse_defaults, without_components
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.inputs import is_one_input, iter_files
from genrm_cli.jobs.due.refusals import FirstRejects, refuse_input
from genrm_cli.jobs.due.sources import Sources
from genrm_cli.jobs.estimate import RunEstimate, add_known, estimate_rest
from genrm_cli.jobs.index import index_input
from genrm_cli.jobs.journals import (
    check_journal_place,
    has_remote_judge,
    import_other_journals,
    known_journal,
    open_journal,
)
from genrm_cli.jobs.judging_session import JudgingSession
from genrm_cli.json_types import Record
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.open_judges import idle_judges, open_judges
from genrm_cli.metrics.event import Event
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.ranking.board import Leaderboard, findings
from genrm_cli.ranking.contest import Contest, RankOptions, refuse_unknown
from genrm_cli.ranking.judge_contest import ContestJudging, Example
from genrm_cli.ranking.known_verdicts import read_known, uses_known
from genrm_cli.ranking.leaderboard import build_leaderboard
from genrm_cli.ranking.looks import LEAST_PROMPTS
from genrm_cli.ranking.outcomes import Outcomes
from genrm_cli.ranking.pair_plan import Forecast
from genrm_cli.scored.describe_run import judge_record
from genrm_cli.scored.json_form import extended, to_json
from genrm_cli.scored.run_record import PanelRecord
from genrm_cli.settings import Settings
from genrm_cli.settings.table import changed
from genrm_cli.storage.location import (
    folder_of,
    is_scored_file,
    is_stream,
    render_place,
    stem_of_set,
)
from genrm_cli.storage.patterns import names_many
from genrm_cli.verdicts import StoppedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """The requests of a ranking, and the differences that they can show.

    Attributes:
        prompts: prompts on which policies are compared; `pairs` are pairs of policies on prompts.
        is_pilot: whether the verdicts on these decide which others follow, up to the budget.
        left_out: number of items that do not take part, by what they are.
        forecast: None if the comparisons do not join all policies.
    """

    format: Literal[1] = 1
    policies: tuple[str, ...]
    prompts: int
    pairs: int
    is_pilot: bool
    left_out: Mapping[str, int]
    estimate: RunEstimate
    forecast: Forecast | None

    def text(self) -> str:
        """Return the prompts and policies, and the smallest difference that the ranking can show,
        in one line.
        """
        found = self.forecast
        shows = "they do not join all policies"
        if not self.estimate.planned:
            shows = "no pair needs a judge"
        elif found is not None:
            few = "so few comparisons"
            if self.prompts < LEAST_PROMPTS:
                few = f"fewer than {LEAST_PROMPTS} prompts"
            shows = f"{few} cannot show any difference"
            if found.smallest_difference is not None and found.half_width is not None:
                shows = (
                    f"shows differences from {100 * found.smallest_difference:.1f} points of the "
                    f"win rate in {100 * found.power:.0f} % of cases (95 % interval "
                    f"±{100 * found.half_width:.1f})"
                )
        pilot = ", a pilot that decides about the rest of the budget" if self.is_pilot else ""
        others = "".join(f"; left out: {count:,} × {what}" for what, count in self.left_out.items())
        policies = counted(len(self.policies), "policy", "policies")
        prompts = counted(self.prompts, "prompt")
        return f"{policies}, {prompts}, {counted(self.pairs, 'pair')}{pilot}: {shows}{others}"


@dataclass(frozen=True, slots=True)
class ForecastEvent(Event):
    """What a ranking will ask, and what it can show."""

    plan: RankPlan

    def text(self) -> str:
        """Describe the plan."""
        return self.plan.text()

    def as_dict(self) -> Record:
        """Return the fields of a log line."""
        return to_json(self.plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Leaderboard):
    """A leaderboard, and how it came about.

    Attributes:
        judge: name of the judge or the panel. `judged_by` describes it, unless the verdicts were
            there before.
        stopped_by: the limit that left comparisons unasked; None for none.
        calls: made by this run. `known`: verdicts that needed none.
        plan: None if nothing was planned.
        findings: what the leaderboard says, in sentences.
    """

    format: Literal[1] = 1
    inputs: tuple[str, ...]
    judge: str
    judged_by: PanelRecord | None
    stopped_by: StoppedBy | None
    calls: int
    known: int
    plan: RankPlan | None
    findings: tuple[str, ...]
    examples: tuple[Example, ...]


def split_options(settings: Settings, **own: Any) -> tuple[RankOptions, Settings]:
    """Return the options of a ranking, some of which are settings, and what the settings say of all
    else.
    """
    options = RankOptions(
        budget=settings.pairing.budget,
        limit=settings.limits.limit,
        seed=settings.pairing.seed,
        **own,
    )
    plan = {
        "strategy": "ring",
        "goal": "rewards",
        "repeats": 1,
        "both_orders": False,
        "budget": None,
        "limit": None,
    }
    return options, changed(without_components(settings), together=True, **plan)


def plan_ranking(given: Sequence[str], options: RankOptions, run: RunContext) -> RankPlan:
    """Plan what `rank_policies` would ask, without a call; blocks."""
    if uses_known(given, options, run.settings):
        raise UsageError(naming("these verdicts exist, so no call would be made; omit $dry_run."))
    run = _checked(run, options)
    uris = _find_files(given, run)
    with ExitStack() as opened:
        contest = opened.enter_context(_reading(uris, options, run))
        path = known_journal(_journal_for(uris, run.settings), run.settings)
        journal = None if path is None else opened.enter_context(Journal(str(path), read_only=True))
        judges, specs = idle_judges(judge_specs(run.settings), run.open_options, journal)
        return _choose(
            ContestJudging(contest, run.plan.with_judges(specs), run.metrics), judges, journal, run
        )


async def rank_policies(
    given: Sequence[str], options: RankOptions, run: RunContext, *, examples: int = 0
) -> Ranking:
    """Ask the judges to compare policies where no verdict is known, and return the leaderboard.

    Verdicts go to the journal that `genrm score` uses for these inputs together. The events `plan`
    and `forecast` announce the plan before the first call. Nobody is asked about recorded verdicts,
    nor about scored lines if no judge is named.

    Args:
        given: files, folders, prefixes and patterns.
        options: what to rank.
        run: with the settings of `split_options`; its metrics count the calls.
        examples: number of prompts to return on which policies differ most.

    Raises:
        GenrmError: a subclass for each kind of failure.
        CancelledError: the run was interrupted, also by SIGTERM.
    """
    if uses_known(given, options, run.settings):
        known = await run.in_thread(partial(read_known, given, options, run.settings))
        return _ranking(given, *known, options, run.metrics, judged_by=None, plan=None, examples=())
    run = _checked(run, options)
    uris = _find_files(given, run)
    metrics = run.metrics
    settings = run.settings
    with ExitStack() as opened:
        async with (
            cancelled_by_signals(),
            open_judges(run.judge_specs(), run.open_options, run.on_event) as judges,
            open_journal(_journal_for(uris, settings), run) as journal,
        ):
            contest = await run.in_thread(
                lambda: opened.enter_context(_reading(uris, options, run))
            )
            if journal is not None:
                await run.in_thread(
                    partial(import_other_journals, journal, _scored_uris(uris, settings), run)
                )
            session = JudgingSession(judges, run.plan, run, journal)
            await session.settle()
            work = ContestJudging(contest, session.plan, metrics)
            plan = await run.in_thread(
                lambda: _choose(work, judges.with_journal(journal), journal, run)
            )
            session.announce()
            run.on_event(ForecastEvent(plan))
            async with session.asking():
                await work.ask(session)
                if work.is_pilot:
                    await run.in_thread(work.choose_rest)
                    await work.ask(session)
        outcomes = work.outcomes()
        if not len(outcomes.won):
            kinds = ", ".join(
                f"{count} × {kind}" for kind, count in metrics.failures_by_kind.most_common()
            )
            raise TooManyUnscoredError(
                f"no comparison has a verdict ({kinds or 'nothing was asked'})."
            )
        judge = judge_record(settings, judges.specs)
        shown = tuple(work.examples(outcomes, examples))
    return _ranking(
        uris,
        outcomes,
        str(judge.name),
        options,
        metrics,
        judged_by=judge,
        plan=plan,
        examples=shown,
    )


def _ranking(
    uris: Sequence[str],
    outcomes: Outcomes,
    judge: str,
    options: RankOptions,
    metrics: RunMetrics,
    **own: Any,
) -> Ranking:
    baseline = options.baseline
    refuse_unknown(baseline, outcomes.table.policies)
    if options.over is not None and baseline is None:
        baseline = outcomes.table.policies[0]
    board = build_leaderboard(
        outcomes,
        baseline=baseline,
        over=options.over,
        one_look=options.one_look,
    )
    numbers = {
        "stopped_by": metrics.stopped_by,
        "calls": metrics.calls,
        "known": metrics.journal_hits,
    }
    sentences = tuple(findings(board, judge))
    return extended(
        Ranking, board, inputs=tuple(uris), judge=judge, findings=sentences, **numbers, **own
    )


def refuse_partial(ranking: Ranking, settings: Settings) -> None:
    """Refuse a ranking that was stopped early, or of which too much failed, with a
    `TooManyUnscoredError`.
    """
    asked = ranking.failed + ranking.n_verdicts
    setting = SettingRef("max_unscored", settings.rewards.max_unscored)
    if ranking.stopped_by is not None:
        again = (
            "the ranking is partial. Run the same command again: verdicts in the journal are "
            "not asked again."
        )
        raise TooManyUnscoredError(SettingRef(ranking.stopped_by), f" stopped the run: {again}")
    if ranking.failed > settings.rewards.max_unscored * asked:
        raise TooManyUnscoredError(
            f"{ranking.failed:,} of {asked:,} comparisons failed, more than ", setting, " allows."
        )


def _checked(run: RunContext, options: RankOptions) -> RunContext:
    """Return the run with the plan of its verdicts: each counts alone, and grades give one on every
    pair.
    """
    settings = run.settings
    plan = run.plan
    check_settings(settings)
    check_journal_place(settings)
    refuse_defaults(settings, "policies")
    if settings.offline.is_used:
        raise UsageError(
            naming("a ranking asks the judge itself; omit $requests_to and $replies_from.")
        )
    if options.over is not None and options.policy_field is not None:
        raise UsageError(naming("$over names the field of the policies, too; omit $policy_field."))
    pairing = PairingPlan("all_pairs", both_orders=not plan.compares_pairs, seed=plan.pairing.seed)
    return replace(run, plan=replace(plan, pairing=pairing, keep_replies=False))


def _find_files(given: Sequence[str], run: RunContext) -> list[str]:
    """Return the files that a command line names, each once."""
    if is_one_input(given):
        return [given[0]]
    tasks = list(iter_files(given, changed(run.settings, output=None)))
    for task in tasks:
        if task.problem is not None and names_many(task.uri):
            raise task.problem
    return [task.uri for task in tasks]


def _scored_uris(uris: Sequence[str], settings: Settings) -> list[str]:
    """Return where `genrm score` puts the scored lines of these files; the journals are beside
    them.
    """
    template = settings.output.output_template
    return [
        uri
        if is_stream(uri) or is_scored_file(uri)
        else render_place(template, uri, folder_of(uri))
        for uri in uris
    ]


def _journal_for(uris: Sequence[str], settings: Settings) -> str:
    """Return the output whose journal `genrm score` uses for these inputs together."""
    scored = _scored_uris(uris, settings)
    return scored[0] if len(scored) == 1 else f"{stem_of_set(scored)}.scored.jsonl"


@contextmanager
def _reading(uris: Sequence[str], options: RankOptions, run: RunContext) -> Iterator[Contest]:
    """Read the inputs and find the policies; blocks."""
    first = FirstRejects()
    contest = Contest(options, run.settings.input.group_by, run.plan)
    with (
        Sources(uris, run, ", ".join(uris) if len(uris) > 1 else None) as sources,
        index_input(sources, run, first, contest) as index,
    ):
        # Rollouts that share an index are samples of one policy here, and no duplicates.
        refuse_input(
            index, first, strict=run.settings.input.strict and run.metrics.rejected_lines > 0
        )
        contest.find_prompts(index)
        yield contest


def _choose(
    work: ContestJudging, judges: JudgeSet, journal: Journal | None, run: RunContext
) -> RankPlan:
    """Choose the comparisons, count those that are known, and estimate the others."""
    is_known = journal is not None and journal.has_verdicts
    metrics = run.metrics
    contest = work.contest
    work.choose(judges if is_known else None)
    metrics.known = metrics.known_calls = 0
    if is_known:
        add_known((group for _, group in work.iter_groups()), work.plan, judges, metrics)
    return RankPlan(
        policies=tuple(contest.policies),
        prompts=len(work.pairs.chosen),
        pairs=sum(map(len, work.pairs.chosen.values())),
        is_pilot=work.is_pilot,
        left_out=dict(sorted(contest.left_out.items())),
        estimate=estimate_rest(run, journal)
        if has_remote_judge(run.settings)
        else RunEstimate(metrics.comparisons_planned),
        forecast=work.forecast(),
    )
