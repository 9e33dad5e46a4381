"""Every command that the README and the guide show runs, in the order of its page."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from genrm_process import SAMPLE_DATA, Genrm, make_rollouts, read_lines
from judge_server_fixture import JudgeServer
from pages import README, TEXTS

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PREFIX = "rl/pixelated/therapeutic_session"


def commands_of(page: str) -> list[str]:
    """Return the lines of unlabelled code blocks that call genrm."""
    blocks = [block.replace("\\\n", "") for language, block in BLOCK.findall(page) if language in ("", "sh")]
    return [line for block in blocks for line in block.splitlines() if line.startswith("genrm ")]


COMMANDS = {name: commands for name, page in TEXTS.items() if (commands := commands_of(page))}


@pytest.fixture
def workplace(tmp_path: Path, judge_server: JudgeServer) -> Genrm:
    """Give the files that the pages name: samples, a labelled set, one in a shape of its own, and a journal."""
    genrm = Genrm(tmp_path / "work")
    genrm.folder.mkdir()
    shutil.copytree(SAMPLE_DATA, genrm.folder / "sample_data")
    shutil.copy(SAMPLE_DATA / "rollouts.jsonl", genrm.folder)
    shutil.copy(SAMPLE_DATA / "labelled-pairs.jsonl", genrm.folder / "pairs.jsonl")
    for number in range(2):
        genrm.write(f"rollouts-rs{number}-chunk0.jsonl", make_rollouts()[number::2])
    genrm.write("mine.jsonl", [{"question": "Why?", "samples": {"text": text}} for text in ("Because.", "No idea.")])
    shim = tmp_path / "bin" / "genrm"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -W error -m genrm_cli "$@"\n')
    shim.chmod(0o755)
    judge = ("--base-url", judge_server.base_url, "--model", "my-genrm")
    genrm.run("score", "rollouts.jsonl", *judge, "-o", "earlier.jsonl", "--journal", "rollouts.journal.sqlite")
    genrm.run("eval", "pairs.jsonl", *judge, "-o", "other.json")
    return genrm


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_runs(
    name: str, workplace: Genrm, judge_server: JudgeServer, s3_bucket: Any, s3: str, tmp_path: Path
) -> None:
    """A command that a page shows ends with exit code 0 where its files and its judge exist."""
    body = b"".join(json.dumps(line).encode() + b"\n" for line in make_rollouts())
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key=f"{PREFIX}/run-7.jsonl", Body=body)
    environment = workplace.environment(
        PATH=f"{tmp_path / 'bin'}:{os.defpath}",
        AWS_ACCESS_KEY_ID="AKTEST",
        AWS_SECRET_ACCESS_KEY="SKTEST",
        AWS_ENDPOINT_URL=s3,
        AWS_DEFAULT_REGION="us-east-1",
    )

    def here(text: str) -> str:
        text = re.sub(r"http://[a-z]+:8000/v1", judge_server.base_url, text)
        return text.replace("s3://bucket/", f"s3://{s3_bucket.name}/")

    for block in (block for language, block in BLOCK.findall(TEXTS[name]) if language == "toml"):
        if block.startswith("base_url"):  # the settings file that the page's commands name
            (workplace.folder / "genrm.toml").write_text(here(block))
    for command in COMMANDS[name]:
        ended = subprocess.run(
            here(command),
            shell=True,
            cwd=workplace.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{command}\n{ended.stderr}"


@pytest.mark.parametrize("block", [block for language, block in BLOCK.findall(README) if language == "json"])
def test_the_lines_of_the_readme_are_read(block: str, workplace: Genrm) -> None:
    """Each line that the README shows is a rollout that genrm recognises."""
    path = workplace.folder / "shown.jsonl"
    path.write_text(block)
    ended = workplace.run("score", path.name, "--judge", "lexical")
    assert ended.code == 0, ended.err
    assert len(read_lines(path.with_name("shown.scored.jsonl"))) == len(block.splitlines())
