"""Finish the groups of which everything is known, and read replies as they come from elsewhere."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from genrm_cli.errors import StoppedError
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import recall_group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.offline import ReplyStore

_AT_ONCE = 1_000  # replies
Tag = TypeVar("Tag")


@dataclass(slots=True)
class Recalled:
    """Groups that were recalled, their requests, those of known answers with their calls, and
    unfinished groups.
    """

    groups: int = 0
    requests: int = 0
    known: int = 0
    known_calls: int = 0
    waiting: int = 0


def recall_groups(
    groups: Iterator[tuple[Tag, Group]],
    plan: GroupPlan,
    run: RunContext,
    judges: JudgeSet,
    keep: Callable[[Tag, JudgedGroup], None],
    on_waiting: Callable[[int], None] = lambda later: None,
    ends: Callable[[], bool] = lambda: False,
) -> Recalled:
    """Finish the groups about which nothing has to be asked, until `ends`, and count the requests
    of all; blocks.

    Args:
        keep: takes each group as it is finished.
        on_waiting: called for each other group with its later stages of requests.
    """
    found = Recalled()
    for tag, group in groups:
        if run.stop.is_set():
            raise StoppedError
        recalled = recall_group(group, plan, judges)
        found.groups += 1
        found.requests += recalled.requests
        found.known += recalled.known
        found.known_calls += recalled.known_calls
        if recalled.judged is not None:
            keep(tag, recalled.judged)
        else:
            found.waiting += 1
            on_waiting(recalled.later)
        if ends():
            break
    return found


async def waits_for_replies(
    iter_rest: Callable[[], Iterator[tuple[Tag, Group]]],
    plan: GroupPlan,
    run: RunContext,
    judges: JudgeSet,
    offline: tuple[ReplyStore, Journal],
    keep: Callable[[Tag, JudgedGroup], None],
) -> bool:
    """Finish the groups whose replies have come; return whether others wait for replies that a
    later run will have.

    Args:
        iter_rest: yields the groups that are not finished.
        keep: takes each group as it is finished.
    """
    store, journal = offline

    def recall_some() -> Recalled:
        """Recall groups until as many replies wait for a commit, which belongs to the thread of the
        event loop.
        """
        return recall_groups(
            rest, plan, run, judges, keep, store.note_later, lambda: journal.entered > _AT_ONCE
        )

    waiting = 0
    rest = iter_rest()
    while (found := await run.in_thread(recall_some)).groups:
        waiting += found.waiting
        await journal.flush()
    store.end_input(waiting)
    return waiting > 0 and store.is_waiting
