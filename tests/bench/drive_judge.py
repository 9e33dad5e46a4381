"""Compare many pairs with one judge stack and print the CPU time of this process: run by
`run.py`.
"""

import argparse
import asyncio
import gc
import json
import random
import resource
import string
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice, pairwise

from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_groups
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.engine import CachedJudge, JudgeSet, RecallPolicy
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.limit import AdaptiveLimit, Limit
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.verdicts import Outcome, Verdict

GROUP_SIZE = 8
RESPONSE_CHARS = 2_900  # two of them and the conversation make a request of about 6 KB


def iter_texts(count: int) -> Iterator[str]:
    """Yield responses that differ in their beginnings, so that the judge's verdicts do."""
    filler = "".join(random.Random(1).choices(string.ascii_lowercase + " ", k=RESPONSE_CHARS))
    return (f"{number} {filler}" for number in range(count))


def iter_prompts(count: int) -> Iterator[PairwisePrompt]:
    """Yield comparisons of neighbouring responses."""
    conversation = (("user", "Which of these is better?"),)
    return (PairwisePrompt(conversation, *pair) for pair in pairwise(iter_texts(count + 1)))


async def drive_genrm(
    base_url: str,
    concurrency: int,
    count: int,
    *,
    adaptive: bool = False,
    http_client: str = "pyreqwest",
) -> list[float]:
    """Run the whole core: plan groups of 8, build requests, send, parse, journal; return when each
    verdict came.
    """
    verdicts: list[float] = []

    def on_outcome(outcome: Outcome) -> None:
        if isinstance(outcome.result, Verdict):
            verdicts.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/journal.sqlite") as journal:
        async with JudgeClient(
            base_url, None, 10.0, concurrency, http_client=http_client
        ) as client:
            limit = AdaptiveLimit(concurrency) if adaptive else Limit(concurrency)
            pool = EndpointPool([Endpoint(base_url, client, limit)], 300.0, lambda *_: None)
            policy = CallPolicy(600.0, 3600.0, 5)
            remote = RemoteJudge(
                pool, PROFILES["nemotron"], policy, Budget(), model="bench", given={}
            )
            judges = JudgeSet([CachedJudge(remote, journal, RecallPolicy())], on_outcome)
            plan = GroupPlan(judges=(JudgePlan("bench", PROFILES["nemotron"]),))
            texts = iter_texts(count)
            groups = (
                (
                    number,
                    Group.of(
                        "Which of these is better?",
                        list(islice(texts, GROUP_SIZE)),
                        key=str(number),
                    ),
                )
                for number in range(count // GROUP_SIZE)
            )
            await judge_groups(groups, plan, judges, lambda number, judged: None)
    return verdicts


async def drive_openai(base_url: str, concurrency: int, count: int) -> list[float]:
    """Make the same calls with openai.AsyncOpenAI, only the calls; return when each reply came."""
    import openai

    prompts = iter_prompts(count)
    replies: list[float] = []
    sampling = PROFILES["nemotron"].request_fields

    async with openai.AsyncOpenAI(
        base_url=base_url, api_key="none", max_retries=0, timeout=600.0
    ) as client:

        async def work() -> None:
            for prompt in prompts:
                messages = PROFILES["nemotron"].render_messages(prompt)
                reply = await client.chat.completions.create(
                    model="bench", messages=messages, **sampling
                )
                if reply.choices[0].message.content is not None:
                    replies.append(time.perf_counter())

        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(work())
    return replies


def main() -> None:
    """Drive one stack and print its figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stack", choices=("genrm", "genrm-auto", "genrm-httpx", "openai"))
    parser.add_argument("base_url")
    parser.add_argument("concurrency", type=int)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    drives = {
        "genrm": drive_genrm,
        "genrm-auto": partial(drive_genrm, adaptive=True),
        "genrm-httpx": partial(drive_genrm, http_client="httpx"),
        "openai": drive_openai,
    }
    drive = drives[arguments.stack]
    if arguments.stack == "openai":
        import openai  # noqa: F401  (a third of a second, which is no call)
    gc.collect()
    gc.set_threshold(20_000)  # as `genrm` does
    cpu_s = time.process_time()
    wall_s = time.perf_counter()
    answered = asyncio.run(drive(arguments.base_url, arguments.concurrency, arguments.count))
    figures = {
        "cpu_ms_per_comparison": (time.process_time() - cpu_s) / arguments.count * 1e3,
        "comparisons_per_s": arguments.count / (time.perf_counter() - wall_s),
        "middle_per_s": len(answered)
        / 2
        / (answered[3 * len(answered) // 4 - 1] - answered[len(answered) // 4 - 1]),
        "answered": len(answered),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
