"""What networks do to requests that wait: no member is lost, and nobody waits for a connection that
something between has forgotten.
"""

import asyncio
import contextlib
import resource
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from served import SHAPES, Served, judge_flags, texts

from genrm_cli.adapters.reward_client import RewardClient

SCRIPT = Path(__file__).parents[2] / "rude_network.py"


@contextlib.contextmanager
def between(served, kind, limit_s=0.0):
    """Keep a process between a client and a server; its URL."""
    port = "0" if served is None else served.url.rpartition(":")[2]
    command = [sys.executable, SCRIPT, port, kind, str(limit_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


async def members(client, group, delays_s):
    """Send the members of a group, each after its delay; their rewards."""

    async def send(member, delay_s):
        await asyncio.sleep(delay_s)
        text = texts(len(delays_s), group)[member]
        return await client.score_member(group, str(member), len(delays_s), "Why?", text)

    sent = [send(member, delay_s) for member, delay_s in enumerate(delays_s)]
    replies = await asyncio.gather(*sent)
    assert {reply["group_status"] for reply in replies} == {"scored"}
    return [reply["reward"] for reply in replies]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "limit_s"), [("cut", 2), ("forget", 2), ("page", 2)])
def test_a_cohort_comes_together_through_a_rude_network(served, kind, limit_s):
    """A proxy that gives up after two seconds, a network that forgets, and a proxy that passes on
    what is whole and answers each second request itself: waiting is no absence, and the members
    learn their rewards soon after the last has come.
    """
    with between(served, kind, limit_s) as url:
        client = RewardClient(url, try_for_s=6)
        begun_s = time.monotonic()
        rewards = asyncio.run(members(client, f"rude {kind}", (0, 4, 8, 12)))
    assert rewards == sorted(rewards)
    assert time.monotonic() - begun_s < 60


@pytest.mark.weekly
def test_restarts_count_only_while_the_server_is_away(genrm, judge_server):
    """Two restarts, with legitimate waiting before and between, take longer together than the
    client tries.
    """
    flags = (*judge_flags(judge_server.base_url), "--no-probe", "--drain", "0.1s")

    async def through_restarts(served, port):
        client = RewardClient(served.url, try_for_s=20)
        listen = ("--listen", f"127.0.0.1:{port}")
        asked = asyncio.ensure_future(members(client, "restarts", (0, 0, 65)))
        for _ in range(2):
            await asyncio.sleep(14)  # the client, which pauses for ten, has found it
            await asyncio.to_thread(served.kill)
            await asyncio.sleep(12)
            # Not in a thread, where no signal can be set.
            served = Served(genrm, *flags, *listen)
        try:
            return await asked
        finally:
            await asyncio.to_thread(served.terminate)

    served = Served(genrm, *flags)
    rewards = asyncio.run(through_restarts(served, served.url.rpartition(":")[2]))
    assert rewards == sorted(rewards)


@pytest.mark.slow
def test_a_server_that_is_gone_without_a_word_costs_one_timeout(served):
    """Nothing answers its address: the first group of it waits once to connect, and later ones do
    not wait at all.
    """
    with between(None, "hole") as hole:
        client = RewardClient([hole, served.url])
        names = [f"hole {n}" for n in range(64)]
        groups = [name for name in names if client.url_of(name) == hole][:6]
        took_s = []
        for group in groups:
            begun_s = time.monotonic()
            asyncio.run(members(client, group, (0, 0)))
            took_s.append(time.monotonic() - begun_s)
    assert sum(took_s[1:]) < took_s[0] / 3


@pytest.mark.slow
@pytest.mark.timeout(600)  # 320 clients in one process
def test_members_need_no_descriptor_while_they_wait(serve):
    """40 groups of 8, their members interleaved, at a server that may open 128 files."""
    with serve("--no-probe --drain 0.1s") as served:
        resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (128, 128))
        client = RewardClient(served.url)

        async def all_members():
            given = texts(8)
            asked = [
                client.score_member(f"many {group}", str(member), 8, "Why?", given[member])
                for member in range(8)
                for group in range(40)
            ]
            return await asyncio.gather(*asked)

        replies = asyncio.run(all_members())
    assert {reply["group_status"] for reply in replies} == {"scored"}


@pytest.mark.weekly
def test_a_shape_that_cannot_poll_gets_blanks(served):
    """A network that forgets flows after twenty seconds, and a member that comes after forty."""
    with between(served, "forget", 20) as url, httpx.Client(timeout=60, trust_env=False) as client:
        (path, first), (_, second) = (
            SHAPES["openrlhf"]("blank", n, text, 2) for n, text in enumerate(texts(2))
        )

        async def both():
            asked = asyncio.to_thread(client.post, url + path, json=first)
            waiting = asyncio.ensure_future(asked)
            await asyncio.sleep(40)
            await asyncio.to_thread(client.post, url + path, json=second)
            return await waiting

        reply = asyncio.run(both())
    assert reply.headers["X-Accel-Buffering"] == "no"
    assert reply.text.startswith("  {")
    assert reply.json()["extra_logs"]["genrm_came"] == [2.0]
