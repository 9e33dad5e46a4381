"""Judge all groups of an input, a few at a time in memory, then turn verdicts into rewards."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

from genrm_cli.errors import StoppedError
from genrm_cli.groups.check import asks_nothing, why_nothing_is_asked
from genrm_cli.groups.count_group import count_group
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import judge_groups, try_functions
from genrm_cli.groups.reward_group import reward_groups, verdicts_of
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.estimate import estimate_rest
from genrm_cli.jobs.index import InputIndex, correct_plan
from genrm_cli.jobs.offline.read_replies import recall_groups, waits_for_replies
from genrm_cli.jobs.stores import OutcomeStore, ScoreStore
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.opened import OpenJudges
from genrm_cli.metrics.figures import rounded
from genrm_cli.scored.write_lines import comparison_json, scored_line
from genrm_cli.storage.encoding.records import render_record
from genrm_cli.verdicts import StoppedBy

_GROUPS_AT_ONCE = 64  # scored together: many groups cost little more than one
_HELD_AT_ONCE = 4_096  # rollouts, or results of comparisons


async def judge_input(
    index: InputIndex,
    uri: str,
    run: RunContext,
    judges: OpenJudges,
    journal: Journal | None,
    scores: ScoreStore | None = None,
    on_concluded: Callable[[OutcomeStore], Awaitable[None]] | None = None,
) -> bool:
    """Judge all groups of an input and keep their scores; False if they wait for replies that a
    later run will have.

    The judges are settled and announced. What the journal knows, and what needs no judge, comes
    first; then the plan is announced, the judges are probed, and the rest is asked. Without
    `scores` another run concludes."""
    if run.metrics.planned:
        if judges.is_remote:
            await run.in_thread(
                lambda: try_functions((group for _, _, group in index.iter_groups()), index.plan)
            )
        await judges.settle(journal)
        index.plan = index.plan.with_judges(judges.specs)
    store = None if journal is None else run.exchange
    judge_set = judges.with_journal(journal, run.metrics.add_outcome, store)
    if judges.is_remote and store is None:
        run.progress.pace = judges
    with OutcomeStore() as outcomes:

        def keep(number: int, judged: JudgedGroup) -> None:
            verdicts = verdicts_of(judged, index.plan)
            outcomes.keep(number, judged, verdicts.used)
            outcomes.suspects.add_group(judged, verdicts.causes)
            run.metrics.groups_done += 1

        def iter_rest() -> Iterator[tuple[int, Group]]:
            return (
                (number, index.read_group(rows))
                for number, rows in index.iter_rows()
                if number not in outcomes
            )

        if store is not None and journal is not None:
            if await waits_for_replies(
                iter_rest, index.plan, run, judge_set, (store, journal), keep
            ):
                return False
        elif not judges.is_remote or (journal is not None and journal.has_verdicts):
            known = await run.in_thread(
                lambda: recall_groups(iter_rest(), index.plan, run, judge_set, keep)
            )
            run.metrics.known = known.known
            run.metrics.known_calls = known.known_calls
            correct_plan(run.metrics, known.requests)
        if judges.is_remote and not asks_nothing(run.settings):
            run.on_event("plan", {"input": uri, **estimate_rest(run, journal).as_dict()})
        async with asking(judges, run):
            await judge_groups(iter_rest(), index.plan, judge_set, keep)
        correct_plan(run.metrics, run.metrics.finished)
        if scores is not None:
            await run.in_thread(lambda: _conclude(index, run, outcomes, scores))
            if on_concluded is not None:
                await on_concluded(outcomes)
    return True


@asynccontextmanager
async def asking(judges: OpenJudges, run: RunContext) -> AsyncIterator[None]:
    """Probe the judges if any request is unanswered, and finally record what stopped the run."""
    if run.metrics.planned > run.metrics.known:
        await judges.probe()
    yield
    run.metrics.stopped_by = _stopped_by(judges, run)
    if judges.is_remote:
        run.metrics.latencies = judges.latencies


def _stopped_by(judges: OpenJudges, run: RunContext) -> StoppedBy | None:
    """Return what kept requests from being answered: the deadline cuts off calls, a budget prevents
    new ones.
    """
    metrics = run.metrics
    stopped_by = run.shards_stopped_by or judges.stopped_by
    if metrics.failures["not_asked"] and (why := why_nothing_is_asked(run.settings)):
        return stopped_by or why
    is_cut = metrics.failures["not_asked"] or (stopped_by == StoppedBy.DEADLINE and metrics.failed)
    return stopped_by if is_cut else None


def _conclude(
    index: InputIndex, run: RunContext, outcomes: OutcomeStore, scores: ScoreStore
) -> None:
    """Turn the verdicts of each group into rewards, now that the judge is calibrated on all of
    them.
    """
    suspects = outcomes.suspects
    if suspects.suspects:
        expected = suspects.expected(index.plan.pairing, run.metrics.group_sizes)
        run.metrics.caused_failures_by_chance = None if expected is None else rounded(expected)
        if suspects.is_chance(expected):
            index.plan = replace(index.plan, rewards=replace(index.plan.rewards, attributes=False))
            run.metrics.suspects_cleared = suspects.suspects
    statistics = outcomes.statistics(map(len, index.table.iter_groups()))
    calibration = statistics.fit()
    # Inputs are calibrated each on its own, but say together how reliable their rewards are.
    run.metrics.verdict_sums.numbers = statistics.numbers()
    chunk: list[tuple[int, list[int], JudgedGroup]] = []
    is_pooled = index.plan.rewards.advantage == "pooled"

    def conclude_chunk() -> None:
        rewards = reward_groups([judged for _, _, judged in chunk], index.plan, calibration)
        for (number, rows, judged), result in zip(chunk, rewards, strict=True):
            if run.stop.is_set():
                raise StoppedError
            count_group(run.metrics, judged, result, index.plan)
            scored = [scored_line(score, result, index.plan).as_score() for score in result.scores]
            scores.enter_scores(rows, scored, result.variance if is_pooled else None)
            for each in result.comparisons:
                line = render_record(comparison_json(each, with_reply=index.plan.keep_replies))
                scores.comparisons.add(number, line)
        chunk.clear()

    held = 0
    for number, rows in enumerate(index.table.iter_groups()):
        chunk.append((number, rows, judged := outcomes.load(number)))
        held += max(len(rows), len(judged.results))
        if len(chunk) == _GROUPS_AT_ONCE or held > _HELD_AT_ONCE:
            conclude_chunk()
            held = 0
    if chunk:
        conclude_chunk()
