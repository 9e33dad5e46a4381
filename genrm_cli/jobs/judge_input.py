"""Judge all groups of an input, a few at a time in memory, then turn verdicts into rewards."""

from collections.abc import Iterator

from genrm_cli.errors import StoppedError
from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.count_group import count_group
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.index import InputIndex
from genrm_cli.jobs.judging_session import JudgingSession
from genrm_cli.jobs.stores import OutcomeStore, ScoreStore
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.open_judges import OpenJudges
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.scored.write_lines import comparison_json, line_json
from genrm_cli.storage.encoding.records import render_record

_GROUPS_AT_ONCE = 64  # scored together: many groups cost little more than one
_HELD_AT_ONCE = 4_096  # rollouts, or results of comparisons: few groups if they are large


async def judge_input(
    index: InputIndex,
    uri: str,
    run: RunContext,
    judges: OpenJudges,
    journal: Journal | None,
    outcomes: OutcomeStore,
) -> bool:
    """Judge all groups of an input; False if they wait for replies that a later run will have."""
    session = JudgingSession(judges, index.plan, run, journal)
    if run.metrics.comparisons_planned:
        await session.settle()
        index.plan = session.plan

    def keep(number: int, judged: JudgedGroup) -> None:
        outcomes.keep(number, judged)
        run.metrics.groups_done += 1

    def iter_rest() -> Iterator[tuple[int, Group]]:
        for number, rows in index.iter_rows():
            if number not in outcomes:
                yield number, index.read_group(rows)

    return await session.judge(iter_rest, keep, uri)


def conclude(
    index: InputIndex, run: RunContext, outcomes: OutcomeStore, scores: ScoreStore
) -> None:
    """Turn the verdicts of each group into rewards, now that the judge is calibrated on all of
    them.
    """
    # In the order of the groups: the last bits of the sums must not depend on which was answered
    # first.
    statistics = CalibrationStatistics(is_listwise=index.plan.is_listwise)
    for number, rows in enumerate(index.table.iter_groups()):
        if run.stop.is_set():
            raise StoppedError
        verdicts = verdicts_of(outcomes.load(number), index.plan)
        statistics.add_group(len(rows), verdicts.used, verdicts.lists)
    calibration = statistics.fit()
    # Inputs are calibrated each on its own, but say together how reliable their rewards are.
    run.metrics.verdict_sums = statistics.numbers()
    is_pooled = index.plan.rewards.settings.advantage == "pooled"
    for chunk in _iter_chunks(index, outcomes):
        judged_verdicts = [verdicts_of(judged, index.plan) for _, _, judged in chunk]
        rewards = reward_verdicts(judged_verdicts, index.plan, calibration)
        for (number, rows, judged), result in zip(chunk, rewards, strict=True):
            if run.stop.is_set():
                raise StoppedError
            count_group(run.metrics, judged, result, index.plan)
            lines = [line_json(line, index.plan.rewards) for line in result.scores]
            scores.enter_lines(rows, lines, result.variance if is_pooled else None)
            for each in result.comparisons:
                line = render_record(comparison_json(each, with_reply=index.plan.keep_replies))
                scores.comparisons.add(number, line)


def _iter_chunks(
    index: InputIndex, outcomes: OutcomeStore
) -> Iterator[list[tuple[int, list[int], JudgedGroup]]]:
    """Yield number, rows and results of the groups, some at a time."""
    chunk: list[tuple[int, list[int], JudgedGroup]] = []
    held = 0
    for number, rows in enumerate(index.table.iter_groups()):
        judged = outcomes.load(number)
        chunk.append((number, rows, judged))
        held += max(len(rows), len(judged.results))
        if len(chunk) == _GROUPS_AT_ONCE or held > _HELD_AT_ONCE:
            yield chunk
            chunk = []
            held = 0
    if chunk:
        yield chunk
