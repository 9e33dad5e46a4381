"""Compare a few responses given by hand or as one compare request."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from genrm_cli.errors import InputError
from genrm_cli.groups.comparisons import Asked, within_budget
from genrm_cli.groups.group_case import GroupCase
from genrm_cli.groups.group_result import GroupResult
from genrm_cli.groups.judge_set import open_judges
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.index import GroupTexts
from genrm_cli.judging.engine import Asking, judge_all
from genrm_cli.judging.requests import Outcome
from genrm_cli.metrics.run_metrics import RunMetrics, reference_metrics
from genrm_cli.rewards.estimators import JudgeFit
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.dialects import DIALECTS
from genrm_cli.rollouts.reading.messages import turns_of_prompt
from genrm_cli.rollouts.record import Rollout, Turn, UnreadableRecordError
from genrm_cli.storage.records import BadLineError, parse_record, parse_value

MAX_RESPONSES = 64


@dataclass(frozen=True, slots=True)
class Compared:
    """What became of the responses.

    Attributes:
        scores: one `{reward, detail}` a response, in the order given.
        comparisons: the records of the comparisons, in the order planned.
        reply: the reference's reply to a compare request. A comparison that failed is not in it, and a
            response without any verdict has the reward null there.
    """

    scores: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    reply: dict[str, Any]


def parse_request(text: bytes, where: str, require_metadata: Sequence[str] = ()) -> list[Rollout]:
    """Read a compare request: `conversation_history`, `response_objs`, and perhaps a `principle`.

    Args:
        text: the request.
        where: what an error calls it.
        require_metadata: `FIELD=VALUE` that the request must declare.

    Raises:
        InputError: it is none, or does not declare what it must; says what was found.
    """
    requirements = [parse_requirement(required) for required in require_metadata]
    try:
        record = parse_record(text)
        rollouts = DIALECTS["compare"].read(record)
    except (BadLineError, UnreadableRecordError) as error:
        raise InputError(
            f"{where}: {error}. Expected a compare request, as in "
            '{"conversation_history": [{"role": "user", "content": "..."}], "response_objs": [...]}.'
        ) from error
    try:
        check_declared(record, requirements)
    except UnreadableRecordError as error:
        raise InputError(f"{where}: {error}.") from error
    return rollouts


def parse_history(text: bytes, where: str) -> tuple[Turn, ...]:
    """Read a conversation: a JSON list of messages, or an object with `messages` or `conversation_history`.

    Raises:
        InputError: it is neither.
    """
    try:
        value = parse_value(text)
        if isinstance(value, dict):
            value = value.get("messages", value.get("conversation_history"))
        if not isinstance(value, list):
            raise UnreadableRecordError("no list of messages")
        return turns_of_prompt(value)
    except (BadLineError, UnreadableRecordError) as error:
        raise InputError(
            f'{where}: {error}. Expected messages, as in [{{"role": "user", "content": "..."}}].'
        ) from error


def compare_responses(rollouts: Sequence[Rollout], run: RunContext) -> Compared:
    """Compare responses to one prompt.

    Raises:
        InputError: fewer than two or more than 64 responses.
        JudgeError: the judge cannot be used.
    """
    if not 2 <= len(rollouts) <= MAX_RESPONSES:
        raise InputError(f"{len(rollouts)} responses are given; expected 2 to {MAX_RESPONSES}.")
    run = replace(run, settings=replace(run.settings, only_components=False))  # there is no journal to take from
    settings, tally = within_budget({len(rollouts): 1}, run.settings), run.tally
    texts = GroupTexts("compare", list(rollouts), [{} for _ in rollouts])
    case = GroupCase(0, list(range(len(rollouts))), texts, False, settings)
    case.compute_local()
    tally.groups, tally.planned = 1, case.planned
    tally.rollouts = tally.rollouts_in_groups = len(rollouts)
    asyncio.run(_judge(case, run))
    conclusion = GroupResult(case, JudgeFit())
    conclusion.count(tally)
    tally.groups_done = 1
    records = list(case.comparison_records(settings.keep_replies))
    return Compared(conclusion.scores, records, _reply(case, conclusion.scores, tally))


async def _judge(case: GroupCase, run: RunContext) -> None:
    def on_outcome(asked: Asked, outcome: Outcome) -> None:
        run.tally.add_outcome(outcome)
        case.add_outcome(asked, outcome)

    async with open_judges(run) as desk:
        judges = desk.judges_with(None, run.settings)

        async def iter_askings() -> AsyncIterator[Asking[Asked]]:
            for asked, shown in case.iter_questions():
                yield Asking(asked, judges[asked.seat], shown, asked.judge_idx)

        if desk.is_remote:
            desk.show_in(run.tally)
        await desk.probe(run)
        await judge_all(iter_askings(), on_outcome)
        run.tally.stopped_by = desk.stopped_by


def _reply(case: GroupCase, scores: list[dict[str, Any]], tally: RunMetrics) -> dict[str, Any]:
    results = [
        {
            "response_i": comparison.i,
            "response_j": comparison.j,
            "judge_idx": comparison.judge_idx,
            "score_1": verdict.score_1,
            "score_2": verdict.score_2,
            "ranking": verdict.ranking,
        }
        for comparison, verdict in case.pairs.verdicts_used().items()
    ]
    return {
        "rewards": [score["reward"] for score in scores],
        "comparison_results": results,
        "metrics": reference_metrics(tally),
    }
