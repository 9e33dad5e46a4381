"""Training on a server that is killed again and again, with a judge that fails: no reward is
another one.

`SOAK_S=1800 pytest -m weekly -n 0 -s --timeout 0 tests/products/serve/test_soak.py -k adaptive`
soaks for half an hour, and prints figures. By default, each estimator takes half a minute."""

import asyncio
import contextlib
import itertools
import json
import math
import os
import random
import socket
import time
from collections import Counter

import httpx
import pytest
from genrm_process import Genrm, read_lines
from processes import passing_on_signals
from served import SHAPES, Served, judge_flags, reward_in, serving

SOAK_S = float(os.environ.get("SOAK_S", "30"))
CLIENTS = 50
LIMIT_S = 600.0
WAL_BYTES = 5_000_000  # SQLite lets it grow to 1,000 pages, and a commit may be larger
MOST_TOGETHER = 64  # groups that a server records and answers at once
WARM_UP = (
    220  # groups before the kills: about 1,000 comparisons, after which calibrations hardly differ
)
# What a retry repairs. An unreadable reply is none: another pair replaces it, and the rewards are
# those of another set of comparisons.
FAULTS = [
    {"status": 429, "headers": {"Retry-After": "1"}},
    {"status": 500},
    {"status": 503},
    {"reset": "before"},
    {"reset": "mid_body"},
    {"hang": True},
    {"trickle_s": 0.002},
    {"body": "<html>Bad gateway</html>"},
]
FLAGS = "--no-probe --call-timeout 3s --concurrency 64 --cohort-deadline 3600s --retries 20"
NAMES = ("groups", *SHAPES)


def requests_of(shape, number, given):
    """Return the requests of a group; a missing reward is a number where one is required."""
    if shape == "groups":
        return [("/v1/groups", {"messages": f"Why {number}?", "responses": given})]
    asked = [SHAPES[shape](number, place, text, len(given)) for place, text in enumerate(given)]
    for _, body in asked:
        if "_ng_task_index" in body:  # groups of one task would stand under one name in the record
            body["_ng_task_index"] = number
    return [(path + "&on_failure=mean" * ("?size=" in path), body) for path, body in asked]


# A client that leaves asks again: only what is named in the request is certain to be taken for a
# retry then.
PATIENCE_S = dict.fromkeys(("groups", "cohort", "gym attempt"), 4.0)


def texts_of(number):
    """Return the responses of a group; some are blank."""
    rng = random.Random(number)
    given = [
        f"{number}-{place}:" + " word" * rng.randint(1, 80) for place in range(rng.randint(3, 6))
    ]
    if number % 5 == 0:
        given[0] = ""
    return given


def lasting_port():
    """Return a free port that no client gets by chance while the server is down.

    Clients get theirs from 32768 on; a server that begins again would find its own in use.
    """
    for port in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    pytest.fail("no port is free")


class Soak:
    """A server that suffers, one that does not, and the clients of both.

    Attributes:
        counts: groups of each shape, responses, kills, and what clients got in place of replies.
        wrong: rewards that differed, with those of their group.
        most: largest difference of two rewards.
        sizes: after each kill: the share of the time that had passed, groups, and bytes of the
            journal; memory and open files of the server.
    """

    def __init__(self, genrm, judge, calm, *flags):
        address = f"127.0.0.1:{lasting_port()}"
        self.url = f"http://{address}"
        self.calm_url = calm.url
        self.judge = judge
        self._genrm = genrm
        keep = ("--keep", f"{max(120.0, SOAK_S / 15)}s")
        record = ("--record", "served", "--record-every", "5s")
        listen = ("--listen", address)
        self._flags = (*judge_flags(judge.base_url), *flags, *listen, *keep, *record)
        self._numbers = itertools.count()
        self.wrong = []
        self.most = 0.0
        self.sizes = []
        self.counts = Counter()
        self.broken = None
        self._lives = []
        self.begin()

    @property
    def server(self):
        """The server that lives now."""
        return self._lives[-1]

    @property
    def messages(self):
        """What the server said in all of its lives."""
        return "".join(line for life in self._lives for line in life.messages)

    def begin(self):
        """Begin a life of the server."""
        self._lives.append(Served(self._genrm, *self._flags))

    def fail_sometimes(self, rng):
        """Let the judge give each fault to one request in twenty, once."""
        self.judge.behave(fault=FAULTS, fault_share=0.05, fault_times=1, seed=rng.getrandbits(32))

    def disturb(self, rng):
        """Kill the server or its judge at random moments, and start it again; in the last part,
        only the judge.
        """
        begun_s = time.monotonic()
        while (passed := (time.monotonic() - begun_s) / SOAK_S) < 1:
            time.sleep(rng.uniform(0.2, 4.0 if SOAK_S < 300 else 15.0))
            killed = "server" if passed < 0.6 and rng.random() < 0.7 else "judge"
            self.counts[f"kills of the {killed}"] += 1
            if killed == "server":
                self.server.kill()
                self.begin()
            else:
                self.judge.kill()
                time.sleep(rng.uniform(0.0, 1.5))
                self.judge.restart()
                self.fail_sometimes(rng)  # others: it has forgotten which requests it failed
            self.note_sizes(passed)

    def note_sizes(self, passed):
        """Add to the sizes."""
        files = len(os.listdir(f"/proc/{self.server.pid}/fd"))
        groups = sum(self.counts[name] for name in NAMES)
        journal = sum(path.stat().st_size for path in self._genrm.state_folder.rglob("*.sqlite*"))
        self.sizes.append((passed, groups, journal, self.server.memory_bytes(), files))

    async def train(self, rng, tolerance):
        """Let all clients send groups to both servers while the disturbance lasts."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(limits=limits, trust_env=False, verify=False) as client:
            # Only what depends on the calibration needs one that has settled.
            for _ in range(WARM_UP // 20 if tolerance > 1e-6 else 1):
                sent = [self._send(client, "groups", math.inf) for _ in range(20)]
                await asyncio.gather(*sent)
            self.fail_sometimes(rng)
            disturbance = asyncio.create_task(asyncio.to_thread(self.disturb, rng))

            async def send_on(shape):
                while not disturbance.done():
                    await self._send(client, shape, tolerance)

            def note_what_broke(task):
                # Without a server the clients would ask for ever.
                self.broken = task.exception()

            disturbance.add_done_callback(note_what_broke)
            await asyncio.gather(*[send_on(NAMES[place % len(NAMES)]) for place in range(CLIENTS)])
            await disturbance

    async def _send(self, client, shape, tolerance):
        """Get the rewards of a new group from both servers, and compare them."""
        number = next(self._numbers)
        requests = requests_of(shape, number, texts_of(number))

        async def ask(url, limit_s):
            sent = [self._ask(client, url, *each, limit_s) for each in requests]
            replies = await asyncio.gather(*sent)
            if shape == "groups":
                return replies, replies[0].json()["rewards"]
            return replies, [reward_in(reply) for reply in replies]

        asked = (ask(self.url, PATIENCE_S.get(shape, LIMIT_S)), ask(self.calm_url, LIMIT_S))
        (own, found), (_, wanted) = await asyncio.gather(*asked)
        self.counts[shape] += 1
        self.counts["responses"] += len(found)
        pairs = [pair for pair in zip(found, wanted, strict=True) if None not in pair]
        most = max((abs(one - other) for one, other in pairs), default=0.0)
        unlike = [one is None for one in found] != [other is None for other in wanted]
        conclusions = {str(each.json()["metrics"]) for each in own if shape == "cohort"}
        if unlike or most > tolerance or len(conclusions) > 1:
            self.wrong.append(f"{shape} {number}: {found}, not {wanted}; {own[0].text[-400:]}")
            print(self.wrong[-1], flush=True)
        if tolerance < math.inf:
            self.most = max(self.most, most)

    async def _ask(self, client, url, path, body, limit_s):
        """Send until there is a reply, as trainers do."""
        while self.broken is None:
            try:
                reply = await client.post(url + path, content=json.dumps(body), timeout=limit_s)
                if reply.status_code == 200:
                    return reply
                assert reply.status_code in (429, 503), reply.text
                self.counts[str(reply.status_code)] += 1
            except httpx.TransportError as error:
                self.counts[type(error).__name__] += 1
            await asyncio.sleep(1.0)
        raise self.broken


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [
        ("simple_tiebreaker", 1e-6),
        ("adaptive", math.inf),  # it depends on the calibration, and so on what was served before
    ],
)
def test_a_soak(tmp_path, start_judge, soak_rng, estimator, tolerance):
    """Every reward is that of an undisturbed server, nothing leaks, and nobody waits at the end.

    All estimators see the same verdicts; only that of the default depends on the calibration, and
    so on the order of groups."""
    calm_genrm, genrm = (Genrm(tmp_path / name) for name in ("calm", "soak"))
    for each in (calm_genrm, genrm):
        each.folder.mkdir()
    judges = [start_judge(), start_judge()]
    flags = (*FLAGS.split(), "--estimator", estimator)
    with (
        passing_on_signals(),  # servers are killed and started in a thread
        serving(calm_genrm, *judge_flags(judges[0].base_url), *flags) as calm,
    ):
        soak = Soak(genrm, judges[1], calm, *flags)
        asyncio.run(soak.train(soak_rng, tolerance))
        soak.note_sizes(1.0)
        print(dict(soak.counts), f"largest difference {soak.most}", *soak.sizes, sep="\n")
        assert not soak.wrong, (len(soak.wrong), soak.wrong[:5])
        soak.server.wait_for(open=0, waiting=0)
        assert not [event for event in soak.server.events() if event["event"] == "deadline"]
        assert soak.server.terminate() == 0
        assert "Traceback" not in soak.messages
    rows = Counter(
        (row["genrm"]["group"], row["genrm"]["index"])
        for path in genrm.folder.glob("served/*.scored.jsonl")
        for row in read_lines(path)
    )
    assert len(rows) == soak.counts["responses"]
    # A kill between a group's lines and its answer leaves it to be recorded again by the next life.
    assert max(rows.values()) <= 1 + soak.counts["kills of the server"]
    unfinished = {group for (group, _), count in rows.items() if count > 1}
    assert len(unfinished) <= MOST_TOGETHER * soak.counts["kills of the server"]
    unkilled = [each for each in soak.sizes if each[0] > 0.7]
    (*_, resident, _), (_, groups, journal, resident_then, files) = unkilled[0], unkilled[-1]
    assert resident_then - resident < 50_000_000  # a server takes 40 MB in its first seconds
    assert files < 200
    assert journal < 1_000_000 + WAL_BYTES + 20_000 * groups
