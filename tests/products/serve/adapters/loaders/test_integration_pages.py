"""The pages for the documentation of trainers, and the folders that go with them, as pasted."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from genrm_process import PACKAGE_ROOT, read_lines
from served import gym_response
from trainers_page import ADAPTERS, NEMO_GYM, TRL, VERL, block, blocks_of

PINS = PACKAGE_ROOT / "tests" / "products" / "export" / "loaders"
# `sh` runs in test_commands.py; installations are those of `make test-loaders`.
BLOCKS = {
    TRL: ["console", "sh", "python"],
    NEMO_GYM: ["sh", "console"],
    VERL: ["console", "sh", "bash"],
}


def test_the_pages_are_short_and_their_blocks_are_known():
    """A maintainer reads a page in a minute, and each block runs in a test."""
    for page, languages in BLOCKS.items():
        assert [language for _, language, _ in blocks_of(page)] == languages
        assert len((ADAPTERS / f"{page}.md").read_text(encoding="utf-8").split()) <= 250


def test_the_versions_are_those_that_are_tested():
    """On the pages, and in verl's recipe, which has the command of its page."""
    recipe = ADAPTERS / "verl_recipe"
    script = (recipe / "train.sh").read_text(encoding="utf-8")
    assert block("Training", "bash", "http://localhost:8330", VERL) in script
    required = (recipe / "REQUIRED_VERL.txt").read_text(encoding="utf-8")
    [pin] = re.findall("^PIP_INSTALL=pip install (.*)", required, re.MULTILINE)
    assert pin in (PINS / "without-dependencies.txt").read_text(encoding="utf-8").split()
    assert f"pip install {pin} " in block("Installation", "console", "", VERL)
    trl = block("Installation", "console", "", TRL)
    assert trl.split()[4] in (PINS / "requirements.txt").read_text(encoding="utf-8").split()


def test_the_example_rows_of_nemo_gym_are_rewarded(served):
    """Two rollouts of each prompt, as NeMo Gym sends them, are compared with each other."""
    waiting = []
    for task, row in enumerate(read_lines(ADAPTERS / "nemo_gym" / "data" / "example.jsonl")):
        for number, text in enumerate(("Yes.", "Yes, and here are the reasons in some detail.")):
            names = {"_ng_task_index": task, "_ng_rollout_index": number, "cohort_size": 2}
            body = {**row, **names, "response": gym_response(text)}
            waiting.append(served.begin("/verify", body))
    rewards = [each.json()["reward"] for each in waiting]
    assert len(rewards) == 10
    assert all(rewards[place] < rewards[place + 1] for place in range(0, 10, 2))


@pytest.mark.loader("nemo_gym")
def test_the_folder_of_nemo_gym_passes_its_own_test(tmp_path):
    """Copied where its page says and its command looks."""
    pasted = block("Quick start", "console", "", NEMO_GYM)
    assert pasted == block("NeMo Gym", "console", "")
    copy, start = pasted.removeprefix("$ ").split("\n$ ")
    folder = tmp_path / "resources_servers" / "genrm_serve"
    folder.parent.mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(tmp_path)}
    subprocess.run(["bash", "-ec", copy], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / start.partition("[")[2].partition(",")[0]).is_file()
    words = [sys.executable, "-m", "unittest", "discover", "tests"]
    subprocess.run(words, cwd=folder, env=environment, check=True)
