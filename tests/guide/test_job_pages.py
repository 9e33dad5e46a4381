"""The jobs that pages show for schedulers: their commands run for each number that the scheduler
would set.
"""

import json
import os
import re
import subprocess
import sys

import pytest
from batch_server import serving
from genrm_process import PACKAGE_ROOT, Genrm, make_rollouts, read_lines
from pages import PAGES

PAGE = PAGES["scale"]
SHARDS = 4


@pytest.fixture
def genrm(tmp_path):
    """Give a test the command, and an empty folder to run it in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Genrm(folder)


def write_shards(genrm):
    """Write the rollouts of each prompt into four files."""
    lines = make_rollouts(groups=6, size=4)
    for number in range(4):
        genrm.write(f"rollouts-rs{number // 2}-chunk{number % 2}.jsonl", lines[number::4])


def run_shell(
    command,
    genrm,
    base_url,
    folder,
    *,
    codes=(0,),
    **environment,
):
    """Run a command of the page with genrm on PATH and the test's own judge; return its exit
    code, one of `codes`.
    """
    shim = folder / "bin" / "genrm"
    if not shim.exists():
        shim.parent.mkdir(exist_ok=True)
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} -W error -m genrm_cli "$@"\n')
        shim.chmod(0o755)
    here = command.replace("http://judge:8000/v1", base_url)
    here = here.replace("https://api.openai.com/v1", base_url)
    given = genrm.environment(PATH=f"{shim.parent}:{os.defpath}", **environment)
    ended = subprocess.run(
        ["bash", "-c", here],
        cwd=genrm.folder,
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in codes, ended.stderr
    return ended.returncode


@pytest.mark.slow
def test_the_slurm_array_scores_a_set(genrm, judge_server, tmp_path):
    """The script, run as each task of the array, and the job that follows score every rollout."""
    write_shards(genrm)
    (script,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    (conclude,) = re.findall(r'--wrap "(.*?)"', PAGE, re.DOTALL)
    for task in range(SHARDS):
        numbers = {
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_ARRAY_TASK_COUNT": str(SHARDS),
        }
        run_shell(script, genrm, judge_server.base_url, tmp_path, **numbers)
    asked = judge_server.stats()["requests"]
    run_shell(conclude, genrm, judge_server.base_url, tmp_path)
    assert judge_server.stats()["requests"] == asked
    scored = [line for path in genrm.folder.glob("*.scored.jsonl") for line in read_lines(path)]
    assert [line["genrm"]["status"] for line in scored] == ["scored"] * 24


VLLM = f"""#!{sys.executable}
import json, os, sys
sys.path.insert(0, "{PACKAGE_ROOT / "tests"}")
from answered_requests import answer_file
from pathlib import Path
_, command, _, requests, _, replies, *_ = sys.argv
lines = answer_file(Path(requests), os.environ["JUDGE"])
Path(replies).write_text("".join(json.dumps(line) + "\\n" for line in lines))
"""


@pytest.mark.slow
def test_the_slurm_script_judges_without_an_endpoint(genrm, judge_server, tmp_path):
    """A profile with two turns and unreadable replies take rounds; the script, requeued in between,
    makes them all.
    """
    genrm.write("rollouts.jsonl", make_rollouts())
    judge_server.behave(fault={"content": "no verdict"}, fault_share=0.3, fault_times=1)
    script, _ = re.findall(r"```bash\n(.*?)```", PAGES["no-endpoint"], re.DOTALL)
    vllm = tmp_path / "bin" / "vllm"
    vllm.parent.mkdir()
    vllm.write_text(VLLM)
    vllm.chmod(0o755)
    given = {"JUDGE": judge_server.base_url, "GENRM_PROFILE": "brrm"}
    run_shell(
        script.replace("in $(seq 20)", "in 1").replace("\nscore  #", "\n#"),
        genrm,
        judge_server.base_url,
        tmp_path,
        **given,
    )
    assert not (genrm.folder / "rollouts.scored.jsonl").exists()
    run_shell(script, genrm, judge_server.base_url, tmp_path, **given)
    scored = read_lines(genrm.folder / "rollouts.scored.jsonl")
    assert [line["genrm"]["status"] for line in scored] == ["scored"] * 8


@pytest.mark.slow
def test_the_cron_script_judges_through_a_batch_api(genrm, tmp_path):
    """Run until it exits with 0, it submits each request of two rounds once, and never waits."""
    genrm.write("rollouts.jsonl", make_rollouts())
    _, script = re.findall(r"```bash\n(.*?)```", PAGES["no-endpoint"], re.DOTALL)
    given = {"GENRM_GOAL": "pair", "GENRM_API_KEY": "none"}
    runs = 0
    with serving(looks=1) as server:
        while run_shell(script, genrm, server.url, tmp_path, codes=(0, 6), **given):
            runs += 1
        assert set(server.asked.values()) == {1}
        assert len(server.batches) == 2
    assert runs >= 2
    scored = read_lines(genrm.folder / "rollouts.scored.jsonl")
    assert [line["genrm"]["status"] for line in scored] == ["scored"] * 8


@pytest.mark.slow
def test_the_indexed_job_scores_a_set(genrm, judge_server, s3_bucket, s3, tmp_path):
    """The arguments, run with each index in a pod of its own, and once with --conclude score every
    rollout.
    """
    lines = make_rollouts(groups=6, size=4)
    for number in range(4):
        body = "".join(json.dumps(line) + "\n" for line in lines[number::4])
        s3_bucket.client.put_object(
            Bucket=s3_bucket.name, Key=f"rl/env/rs{number}.jsonl", Body=body.encode()
        )
    (listed,) = re.findall(r"args: \[(.*?)\]\n", PAGE, re.DOTALL)
    arguments = [word.strip().strip('"') for word in listed.split(",")]
    environment = {
        "GENRM_BASE_URL": judge_server.base_url,
        "GENRM_MODEL": "my-genrm",
        "GENRM_MIN_AGE": "0",
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "AKTEST",
        "AWS_SECRET_ACCESS_KEY": "SKTEST",
    }

    def run(words, pod):
        here = [word.replace("s3://bucket/", f"s3://{s3_bucket.name}/") for word in words]
        genrm.run(*here, **environment, XDG_STATE_HOME=str(tmp_path / pod)).ended(0)

    for index in range(SHARDS):
        run(
            [word.replace("$(JOB_COMPLETION_INDEX)", str(index)) for word in arguments],
            f"pod-{index}",
        )
    at = arguments.index("--shard")
    run([*arguments[:at], "--conclude", *arguments[at + 2 :]], "last")
    scored = s3_bucket.client.get_object(Bucket=s3_bucket.name, Key="rl/env/rs3.scored.jsonl")[
        "Body"
    ].read()
    assert [json.loads(line)["genrm"]["group_size"] for line in scored.splitlines()] == [4] * 6
