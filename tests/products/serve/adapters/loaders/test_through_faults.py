"""Trainers' own code through what happens in a week: equal and blank responses, and a judge and a
server that fail.
"""

import asyncio
import json
import threading
import time
import zlib

import pytest
from openrlhf_samples import execute_all
from served import texts
from test_nemo_gym_server import row, verify
from test_verl_adapter import SIZE, load_manager, make_batch, scores_of

OUTAGE_S = 20.0


def ask_trl(url, groups):
    """Call the reward function as `GRPOTrainer` does."""
    from genrm_cli.adapters.trl import GenrmReward

    prompts = [name for name, given in groups.items() for _ in given]
    completions = [text for given in groups.values() for text in given]
    return asyncio.run(GenrmReward(url, on_failure="mean")(prompts, completions))


def ask_verl(url, groups):
    """Score the rows of V1's columns."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())  # which a worker of verl has, too
        found = scores_of(load_manager(url, on_failure="mean"), make_batch(groups, version=1))
        asyncio.set_event_loop(None)
    return [each["reward_score"] for each in found]


def ask_openrlhf(url, groups):
    """Execute each sample with our executor: OpenRLHF's own client does not wait for a server that
    is away.
    """
    from genrm_cli.adapters.openrlhf import GenrmExecutor
    from genrm_cli.adapters.reward_client import RewardClient

    client = RewardClient(f"{url}/openrlhf?size={SIZE}&on_failure=mean")
    executor = type("AgentExecutor", (GenrmExecutor,), {"client": client})()
    found = execute_all(
        executor, {json.dumps({"group_id": name}): given for name, given in groups.items()}
    )
    return [each["reward"][0] for each in found]


def ask_nemo_gym(url, groups):
    """Verify each row with NeMo Gym's own client, at its own server."""
    tasks = {zlib.crc32(name.encode()): given for name, given in groups.items()}
    rows = [
        row(task, number, text)
        for task, given in tasks.items()
        for number, text in enumerate(given)
    ]
    return [each["reward"] for each in verify(url, rows, num_rollouts_per_prompt=SIZE)]


ASK = [
    pytest.param(ask_trl, id="trl", marks=pytest.mark.loader("trl")),
    pytest.param(ask_verl, id="verl", marks=pytest.mark.loader("verl", "torch")),
    pytest.param(ask_openrlhf, id="openrlhf", marks=pytest.mark.loader("openrlhf", "torch")),
    pytest.param(ask_nemo_gym, id="nemo-gym", marks=pytest.mark.loader("nemo_gym")),
]


GROUPS = {f"fault-{number}": texts(SIZE, f"fault-{number}") for number in range(4)}


def assert_in_order(rewards):
    """Each group's longer responses are better."""
    assert len(rewards) == len(GROUPS) * SIZE
    for place in range(0, len(rewards), SIZE):
        own = rewards[place : place + SIZE]
        assert own == sorted(set(own))


@pytest.mark.parametrize("ask", ASK)
def test_equal_and_blank_responses_have_rewards_at_once(served, ask):
    """Equal responses are members of their own, and a blank one gets the mean of its group."""
    name = f"plain-{ask.__name__}"
    short, _, long = texts(SIZE, name)
    equal, blank = (
        ask(served.url, {f"{name}-{each[1]!r}": each}) for each in ([long] * 3, [short, "", long])
    )
    assert equal == pytest.approx([equal[0]] * 3)
    assert blank[1] == pytest.approx((blank[0] + blank[2]) / 2)
    assert blank[0] < blank[2]


@pytest.mark.parametrize("ask", ASK)
def test_a_judge_that_is_away_is_waited_for(serve, judge_server, ask):
    """Rewards come when it is back."""
    with serve() as served:
        judge_server.behave(fault={"status": 503})
        back = threading.Timer(OUTAGE_S, judge_server.behave)
        back.start()
        rewards = ask(served.url, GROUPS)
        assert back.finished.is_set()
    assert_in_order(rewards)


@pytest.mark.parametrize("ask", ASK)
def test_a_server_that_is_killed_is_waited_for(serve, judge_server, ask):
    """SIGKILL in mid-step; the trainer's requests reach the server that takes its place."""
    found = []
    judge_server.behave(latency_s=1.0)
    with serve("--no-probe") as served:
        step = threading.Thread(target=lambda: found.extend(ask(served.url, GROUPS)))
        step.start()
        judge_server.wait_until(lambda stats: stats["in_flight"] > 0)
        served.kill()
    time.sleep(0.5)
    with serve(f"--no-probe --listen {served.url.removeprefix('http://')}"):
        step.join(120)
    assert_in_order(found)
