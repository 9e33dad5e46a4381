"""The guide's page about trainers, as far as it needs none of them; `make test-loaders` runs the
rest.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from served import texts
from trainers_page import TRAINERS, block, blocks_of, commands, run_python

# Where each block runs; test_commands.py runs those in `sh`.
RUN_IN = [
    ("Trainers", "sh", "test_commands.py"),
    ("Trainers", "console", "test_trainers_page.py"),
    ("TRL", "python", "test_pasted.py"),
    ("verl", "console", "test_pasted.py"),
    ("OpenRLHF", "console", "test_pasted.py"),
    ("OpenRLHF", "json", "test_pasted.py"),
    ("OpenRLHF", "python", "test_pasted.py"),
    ("OpenRLHF", "console", "test_pasted.py"),
    ("slime", "console", "test_slime.py"),
    ("slime", "yaml", "test_slime.py"),
    ("NeMo Gym", "console", "test_pasted.py"),
    ("NeMo RL", "python", "test_checked_adapters.py"),
    ("NeMo RL", "yaml", "test_checked_adapters.py"),
    ("verifiers", "python", "test_verifiers_env.py"),
    ("prime-rl", "python", "test_checked_adapters.py"),
    ("SkyRL", "python", "test_skyrl.py"),
    ("ART", "python", "test_art.py"),
    ("Your own loop", "python", "test_trainers_page.py"),
]


def test_every_block_of_the_page_runs_in_a_test():
    """A new block needs a test; what it needs may be a trainer that only `make test-loaders`
    installs.
    """
    blocks = [(section, language) for section, language, _ in blocks_of(TRAINERS)]
    assert blocks == [named[:2] for named in RUN_IN]


def test_a_server_is_asked_for_rewards_before_a_training(served):
    """The body of the curl command is a group; the reply has a number for each response."""
    [[*_, url, _, body]] = commands("Trainers", served.url)
    reply = served.post(url.removeprefix(served.url), json.loads(body)).json()
    assert reply["status"] == "scored"
    assert [type(reward) for reward in reply["rewards"]] == [float, float]


def test_your_own_loop(served):
    """The snippet gives each response a number."""
    rewards = run_python(block("Your own loop", "python", served.url))["reply"]["rewards"]
    assert [type(reward) for reward in rewards] == [float, float]


def test_openrlhfs_url_and_label(served, judge_server):
    """The URL of the command takes as many samples as it says, and the judge sees the messages of
    the label.
    """
    words, _ = commands("OpenRLHF", served.url)
    url = words[words.index("--reward.remote_url") + 1]
    label = block("OpenRLHF", "json", served.url).replace("prompt-17", "pasted-label")
    bodies = [
        {
            "query": ["<|im|>" + text],
            "prompts": ["<|im|>"],
            "labels": [label],
        }
        for text in [*texts(7, "orl"), ""]
    ]
    waiting = [served.begin(url.removeprefix(served.url), body) for body in bodies]
    replies = [each.json() for each in waiting]
    *rewards, blank = [reward for reply in replies for reward in reply["rewards"]]
    assert blank == pytest.approx(statistics.fmean(rewards))
    assert rewards[0] < blank < rewards[-1]
    asked = str(judge_server.stats()["recent"])
    assert "Why is the sky blue?" in asked
    assert "<|im|>" not in asked


def test_nemo_gyms_folder_is_copied_where_its_command_looks(tmp_path):
    """The resources server and the settings that `config_paths` names."""
    copy, start = block("NeMo Gym", "console", "").removeprefix("$ ").split("\n$ ")
    (tmp_path / "resources_servers").mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    subprocess.run(
        ["bash", "-ec", copy], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True
    )
    named = start.partition("[")[2].partition(",")[0]
    assert (tmp_path / named).is_file()
    assert (tmp_path / named).parents[1].joinpath("app.py").is_file()
