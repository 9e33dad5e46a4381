"""Groups keep to one endpoint each, so that servers find the beginnings of their prompts in their caches."""

import asyncio
import hashlib
import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from statistics import median

import orjson
import pytest
from simulated_server import SimulatedServer
from virtual_time import run_in_virtual_time

from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import judge_groups
from genrm_cli.groups.plan import GroupPlan, JudgePlan, PairingPlan
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.limit import Limit
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool, Slot
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import Reply
from genrm_cli.rollouts.rollout import Rollout, Text, Turn
from genrm_cli.verdicts import Verdict

BLOCK_CHARS = 64
SLOTS = 64
PLAN = GroupPlan(PairingPlan("all_pairs"), (JudgePlan("m"),))


@dataclass
class BlockCacheServer(SimulatedServer):
    """A server that remembers the blocks that prompts begin with, as vLLM does, and forgets the oldest of them."""

    cache_blocks: int = 4_000
    blocks: int = 0
    cached: int = 0
    _seen: OrderedDict[bytes, None] = field(default_factory=OrderedDict)

    async def complete(self, body: bytes, timeout_s: float) -> Reply:
        """Count the blocks of the prompt, and answer."""
        text = "".join(f"{message['role']}{message['content']}" for message in orjson.loads(body)["messages"])
        state, hits = hashlib.sha256(), True
        for start in range(0, len(text) - BLOCK_CHARS, BLOCK_CHARS):
            state.update(text[start : start + BLOCK_CHARS].encode())
            key = state.digest()
            hits = hits and key in self._seen
            self.blocks += 1
            self.cached += hits
            self._seen[key] = None
            self._seen.move_to_end(key)
        while len(self._seen) > self.cache_blocks:
            self._seen.popitem(last=False)
        return await super().complete(body, timeout_s)


class LeastLoadedJudge(RemoteJudge):
    """A judge whose comparisons go wherever there is most room."""

    async def admit(self, lane: int | None = None) -> Slot | None:
        """Wait for any slot."""
        del lane
        return await super().admit()


def groups_of(count: int, size: int, seed: int) -> Iterator[tuple[int, Group]]:
    """Yield groups with long prompts and answers, no two alike."""
    rng = random.Random(seed)
    for number in range(count):
        prompt = (Turn("user", f"Question {number}. " + rng.randbytes(400).hex()),)
        answers = [f"Answer {index}. " + rng.randbytes(300).hex() for index in range(size)]
        yield number, Group(str(number), [Rollout(prompt, (Text(answer),)) for answer in answers])


@cache
def run_fleet(endpoints: int, count: int, size: int, seed: int, *, with_lanes: bool = True) -> tuple[float, float]:
    """Judge groups at so many endpoints that share 64 slots; return the cached share of all blocks, and the time."""
    servers = [BlockCacheServer(seed=seed + number) for number in range(endpoints)]

    async def main() -> float:
        made = [Endpoint(str(number), server, Limit(SLOTS // endpoints)) for number, server in enumerate(servers)]
        pool = EndpointPool(made, 300.0, lambda event, fields: None)
        policy = CallPolicy(600.0, 3600.0, 5, 3)
        kind = RemoteJudge if with_lanes else LeastLoadedJudge
        judge = kind(pool, PROFILES["nemotron"], policy, Budget(), model="m", sampling={})
        judged: list[JudgedGroup] = []
        judges = JudgeSet([judge], lanes=endpoints if with_lanes else 1)
        await judge_groups(groups_of(count, size, seed), PLAN, judges, lambda _, group: judged.append(group))
        assert all(isinstance(outcome.result, Verdict) for group in judged for _, outcome in group.results)
        assert len(judged) == count
        return asyncio.get_running_loop().time()

    took_s = run_in_virtual_time(main())
    return sum(server.cached for server in servers) / sum(server.blocks for server in servers), took_s


@pytest.mark.parametrize(
    "endpoints", [2, pytest.param(4, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_the_cached_share_is_nearly_that_of_one_endpoint(endpoints: int) -> None:
    """Several servers find as much of their prompts in their caches as one would, within 5 points."""
    one, _ = run_fleet(1, 16, 6, 0)
    assert run_fleet(endpoints, 16, 6, 0)[0] >= one - 0.05
    assert run_fleet(endpoints, 16, 6, 0, with_lanes=False)[0] < one - 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("endpoints", "count", "size"), [(2, 32, 6), (4, 2, 14)])
def test_affinity_costs_no_time(endpoints: int, count: int, size: int) -> None:
    """Runs take at most 3 % longer than where each comparison goes to the endpoint with most room; few groups, too."""
    with_lanes = median(run_fleet(endpoints, count, size, seed)[1] for seed in range(3))
    anywhere = median(run_fleet(endpoints, count, size, seed, with_lanes=False)[1] for seed in range(3))
    assert with_lanes <= 1.03 * anywhere
