"""A judge's server in virtual time, and whole runs against it: from comparisons to verdicts,
without a socket.
"""

import asyncio
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from msgspec import structs
from virtual_time import run_in_virtual_time

from genrm_cli.errors import JudgeError
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import judge_groups
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.judging.client import CallError
from genrm_cli.judging.engine import CachedJudge, JudgeSet
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.limit import AdaptiveLimit, Limit
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Verdict

VERDICT = Reply('{"score_1": 4, "score_2": 2, "ranking": 2}', finish_reason="stop")
PLAN = GroupPlan(PairingPlan("all_pairs"), (JudgePlan("m"),))
UNREADABLE = Reply("Both are fine.", finish_reason="stop")


def _read(reply: Reply, shown: PairwisePrompt) -> Verdict | Failure:
    """Read a reply in no time: how replies are parsed does not matter here."""
    del shown
    return (
        Verdict(4, 2, 2)
        if reply.text == VERDICT.text
        else Failure(FailureKind.NO_VERDICT, reply.text)
    )


PROFILE = structs.replace(PROFILES["nemotron"], parse_reply=_read)
BROKEN_PROMPT = "breaks the server"


@dataclass
class SimulatedServer:
    """How a server answers; fields may be changed while it runs.

    Attributes:
        mean_s: mean working time of a call, log-normally distributed with `sigma`.
        capacity: calls that it works on at once.
        refuses: whether it refuses calls beyond its capacity with 429; else it queues them.
        refused_share: share of calls that it refuses with 429, whatever the load.
        broken_share: share of calls that it answers with 500, whatever the load.
        unreadable_share: share of replies without a verdict.
        hanging_share: share of calls that it never answers.
        per_s: calls a second that its token bucket lets through; None has no bucket.
        burst: tokens that the bucket holds.
        refusal_s: time that a refusal takes.
        retry_after_s: what its refusals ask to wait.
    """

    mean_s: float = 0.4
    sigma: float = 0.3
    capacity: float = math.inf
    refuses: bool = False
    refused_share: float = 0.0
    broken_share: float = 0.0
    unreadable_share: float = 0.0
    hanging_share: float = 0.0
    per_s: float | None = None
    burst: float = 1.0
    refusal_s: float = 0.002
    retry_after_s: float | None = None
    seed: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    answered_at_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._working = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._tokens = self.burst
        self._filled_at_s = 0.0

    async def complete(self, body: bytes, timeout_s: float) -> Reply:
        """Answer a call as `JudgeClient.complete` does."""
        self.calls["all"] += 1
        if self._is_refused():
            return await self._fail("refused", FailureKind.RATE_LIMITED)
        if BROKEN_PROMPT.encode() in body or self._dice.random() < self.broken_share:
            return await self._fail("broken", FailureKind.HTTP)
        try:
            async with asyncio.timeout(timeout_s):
                await self._work()
        except TimeoutError:
            self.calls["timed out"] += 1
            raise CallError(Failure(FailureKind.TIMEOUT, "no reply"), may_pass=True) from None
        self.answered_at_s.append(asyncio.get_running_loop().time())
        return UNREADABLE if self._dice.random() < self.unreadable_share else VERDICT

    def _is_refused(self) -> bool:
        if self._dice.random() < self.refused_share or (
            self.refuses and self._working >= self.capacity
        ):
            return True
        if self.per_s is None:
            return False
        now_s = asyncio.get_running_loop().time()
        self._tokens = min(self.burst, self._tokens + (now_s - self._filled_at_s) * self.per_s)
        self._filled_at_s = now_s
        if self._tokens < 1:
            return True
        self._tokens -= 1
        return False

    async def _fail(self, name: str, kind: FailureKind) -> Reply:
        self.calls[name] += 1
        await asyncio.sleep(self.refusal_s)
        raise CallError(Failure(kind, name), may_pass=True, retry_after_s=self.retry_after_s)

    async def _work(self) -> None:
        if self._dice.random() < self.hanging_share:
            await asyncio.sleep(math.inf)
        if self._working >= self.capacity:
            turn = asyncio.get_running_loop().create_future()
            self._queue.append(turn)
            await turn
        self._working += 1
        try:
            mu = math.log(self.mean_s) - self.sigma**2 / 2
            await asyncio.sleep(self._dice.lognormvariate(mu, self.sigma))
        finally:
            self._working -= 1
            while self._queue and self._working < self.capacity:
                turn = self._queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    break


@dataclass
class Run:
    """What a run took, and what came of it."""

    took_s: float = 0.0
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    levels: list[tuple[float, int]] = field(default_factory=list)
    ended_at_s: list[tuple[float, int]] = field(default_factory=list)
    calls: int = 0

    @property
    def failed(self) -> int:
        """Comparisons without a verdict."""
        return sum(isinstance(outcome.result, Failure) for outcome in self.outcomes.values())


def run_judge(
    count: int,
    *servers: SimulatedServer,
    limit: Callable[[], Limit] = lambda: AdaptiveLimit(4096),
    at: dict[float, Callable[[], None]] | None = None,
    broken: Callable[[int], bool] = lambda _: False,
    call_timeout_s: float = 600.0,
    give_up_after_s: float = 300.0,
    deadline_s: float | None = None,
) -> Run:
    """Put so many comparisons before servers in virtual time.

    Args:
        count: comparisons.
        servers: one for each endpoint.
        limit: makes an endpoint's limit.
        at: what happens to the servers at which second.
        broken: whether the comparison of this number breaks every server.
        call_timeout_s: for one call.
        give_up_after_s: as of `--give-up-after`.
        deadline_s: as of `--deadline`.
    """
    run = Run()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        endpoints = [
            Endpoint(f"judge {number}", server, limit()) for number, server in enumerate(servers)
        ]
        pool = EndpointPool(endpoints, give_up_after_s, run.events.append)
        policy = CallPolicy(call_timeout_s, 3600.0, 5)
        budget = Budget()
        judge = RemoteJudge(pool, PROFILE, policy, budget, model="m", given={})
        if deadline_s is not None:
            judge.set_deadline(deadline_s, grace_s=0)
        for time_s, change in (at or {}).items():
            loop.call_later(time_s, change)

        def groups() -> Iterator[tuple[int, Group]]:
            for number in range(count):
                text = BROKEN_PROMPT if broken(number) else "A word."
                prompt = (Turn("user", f"Question {number}?"),)
                yield (
                    number,
                    Group(
                        str(number),
                        [Rollout(prompt, (Text(text),)), Rollout(prompt, (Text("Words."),))],
                    ),
                )

        def on_judged(number: int, judged: JudgedGroup) -> None:
            run.outcomes[number] = judged.results[0][1]
            run.levels.append((loop.time(), pool.limit))
            run.ended_at_s.append((loop.time(), number))

        random.seed(0)  # the waits before retries
        try:
            await judge_groups(groups(), PLAN, JudgeSet([CachedJudge(judge)]), on_judged)
        except JudgeError as error:
            error.took_s = loop.time()
            raise
        run.took_s = loop.time()
        run.calls = budget.calls

    run_in_virtual_time(main())
    return run
