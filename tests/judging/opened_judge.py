"""Open a judge as a run does, with a pool, a budget and perhaps a journal, and ask it about groups
of two.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from judge_server_fixture import JudgeServer

from genrm_cli.errors import GenrmError
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.engine import CachedJudge, Judge, JudgeSet, RecallPolicy
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.limit import Limit
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.profiles.profile import AnyProfile
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.tasks import first_error_of
from genrm_cli.verdicts import Failure, Outcome

SHORT = "A word."
LONG = "A full answer that explains itself, step by step, with care."


PLAN = GroupPlan(PairingPlan("all_pairs"), (JudgePlan("m"),), keep_replies=True)


def pair(number: int = 0) -> Group:
    """Make a group of two, which takes one comparison; each number is another question."""
    prompt = (Turn("user", f"Question {number}?"),)
    return Group(str(number), [Rollout(prompt, (Text(SHORT),)), Rollout(prompt, (Text(LONG),))])


async def judge_pairs(
    numbers: Iterable[int],
    judge: Judge,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Judge groups of two, all at once; return the outcome of each."""
    judges = JudgeSet([judge], on_outcome)
    try:
        async with asyncio.TaskGroup() as tasks:
            judging = [
                tasks.create_task(judge_group(pair(number), PLAN, judges)) for number in numbers
            ]
    except ExceptionGroup as errors:
        if isinstance(error := first_error_of(errors), GenrmError):
            raise error from None
        raise
    return [task.result().results[0][1] for task in judging]


def kind_of(outcome: Outcome) -> str | None:
    """Return the kind of the failure, None for a verdict."""
    return outcome.result.kind.value if isinstance(outcome.result, Failure) else None


@dataclass
class Opened:
    """A judge that is open, and what it is made of."""

    remote: RemoteJudge
    pool: EndpointPool
    budget: Budget
    journaled: CachedJudge | None
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    async def ask_all(self, numbers: Iterable[int]) -> dict[int, Outcome]:
        """Judge groups of two; return their outcomes by the order of the call."""
        self.outcomes = dict(
            enumerate(await judge_pairs(numbers, self.journaled or CachedJudge(self.remote)))
        )
        return self.outcomes

    def kinds(self) -> dict[str | None, int]:
        """Count the outcomes by the kind of their failure; None for verdicts."""
        kinds = [kind_of(outcome) for outcome in self.outcomes.values()]
        return {kind: kinds.count(kind) for kind in set(kinds)}


@asynccontextmanager
async def open_judge(
    *base_urls: str,
    concurrency: int = 4,
    budget: Budget | None = None,
    journal: Journal | None = None,
    only_failed: bool = False,
    retries: int = 5,
    call_timeout_s: float = 10.0,
    comparison_timeout_s: float = 60.0,
    give_up_after_s: float = 10.0,
    base_s: float = 0.01,
    profile: AnyProfile | str = "nemotron",
    deadline: tuple[float, float] | None = None,
    given: Mapping[str, Any] | None = None,
) -> AsyncIterator[Opened]:
    """Open a judge with short waits; a deadline is its seconds and those of grace, and `given` what
    replaces the profile's sampling.
    """
    async with AsyncExitStack() as clients:
        endpoints = []
        for base_url in base_urls:
            client = await clients.enter_async_context(JudgeClient(base_url, None, 2, concurrency))
            endpoints.append(
                Endpoint(base_url, client, Limit(concurrency), first_trial_s=0.05, last_trial_s=0.2)
            )
        pool = EndpointPool(endpoints, give_up_after_s, ignore_event)
        policy = CallPolicy(call_timeout_s, comparison_timeout_s, retries, base_s)
        budget = budget or Budget()
        chosen = PROFILES[profile] if isinstance(profile, str) else profile
        remote = RemoteJudge(pool, chosen, policy, budget, model="m", given=given or {})
        if deadline is not None:
            remote.set_deadline(deadline[0], grace_s=deadline[1])
        recall = RecallPolicy(only_failed=only_failed, with_replies=True)
        journaled = None if journal is None else CachedJudge(remote, journal, recall)
        yield Opened(remote, pool, budget, journaled)


def with_judge(use: Callable[[Opened], Any], *base_urls: str, **given: Any) -> Opened:
    """Open a judge, use it, and return it closed; no call may be in flight then."""

    async def run() -> Opened:
        async with open_judge(*base_urls, **given) as opened:
            await asyncio.wait_for(use(opened), 100)
            assert opened.pool.in_flight == 0
        return opened

    return asyncio.run(run())


def ask_all(server: JudgeServer, numbers: Iterable[int], **given: Any) -> Opened:
    """Judge groups of two at a server; return the judge, closed, with their outcomes."""
    return with_judge(lambda opened: opened.ask_all(numbers), server.base_url, **given)


def unopened_judge(
    profile: AnyProfile = PROFILES["nemotron"], on_event: OnEvent = ignore_event, **fields: Any
) -> RemoteJudge:
    """Make a judge without endpoints: it makes requests and reads replies."""
    pool = EndpointPool([], 1, on_event)
    named = {"model": "m", "given": {}} | fields
    return RemoteJudge(pool, profile, CallPolicy(1, 1, 0), Budget(), **named)
