"""Ask the judges about the groups of an input, for `score`, `eval` and `rank`.

The steps have one order, because each needs what the one before decided:

1. settle: a judge's profile and context length are part of every request and of its key.
2. recall: groups whose answers the journal, or files of replies, hold are finished. No call is made
   for them, and the plan that is announced has only the rest. A run whose requests go into files
   ends here, unless no group lacks a reply.
3. announce the plan, then probe the judges: a user sees the cost before the first call.
4. ask about the rest.
5. record what stopped the run: a limit counts only if it left a request without an answer.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TypeVar

from genrm_cli.errors import StoppedError
from genrm_cli.groups.check import asks_nothing, why_nothing_is_asked
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import finish_known, judge_groups, recall_group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.estimate import RunEstimate, estimate_rest
from genrm_cli.jobs.index import correct_plan
from genrm_cli.json_types import Record
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.open_judges import OpenJudges
from genrm_cli.metrics.event import Event
from genrm_cli.verdicts import StoppedBy

# Replies of files that wait for a commit: many share one fsync, and memory stays bounded.
_MAX_UNCOMMITTED = 1_000

Tag = TypeVar("Tag")
Keep = Callable[[Tag, JudgedGroup], None]
"""Takes each group as it is finished, with the tag that names it."""


class PlanEvent(Event, frozen=True):
    """The calls that are left to make, for one input if it is named."""

    input: str | None
    estimate: RunEstimate

    def text(self) -> str:
        """Describe the plan."""
        return self.estimate.text()

    def as_dict(self) -> Record:
        """Return the fields of a log line."""
        named: Record = {} if self.input is None else {"input": self.input}
        return named | self.estimate.as_dict()


class JudgingSession:
    """The requests about one input.

    Attributes:
        plan: has the profiles of the judges once they are settled.
    """

    def __init__(
        self,
        judges: OpenJudges,
        plan: GroupPlan,
        run: RunContext,
        journal: Journal | None = None,
    ) -> None:
        """Ask nothing yet; `run` counts what is asked. Without a journal, nothing is recalled, and
        files of replies are not read.
        """
        self.plan = plan
        self._judges = judges
        self._run = run
        self._journal = journal
        self._exchange = None if journal is None else run.exchange

    @cached_property
    def judge_set(self) -> JudgeSet:
        """The judges behind the journal, or behind the exchange."""
        on_outcome = self._run.metrics.add_outcome
        return self._judges.with_journal(self._journal, on_outcome, self._exchange)

    async def settle(self) -> None:
        """Choose the profiles and context lengths of the judges, and announce the judges."""
        await self._judges.settle(self._journal)
        self.plan = self.plan.with_judges(self._judges.specs)
        if self._judges.is_remote and self._exchange is None:
            self._run.progress.pace = self._judges

    async def judge(
        self,
        iter_rest: Callable[[], Iterator[tuple[Tag, Group]]],
        keep: Keep[Tag],
        input_uri: str | None = None,
    ) -> bool:
        """Take all steps after the first; False if groups wait for replies that a later run will
        have.

        Args:
            iter_rest: yields the groups that are not finished.
            keep: takes each group as it is finished.
            input_uri: the input that the announced plan is for.
        """
        metrics = self._run.metrics
        has_verdicts = self._journal is not None and self._journal.has_verdicts
        if self._exchange is not None or has_verdicts or not self._judges.is_remote:
            pending = await self._recall(iter_rest(), keep)
            if self._exchange is not None and self._exchange.end_input(pending):
                return False
        self.announce(input_uri)
        async with self.asking():
            await self.ask(iter_rest(), keep)
        # Failures were replaced by further requests, and what a limit cut off was never made.
        correct_plan(metrics, metrics.finished)
        return True

    def announce(self, input_uri: str | None = None) -> None:
        """Announce what is left to ask, with the estimated cost."""
        if self._judges.is_remote and not asks_nothing(self._run.settings):
            self._run.on_event(PlanEvent(input_uri, estimate_rest(self._run, self._journal)))

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Probe the judges if any request is unanswered, and finally record what stopped the
        run.
        """
        metrics = self._run.metrics
        if metrics.comparisons_planned > metrics.known:
            largest = max(metrics.group_sizes, default=2)
            await self._judges.probe(max(2, self.plan.lists.longest(largest)))
            self.plan = self.plan.with_judges(self._judges.specs)  # with the profiles that it found
        yield
        metrics.stopped_by = self._stopped_by()
        if self._judges.is_remote:
            metrics.latency = self._judges.latencies

    async def ask(self, groups: Iterable[tuple[Tag, Group]], keep: Keep[Tag]) -> None:
        """Ask about groups."""
        await judge_groups(groups, self.plan, self.judge_set, keep)

    async def _recall(self, groups: Iterator[tuple[Tag, Group]], keep: Keep[Tag]) -> int:
        """Finish the groups about which nothing has to be asked, count what is known of all, and
        return how many lack an answer.
        """
        judges = self.judge_set
        metrics = self._run.metrics
        metrics.known = 0
        metrics.known_calls = 0
        requests = 0
        pending = 0

        def recall_some() -> bool:
            """Recall groups until many replies wait for a commit, which belongs to the thread of
            the event loop; return whether no group is left.
            """
            nonlocal requests, pending
            components = self.plan.rewards.settings.components
            for tag, group in groups:
                if self._run.stop.is_set():
                    raise StoppedError
                recalled = recall_group(group, self.plan, judges)
                requests += recalled.requests
                metrics.known += recalled.known
                metrics.known_calls += recalled.known_calls
                if recalled.judged is None:
                    pending += 1
                else:
                    keep(tag, finish_known(recalled.judged, group, components, judges))
                if self._journal is not None and self._journal.entered > _MAX_UNCOMMITTED:
                    return False
            return True

        is_whole = False
        while not is_whole:
            is_whole = await self._run.in_thread(recall_some)
            if self._exchange is not None and self._journal is not None:
                await self._journal.flush()
        correct_plan(metrics, requests)
        return pending

    def _stopped_by(self) -> StoppedBy | None:
        """Return what kept requests from being answered: the deadline cuts off calls, a budget
        prevents new ones.
        """
        metrics = self._run.metrics
        not_asked = metrics.failures_by_kind["not_asked"]
        stopped_by = self._run.shards_stopped_by or self._judges.stopped_by
        if not_asked and (why := why_nothing_is_asked(self._run.settings)):
            return stopped_by or why
        is_cut = not_asked or (stopped_by == StoppedBy.DEADLINE and metrics.failures)
        return stopped_by if is_cut else None
