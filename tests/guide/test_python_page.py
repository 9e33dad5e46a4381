"""The Python examples of the guide run as they stand."""

import asyncio
import re
from typing import Any

from pages import PAGES

LOOP, TRL, OWN = re.findall(r"```python\n(.*?)```", PAGES["python"], re.DOTALL)
PROMPTS = ["What is 2 + 2?"] * 3 + ["Why is the sky blue?"] * 3
COMPLETIONS = ["4", "It is four.", "It is four, since two and two make four."] * 2


def execute(example, server):
    """Run an example with the address of a judge that answers; return its names."""
    names: dict[str, Any] = {}
    assert "http://localhost:8000/v1" in example
    exec(example.replace("http://localhost:8000/v1", server.base_url), names)
    return names


def test_the_plain_loop_prints_a_reward_for_each_response(judge_server, capsys):
    """Each line holds the reward, the reason and the response."""
    tasks = execute(LOOP, judge_server)["TASKS"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        response for _, texts in tasks for response in texts
    ]
    assert all(1 <= float(line.split()[0]) <= 5 for line in lines)


async def test_the_reward_function_returns_one_number_for_each_completion(
    judge_server,
):
    """Texts and messages, as TRL passes them, with its other arguments; longer ones win, and one
    probe is made.
    """
    reward = execute(TRL, judge_server)["reward"]
    prompts = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    completions = [[{"role": "assistant", "content": text}] for text in COMPLETIONS]
    rewards = await reward(
        prompts=PROMPTS, completions=COMPLETIONS, completion_ids=[], trainer_state=None
    )
    assert len(rewards) == 6
    assert rewards[0] < rewards[2]
    calls = len(judge_server.stats()["recent"])
    assert await reward(prompts=prompts, completions=completions) == rewards
    assert len(judge_server.stats()["recent"]) == calls  # neither a probe nor a comparison


def test_the_reward_function_returns_none_where_the_judge_fails(judge_server):
    """TRL leaves a completion out whose reward is None."""
    reward = execute(
        TRL.replace('model="my-judge"', 'model="my-judge", probe=False'), judge_server
    )["reward"]
    judge_server.behave(fault={"content": "Both are nice."})
    assert asyncio.run(reward(prompts=PROMPTS, completions=COMPLETIONS)) == [None] * 6


def test_the_helpers_give_what_the_page_says():
    """Each line's comment is its result."""
    found: dict[str, Any] = {}
    exec(OWN, found)
    said = dict(re.findall(r"^(\w+)(?:, clusters)? = .*  # (.+)$", OWN, re.MULTILINE))
    assert str((found["scaled"], found["clusters"])) == f"({said['scaled']})"
    assert str(found["ranks"]) == said["ranks"]
    assert str(found["merged"]).replace("'", '"') == said["merged"]
