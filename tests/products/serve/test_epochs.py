"""Trainers without group ids of their own, over a real server: whatever is lost, late, repeated or
cancelled, and across restarts, nobody is compared with another epoch.
"""

import asyncio
import os
import random
import re
import signal

import httpx
import pytest
from served import SHAPES

SIZE = 4
FLAGS = "--cohort-deadline 6s --retries 0 --drain 0.1s --no-probe"

# Each row has phases: the epoch, the members that come, and what becomes of all of them. `own`: all
# of the epoch are compared with each other. `short`: those who came in time are. `late`: compared
# with those of the same epoch, and said. `again`: each gets the answer that it had. `gone`: all
# leave before anybody has an answer. `told`: all are told to ask again, and nobody does.
ROWS = {
    "nothing is lost": "1 0123 own, 2 0123 own, 3 0123 own",
    "one is lost": "1 012 short, 2 3012 own, 3 0123 own",
    "one is lost in each epoch": "1 012 short, 2 301 short, 3 2013 own",
    "two are lost": "1 01 short, 2 2301 own",
    "all but two are lost twice": "1 03 short, 2 120 short, 3 3120 own",
    "one is late": "1 012 short, 1 3 late, 2 3012 own",
    "one is late and one is lost": "1 01 short, 1 2 late, 2 3012 own",
    "an equal epoch follows": "1 0123 own, 1 3210 own",
    "a reply is lost on the way": "1 0123 own, 1 2 again, 2 3012 own",
    "all are cancelled": "1 012 gone, 2 3012 own",
    "all are told to ask again": "1 012 told, 2 3012 own",
    "all but one are cancelled, twice": "1 0 gone, 2 12 gone, 3 3120 own",
    "one is lost, the next are cancelled": "1 012 short, 2 301 gone, 3 2301 own",
}


def text_of(row, epoch, member):
    """Return a response that names its epoch."""
    return f"({row} epoch {epoch})" + " word" * (1 + (7 * epoch + 3 * int(member)) % 11) * 2


def request(shape, row, epoch, member):
    """Return the request of a member; where a number is required, there is one in any case."""
    path, body = SHAPES[shape](row, int(member), text_of(row, epoch, member), SIZE)
    return path + "&on_failure=mean" * (shape == "openrlhf"), body


def said(reply):
    """Return how many were judged together as far as the reply says, and whether it is late."""
    assert reply.status_code == 200, reply.text
    found = reply.json()
    if "extra_logs" in found:
        return int(found["extra_logs"]["genrm_came"][0]), bool(found["extra_logs"]["genrm_late"][0])
    why = found["failure_reason"] or ""
    is_late = why.startswith("late: compared with")
    if why.startswith("only rollout"):
        return 1, False
    assert bool(found.get("mask_sample")) is is_late, why
    few = re.match(r"only (\d) of", why)
    return int(few[1]) if few else SIZE, is_late


async def play(client, shape, name, phases):
    """Play the phases of a row, and return what went wrong.

    A deadline that passed in vain shows as a missing member.
    """
    for epoch, members, becomes in phases:
        sent = []
        for member in members:
            path, body = request(shape, name, epoch, member)
            if becomes == "told":
                path += f"{'&' if '?' in path else '?'}wait=0"
            sent.append(asyncio.create_task(client.post(path, json=body)))
            await client.get("/healthz")  # the server has read what was sent before
        if becomes == "gone":
            for each in sent:
                each.cancel()
            await asyncio.gather(*sent, return_exceptions=True)
            await client.get("/healthz")
            continue
        replies = await asyncio.gather(*sent)
        if becomes == "told":
            assert {reply.status_code for reply in replies} == {202}
            continue
        found = [said(reply) for reply in replies]
        expected = (SIZE if becomes in ("late", "again") else len(members), becomes == "late")
        if becomes != "late" and set(found) != {expected}:
            return name, epoch, members, found
        if becomes == "late" and not all(is_late for _, is_late in found):
            return name, epoch, members, found
    return None


async def play_all(url, shape, rows, order):
    """Play rows at the same time."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        plays = [play(client, shape, f"{shape}{order} {row}", rows[row]) for row in rows]
        assert not any(await asyncio.gather(*plays))


def phases_of(row, order=0):
    """Return the phases of a row, their members in another order; with 0 in the given one."""
    draw = random.Random(f"{order} {row}")
    phases = []
    for phase in ROWS[row].split(", "):
        epoch, members, becomes = phase.split()
        if order:
            members = "".join(draw.sample(members, len(members)))
        phases.append((int(epoch), members, becomes))
    return phases


def assert_no_epochs_were_mixed(judge_server):
    """No request to the judge shows responses of two epochs."""
    for request in judge_server.stats()["recent"]:
        assert len(set(re.findall(r"\(([^)]* epoch \d)\)", str(request)))) <= 1, request


@pytest.fixture(scope="module")
def short(keep):
    """Keep a server whose cohorts wait for six seconds: even a busy machine sends all."""
    with keep(FLAGS) as served:
        yield served


@pytest.mark.parametrize("shape", ["gym", "openrlhf"])  # with member ids, and without
def test_a_lost_member_and_the_next_epoch(short, judge_server, shape):
    """The index that the last epoch lost comes first, which is the hardest to tell apart."""
    row = "one is lost"
    asyncio.run(play_all(short.url, shape, {row: phases_of(row)}, "first"))
    assert_no_epochs_were_mixed(judge_server)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["gym", "openrlhf"])  # with member ids, and without
@pytest.mark.parametrize("order", range(2))
def test_members_are_compared_with_their_own_epoch(short, judge_server, shape, order):
    """Every row, its members in the order above, which is the hardest, and in random order."""
    rows = {row: phases_of(row, order) for row in ROWS}
    asyncio.run(play_all(short.url, shape, rows, order))
    assert_no_epochs_were_mixed(judge_server)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["gym", "openrlhf"])  # with member ids, and without
def test_a_kill_between_epochs_mixes_none(serve, judge_server, shape):
    """After each phase the server is killed, and another continues with its journal."""
    rows = {row: phases_of(row) for row, phases in ROWS.items() if "late" not in phases}
    for phase in range(3):
        with serve(FLAGS) as served:
            now = {name: phases[phase : phase + 1] for name, phases in rows.items()}
            asyncio.run(play_all(served.url, shape, now, 0))
            served.kill()
    assert_no_epochs_were_mixed(judge_server)


@pytest.mark.slow
def test_a_server_that_stood_still_does_not_take_the_next_epoch_for_late(serve, judge_server):
    """A slow disk or a stopped process keeps it from reading what its clients have sent; the member
    that is held back waits for that.
    """
    idle_s = 2.0

    async def two_epochs(served):
        async with httpx.AsyncClient(base_url=served.url, timeout=60, trust_env=False) as client:
            assert await play(client, "gym", "stopped", [(1, "012", "short")]) is None
            sent = [asyncio.create_task(client.post(path, json=body)) for path, body in held]
            await client.get("/healthz")
            os.kill(served.pid, signal.SIGSTOP)
            try:
                sent += [asyncio.create_task(client.post(path, json=body)) for path, body in rest]
                await asyncio.sleep(1.5 * idle_s)  # what is tested is this time
            finally:
                os.kill(served.pid, signal.SIGCONT)
            return [said(reply) for reply in await asyncio.gather(*sent)]

    held, rest = (
        [request("gym", "stopped", 2, member) for member in members] for members in ("3", "012")
    )
    with serve(f"{FLAGS} --cohort-idle {idle_s}s") as served:
        assert asyncio.run(two_epochs(served)) == [(SIZE, False)] * SIZE
    assert_no_epochs_were_mixed(judge_server)
