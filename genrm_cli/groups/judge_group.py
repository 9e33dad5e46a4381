"""Ask the judges about one group of rollouts."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.groups.asking.begin import begin_group, compute_local
from genrm_cli.groups.asking.stages import iter_stages, prepared
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.judging.engine import Judge, JudgeSet
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.requests import JudgeRequest, RequestId
from genrm_cli.rewards.component import local_kind
from genrm_cli.settings.components import Component
from genrm_cli.tasks import first_error_of, in_thread
from genrm_cli.verdicts import Failure, FailureKind, Outcome

Tag = TypeVar("Tag")


class KnownGroup(Struct, frozen=True):
    """The known results of a group, before any judge is asked.

    Attributes:
        known: requests whose answer is in the journal.
        known_calls: number of calls made for these.
        judged: the group with its results, if no judge needs to be asked; otherwise None.
    """

    requests: int
    known: int
    known_calls: int
    judged: JudgedGroup | None


async def judge_group(
    group: Group,
    plan: GroupPlan,
    judges: JudgeSet,
) -> JudgedGroup:
    """Ask the judges about a group and return everything known about it.

    Several groups may be judged concurrently; they share the judges' limits, budget and journal,
    and make their requests in the order of these calls. When the run is stopped (deadline, budget),
    the remaining requests fail as `not_asked`.

    Args:
        group: the group.
        plan: plan of the run.
        judges: in the order of the plan, judges before graders.

    Raises:
        GenrmError: a judge cannot be used, or the journal cannot be written. Requests in flight are
            cancelled.
    """
    judged = begin_group(group, plan)
    components = plan.rewards.settings.components

    async def ask(id_: RequestId, judge: Judge, request: JudgeRequest, slot: Slot) -> None:
        asked = replace(request, extra=judged.extra)
        _take(judged, id_, await judge.ask(asked, slot), judges, keeps_reply=plan.keep_replies)

    try:
        for number, stage in enumerate(iter_stages(judged, group, plan)):
            # The turn is held until all requests of the stage are made: groups are asked in order,
            # and the first ones end first.
            async with asyncio.TaskGroup() as tasks, judges.turn() as lane:
                if not number and any(map(local_kind, components)):
                    await in_thread(lambda: compute_local(judged, group, components))
                requests = await prepared(stage, judged)
                for id_, request, outcome in judges.iter_recalled(requests):
                    judge = judges[id_.judge]
                    if outcome is not None:
                        judged.extra.count(outcome.reasks)
                    else:
                        slot = await judge.admit(lane)
                        if slot is not None:
                            tasks.create_task(ask(id_, judge, request, slot))
                            continue
                        outcome = Outcome(
                            Failure(FailureKind.NOT_ASKED, f"stopped by {judge.stopped_by}")
                        )
                    _take(judged, id_, outcome, judges, keeps_reply=plan.keep_replies)
                    await judges.yield_regularly()
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None
    judged.sort()
    return judged


async def judge_groups(
    groups: Iterable[tuple[Tag, Group]],
    plan: GroupPlan,
    judges: JudgeSet,
    on_judged: Callable[[Tag, JudgedGroup], None],
) -> None:
    """Judge many groups; memory does not grow with their number.

    Args:
        groups: groups, each with a tag that names it. The next group is taken once the previous one
            has made its requests.
        plan: plan of the run.
        judges: see `judge_group`.
        on_judged: called with the tag and the result of each group as it finishes.

    Raises:
        GenrmError: see `judge_group`; or raised by `groups` or `on_judged`.
    """

    async def judge(tag: Tag, group: Group) -> None:
        on_judged(tag, await judge_group(group, plan, judges))

    try:
        async with asyncio.TaskGroup() as tasks:
            for tag, group in groups:
                tasks.create_task(judge(tag, group))
                await asyncio.sleep(0)  # let the group make its requests
                async with judges.turn():
                    pass
    except BaseExceptionGroup as errors:
        raise first_error_of(errors) from None


def recall_group(group: Group, plan: GroupPlan, judges: JudgeSet) -> KnownGroup:
    """Find the results about a group that are known without asking. Takes the arguments of
    `judge_group`.

    Blocks.

    Raises:
        StorageError: the journal cannot be read.
    """
    judged = begin_group(group, plan)
    first = seen = known = known_calls = 0
    for stage in iter_stages(judged, group, plan):
        for id_, _, outcome in judges.iter_recalled(stage):
            seen += 1
            if outcome is not None:
                known += outcome.from_journal
                known_calls += outcome.from_journal * plan.turns_of(id_.judge)
                judged.extra.count(outcome.reasks)
                judged.results.append(
                    (id_, outcome if plan.keep_replies else without_reply(outcome))
                )
        first = first or seen
        if len(judged.results) < seen:  # the rest depends on what is missing
            break
    requests = max(seen, first + plan.count_further(len(judged.answered)))
    is_known = len(judged.results) >= requests
    return KnownGroup(requests, known, known_calls, judged if is_known else None)


def finish_known(
    judged: JudgedGroup,
    group: Group,
    components: Sequence[Component],
    judges: JudgeSet,
) -> JudgedGroup:
    """Finish a recalled group whose results are all known; calls the user's functions."""
    for _, outcome in judged.results:
        judges.on_outcome(outcome)
    compute_local(judged, group, components)
    judged.sort()
    return judged


def _take(
    judged: JudgedGroup, id_: RequestId, outcome: Outcome, judges: JudgeSet, *, keeps_reply: bool
) -> None:
    judges.on_outcome(outcome)
    judged.results.append((id_, outcome if keeps_reply else without_reply(outcome)))


def without_reply(outcome: Outcome) -> Outcome:
    """Drop the judge's reply."""
    outcome.reply_text = None  # the journal has them; all replies of a run would fill a disk
    return outcome
