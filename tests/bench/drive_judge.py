"""Compare many pairs with one judge stack and print the CPU time of this process: run by `run.py`."""

import argparse
import asyncio
import gc
import json
import random
import resource
import string
import time

from genrm_cli.judging.client import Endpoint, JudgeClient
from genrm_cli.judging.engine import Outcome, RemoteJudge, judge_all
from genrm_cli.judging.pacing import RetryPolicy
from genrm_cli.judging.profiles import PROFILES
from genrm_cli.judging.verdict import Exhibit, Verdict

RESPONSE_CHARS = 2_900  # two of them and the conversation make a request of about 6 KB


def iter_exhibits(count: int) -> "list[Exhibit]":
    """Return exhibits whose texts differ in their beginnings, so that the judge's verdicts do."""
    filler = "".join(random.Random(1).choices(string.ascii_lowercase + " ", k=RESPONSE_CHARS))
    conversation = (("user", "Which of these is better?"),)
    return [Exhibit(conversation, f"{place} {filler}", f"{place + 1} {filler}") for place in range(count)]


async def drive_genrm(base_url: str, concurrency: int, count: int) -> int:
    """Run the engine: build requests, send, read, parse; return the number of verdicts."""
    verdicts = 0

    def on_outcome(_: int, outcome: Outcome) -> None:
        nonlocal verdicts
        verdicts += isinstance(outcome.result, Verdict)

    async with JudgeClient(Endpoint(base_url, None, 10.0, 600.0, concurrency)) as client:
        judge = RemoteJudge(client, PROFILES["nemotron"], model="bench", sampling={}, policy=RetryPolicy(5), reask=3)
        await judge_all(iter(enumerate(iter_exhibits(count))), judge, concurrency, on_outcome)
    return verdicts


async def drive_openai(base_url: str, concurrency: int, count: int) -> int:
    """Make the same calls with openai.AsyncOpenAI, only the calls; return the number of replies."""
    import openai

    exhibits = iter(iter_exhibits(count))
    replies = 0
    sampling = PROFILES["nemotron"].sampling

    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:

        async def work() -> None:
            nonlocal replies
            for exhibit in exhibits:
                messages = PROFILES["nemotron"].render_messages(exhibit)
                reply = await client.chat.completions.create(model="bench", messages=messages, **sampling)
                replies += reply.choices[0].message.content is not None

        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(work())
    return replies


def main() -> None:
    """Drive one stack and print its figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stack", choices=("genrm", "openai"))
    parser.add_argument("base_url")
    parser.add_argument("concurrency", type=int)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    drive = drive_genrm if arguments.stack == "genrm" else drive_openai
    gc.collect()
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    answered = asyncio.run(drive(arguments.base_url, arguments.concurrency, arguments.count))
    figures = {
        "cpu_ms_per_comparison": (time.process_time() - cpu_s) / arguments.count * 1e3,
        "comparisons_per_s": arguments.count / (time.perf_counter() - wall_s),
        "answered": answered,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
