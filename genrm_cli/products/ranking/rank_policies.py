"""Rank policies: read the inputs, ask the judges what is missing, and return the leaderboard."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from genrm_cli.errors import (
    SettingRef,
    TooManyUnscoredError,
    UsageError,
    counted,
    naming,
)
from genrm_cli.groups.check import check_settings, judge_specs, refuse_defaults, without_components
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.inputs import Task, only_task
from genrm_cli.jobs.due.refusals import refuse_input, resume_text
from genrm_cli.jobs.estimate import RunEstimate, add_known, estimate_rest
from genrm_cli.jobs.index import index_input
from genrm_cli.jobs.journals import (
    check_journal_place,
    has_remote_judge,
    known_journal,
    open_journal,
)
from genrm_cli.jobs.judging_session import JudgingSession
from genrm_cli.json_types import Record
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.open_judges import idle_judges, open_judges
from genrm_cli.metrics.event import Event
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.products.ranking.board import Leaderboard, findings
from genrm_cli.products.ranking.contest import Contest, RankOptions
from genrm_cli.products.ranking.leaderboard import build_leaderboard
from genrm_cli.products.ranking.looks import LEAST_PROMPTS
from genrm_cli.products.ranking.pair_plan import Forecast
from genrm_cli.products.ranking.people_labels import (
    LabelledWinRate,
    PolicyLabels,
    labelled_win_rates,
    read_policy_labels,
)
from genrm_cli.scored.describe_run import judge_record
from genrm_cli.scored.json_form import extended, to_json
from genrm_cli.scored.run_record import PanelRecord
from genrm_cli.settings import Settings
from genrm_cli.settings.table import changed
from genrm_cli.verdicts import StoppedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan(Event):
    """The requests of a ranking, and the differences that they can show.

    Attributes:
        prompts: prompts on which policies are compared; `pairs` are pairs of policies on prompts.
        left_out: number of items that do not take part, by what they are.
        forecast: None if the comparisons do not join all policies.
    """

    format: Literal[1] = 1
    policies: tuple[str, ...]
    prompts: int
    pairs: int
    left_out: Mapping[str, int]
    estimate: RunEstimate
    forecast: Forecast | None

    def text(self) -> str:
        """Return the prompts and policies, and the smallest difference that the ranking can show,
        in one line.
        """
        policies = counted(len(self.policies), "policy", "policies")
        planned = f"{policies}, {counted(self.prompts, 'prompt')}, {counted(self.pairs, 'pair')}"
        others = "".join(f"; left out: {count:,} × {what}" for what, count in self.left_out.items())
        return f"{planned}: {self._shows()}{others}"

    def as_dict(self) -> Record:
        """Return the fields of a log line."""
        return to_json(self)

    def _shows(self) -> str:
        if not self.estimate.planned:
            return "no pair needs a judge"
        if self.forecast is None:
            return "they do not join all policies"
        if self.prompts < LEAST_PROMPTS:
            return f"fewer than {LEAST_PROMPTS} prompts cannot show any difference"
        difference = self.forecast.smallest_difference
        half_width = self.forecast.half_width
        if difference is None or half_width is None:
            return "so few comparisons cannot show any difference"
        return (
            f"shows differences from {100 * difference:.1f} points of the win rate in "
            f"{100 * self.forecast.power:.0f} % of cases (95 % interval ±{100 * half_width:.1f})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Leaderboard):
    """A leaderboard, and how it came about.

    Attributes:
        judge: name of the judge or the panel, which `judged_by` describes.
        stopped_by: the limit that left comparisons unasked; None for none.
        calls: made by this run. `known`: verdicts that needed none.
        findings: what the leaderboard says, in sentences.
        labelled: win rates from people's labels beside the verdicts; empty without labels.
    """

    format: Literal[1] = 1
    inputs: tuple[str, ...]
    judge: str
    judged_by: PanelRecord
    stopped_by: StoppedBy | None
    calls: int
    known: int
    plan: RankPlan
    findings: tuple[str, ...]
    labelled: tuple[LabelledWinRate, ...]


def split_options(settings: Settings, **own: Any) -> tuple[RankOptions, Settings]:
    """Return the options of a ranking, some of which are settings, and what the settings say of all
    else.
    """
    options = RankOptions(
        limit=settings.limits.limit,
        seed=settings.pairing.seed,
        **own,
    )
    return options, changed(without_components(settings), together=True, limit=None)


def plan_ranking(given: Sequence[str], options: RankOptions, run: RunContext) -> RankPlan:
    """Plan what `rank_policies` would ask, without a call; blocks."""
    run = _checked(run, options)
    task = _set_of(given, run.settings)
    with ExitStack() as opened:
        contest = opened.enter_context(_reading(task, options, run))
        path = known_journal(task.places.scored, run.settings)
        journal = None if path is None else opened.enter_context(Journal(str(path), read_only=True))
        judges, specs = idle_judges(judge_specs(run.settings), run.open_options, journal)
        contest.choose(run.plan.with_judges(specs))
        return _plan_of(contest, judges, journal, run)


async def rank_policies(
    given: Sequence[str], options: RankOptions, run: RunContext, labels_uri: str | None = None
) -> Ranking:
    """Ask the judges to compare policies where no verdict is known, and return the leaderboard.

    Verdicts go to the journal that `genrm score` uses for these inputs together. The events `plan`
    and `rank_plan` announce the plan before the first call.

    Args:
        given: files, folders, prefixes and patterns.
        options: what to rank.
        run: with the settings of `split_options`; its metrics count the calls.
        labels_uri: people's labels of some prompts.

    Raises:
        GenrmError: a subclass for each kind of failure.
        CancelledError: the run was interrupted, also by SIGTERM.
    """
    run = _checked(run, options)
    task = _set_of(given, run.settings)
    metrics = run.metrics
    with ExitStack() as opened:
        async with (
            cancelled_by_signals(),
            open_judges(run.judge_specs(), run.open_options, run.on_event) as judges,
            open_journal(task.places.scored, run) as journal,
        ):
            session = JudgingSession(judges, run.plan, run, journal)
            await session.settle()

            def plan_contest() -> tuple[Contest, RankPlan, PolicyLabels]:
                contest = opened.enter_context(_reading(task, options, run))
                contest.choose(session.plan)
                labels = PolicyLabels()
                if labels_uri is not None:  # a wrong label must not cost a call
                    texts = contest.prompt_texts()
                    with run.open_source(labels_uri) as source:
                        labels = read_policy_labels(source, contest.policies, texts, contest.chosen)
                plan = _plan_of(contest, judges.with_journal(journal), journal, run)
                return contest, plan, labels

            contest, plan, labels = await run.in_thread(plan_contest)
            session.announce()
            run.on_event(plan)
            async with session.asking():
                await session.ask(contest.iter_groups(), contest.take)
        outcomes = contest.outcomes()
    if not len(outcomes.won):
        failures = metrics.failures_by_kind.most_common()
        kinds = ", ".join(f"{count} × {kind}" for kind, count in failures)
        raise TooManyUnscoredError(f"no comparison has a verdict ({kinds or 'nothing was asked'}).")
    baseline = None if contest.anchor is None else plan.policies[contest.anchor]
    board = build_leaderboard(
        outcomes, baseline=baseline, over=options.over, one_look=options.one_look
    )
    judge = judge_record(run.settings, judges.specs)
    return extended(
        Ranking,
        board,
        inputs=tuple(each.uri for each in task.files),
        judge=str(judge.name),
        judged_by=judge,
        stopped_by=metrics.stopped_by,
        calls=metrics.calls,
        known=metrics.journal_hits,
        plan=plan,
        findings=tuple(findings(board, str(judge.name))),
        labelled=labelled_win_rates(outcomes, sorted(contest.results), labels),
    )


def refuse_partial(ranking: Ranking, settings: Settings) -> None:
    """Refuse a ranking that was stopped early, or of which too much failed, with a
    `TooManyUnscoredError`.
    """
    asked = ranking.failed + ranking.n_verdicts
    setting = SettingRef("max_unscored", settings.rewards.max_unscored)
    if ranking.stopped_by is not None:
        raise TooManyUnscoredError(
            SettingRef(ranking.stopped_by),
            " stopped the run: the ranking is partial. ",
            resume_text(settings),
        )
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
    # Grades give a verdict on each pair in both orders at no further cost; pairs are chosen by the
    # contest.
    pairing = PairingPlan("all_pairs", both_orders=not plan.compares_pairs, seed=plan.pairing.seed)
    return replace(run, plan=replace(plan, pairing=pairing, keep_replies=False))


def _set_of(given: Sequence[str], settings: Settings) -> Task:
    """Return the files of a command line as one set, whose journal is that of `genrm score`."""
    return only_task(given, changed(settings, together=True, output=None, any_prefix=True))


@contextmanager
def _reading(task: Task, options: RankOptions, run: RunContext) -> Iterator[Contest]:
    """Read the inputs and find the policies; blocks."""
    contest = Contest(options, run.settings.input.group_by, run.plan, run.metrics)
    with task.sources(run) as sources, index_input(sources, run, key_of=contest) as index:
        # Rollouts that share an index are samples of one policy here, and no duplicates.
        refuse_input(index, strict=run.settings.input.strict and run.metrics.rejected_lines > 0)
        contest.find_prompts(index)
        yield contest


def _plan_of(
    contest: Contest, judges: JudgeSet, journal: Journal | None, run: RunContext
) -> RankPlan:
    """Count the comparisons that are known, and estimate the others."""
    metrics = run.metrics
    metrics.known = metrics.known_calls = 0
    if journal is not None and journal.has_verdicts:
        add_known((group for _, group in contest.iter_groups()), contest.plan, judges, metrics)
    estimate = RunEstimate(metrics.comparisons_planned)
    if has_remote_judge(run.settings):
        estimate = estimate_rest(run, journal)
    return RankPlan(
        policies=tuple(contest.policies),
        prompts=len(contest.chosen),
        pairs=sum(map(len, contest.chosen.values())),
        left_out=dict(sorted(contest.left_out.items())),
        estimate=estimate,
        forecast=contest.forecast(),
    )
