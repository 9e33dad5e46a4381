"""The guide's page about trainers, pasted: its Python, and its commands as each trainer's own code
reads them.
"""

import argparse
import ast
import asyncio
import contextlib
import datetime
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from openrlhf_samples import execute_all
from served import texts
from test_nemo_gym_server import client_of, in_gym, post, row
from test_verl_adapter import make_batch
from trainers_page import TRAINERS, TRL, VERL, block, commands, run_python


@pytest.mark.loader("trl", "datasets")
@pytest.mark.parametrize(("page", "section"), [(TRAINERS, "TRL"), (TRL, "Quick start")])
def test_trl(served, model_folder, tmp_path, monkeypatch, page, section):
    """The trainer of the snippet trains (trl 1.16.0); the model, the data set and the device are
    the user's.
    """
    import datasets

    prompts = datasets.Dataset.from_dict({"prompt": ["Why?", "How?"]})
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split: prompts)
    monkeypatch.chdir(tmp_path)
    pasted = re.sub(
        r'"Qwen/.*"', repr(str(model_folder)), block(section, "python", served.url, page)
    )
    own = "use_cpu=True, bf16=False, max_completion_length=8, report_to='none', "
    pasted = pasted.replace("GRPOConfig(", f"GRPOConfig(max_steps=1, {own}")
    trainer = run_python(pasted, dataset=prompts)["trainer"]
    if page == TRAINERS:  # the other snippet trains by itself
        trainer.train()
    assert any("genrm/reward" in step for step in trainer.state.log_history)


@pytest.mark.loader("verl", "torch", "ray")
def test_verl(served, model_folder):
    """Its configuration takes the options, and its reward workers score a batch (verl 0.9.1)."""
    import ray
    from verl.experimental.reward_loop import RewardLoopManager

    [[_, _, module, *options]] = commands("verl", served.url)
    config = compose_verl(
        module,
        *options,
        f"actor_rollout_ref.model.path={model_folder}",
        "actor_rollout_ref.rollout.n=3",
        "reward.num_workers=2",
    )
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    try:
        groups = {"one": texts(3, "verl-pasted"), "two": [*texts(2, "verl-blank"), ""]}
        scored = RewardLoopManager(config).compute_rm_score(make_batch(groups, version=1))
    finally:
        ray.shutdown()
    first, second = scored.batch["rm_scores"].sum(dim=1).reshape(2, 3).tolist()
    assert first[0] < first[1] < first[2]
    assert second[2] == pytest.approx((second[0] + second[1]) / 2)


@pytest.mark.loader("verl")
def test_the_recipe_of_verl():
    """Its configuration composes the options."""
    [[_, _, module, *options]] = commands("Training", "", VERL, "bash")
    options.remove("$@")
    config = compose_verl(module, *options)
    assert config.reward.reward_manager.name == "GenrmRewardManager"
    assert config.actor_rollout_ref.rollout.n == 8


def compose_verl(module, *options):
    """Return the configuration that verl makes of the options of its command."""
    from hydra import compose, initialize_config_dir
    from verl.experimental.reward_loop import migrate_legacy_reward_impl

    source = Path(find_spec(module).origin)
    assert '@hydra.main(config_path="config", config_name="ppo_trainer"' in source.read_text()
    with initialize_config_dir(str(source.with_name("config")), version_base=None):
        return migrate_legacy_reward_impl(compose("ppo_trainer", list(options)))


@pytest.mark.loader("openrlhf", "torch")
@pytest.mark.parametrize("number", [0, 1], ids=["url", "executor"])
def test_openrlhf(served, number, tmp_path, monkeypatch):
    """Its parser takes the options, and it makes an executor of them that gets rewards (openrlhf
    0.11.2).
    """
    import torch
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    _, _, module, *options = commands("OpenRLHF", served.url)[number]
    monkeypatch.chdir(tmp_path)
    Path("genrm_executor.py").write_text(block("OpenRLHF", "python", served.url))
    args = parse_as_openrlhf(module, options, monkeypatch)
    own = args.train.agent_func_path
    executor = load_as_openrlhf(own) if own else SingleTurnAgentExecutor(args.reward.remote_url)
    label = block("OpenRLHF", "json", served.url).replace("prompt-17", f"prompt-17-{number}")
    found = execute_all(executor, {label: [*texts(7, "openrlhf-pasted"), ""]})
    # As its trainer reads them: what it filters groups by is within its default range.
    joined = torch.cat([torch.tensor([each["reward"]]) for each in found])
    assert {float(torch.as_tensor(each["scores"])) for each in found} == {0.5}
    *rewards, blank = joined.flatten().tolist()
    assert rewards[0] < rewards[6]
    assert blank == pytest.approx(sum(rewards) / 7)
    assert [each["extra_logs"]["genrm_unscored"][0] for each in found] == [0.0] * 7 + [1.0]


def parse_as_openrlhf(module, options, monkeypatch):
    """Run what its script does with the command line, up to the training, which needs vLLM and
    DeepSpeed.
    """
    script = ast.parse(Path(find_spec(module).origin).read_text()).body[-1].body
    assert ast.unparse(script.pop()) == "train(args)"
    names = {"argparse": argparse, "os": os, "datetime": datetime.datetime}
    monkeypatch.setattr(sys, "argv", [module, *options])
    exec(compile(ast.Module(script, []), module, "exec"), names)
    return names["args"]


def load_as_openrlhf(path):
    """Run its own function, whose module needs vLLM."""
    from openrlhf.utils.agent import AgentExecutorBase

    engine = Path(find_spec("openrlhf").origin).with_name("trainer") / "ray" / "vllm_engine.py"
    functions = [
        each for each in ast.parse(engine.read_text()).body if isinstance(each, ast.FunctionDef)
    ]
    [loading] = [each for each in functions if each.name == "_load_agent_executor"]
    names = {"AgentExecutorBase": AgentExecutorBase}
    exec(compile(ast.Module([loading], []), str(engine), "exec"), names)
    return names[loading.name](path)


ENV = """
skip_venv_if_present: true
uv_venv_dir: {}/installed
head_server: {{host: 127.0.0.1, port: {}}}
genrm_serve:
  resources_servers:
    genrm_serve: {{genrm_url: "{}", num_rollouts_per_prompt: 3, port: {}}}
"""
POLICY = """
policy_model:
  responses_api_models:
    openai_model:
      entrypoint: app.py
      openai_base_url: http://127.0.0.1:9
      openai_api_key: none
      openai_model: policy
"""


@pytest.mark.loader("nemo_gym", "ray")
def test_nemo_gym(served, tmp_path):
    """Both commands run: the servers start in processes of their own, and its client gets rewards
    (nemo-gym 0.4.0).

    What would install a server's requirements is told that they are there; the rest of `env.yaml`
    is the user's."""
    head, model = free_ports(2)
    for server in (
        "resources_servers/genrm_serve",
        "responses_api_agents/simple_agent",
        "responses_api_models/openai_model",
    ):
        (tmp_path / "installed" / server).mkdir(parents=True)
        (tmp_path / "installed" / server / ".venv").symlink_to(sys.prefix)
    (tmp_path / "resources_servers").mkdir()
    (tmp_path / "env.yaml").write_text(ENV.format(tmp_path, head, served.url, model))
    (tmp_path / "policy.yaml").write_text(POLICY)
    copy, start = block("NeMo Gym", "console", "").removeprefix("$ ").split("\n$ ")
    environ = os.environ | {
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ['PATH']}",
    }
    subprocess.run(["bash", "-ec", copy], cwd=tmp_path, env=environ, check=True)
    log = tmp_path / "log"
    with log.open("w") as out:
        command = ["bash", "-ec", f"exec {start}"]
        started = subprocess.Popen(
            command, cwd=tmp_path, env=environ, stdout=out, stderr=out, start_new_session=True
        )
    try:
        while "servers ready! Polling" not in log.read_text():
            assert started.poll() is None, log.read_text()
            time.sleep(0.2)
        rows = [row(11, number, text) for number, text in enumerate(texts(3, "gym-pasted"))]
        client = client_of("127.0.0.1", model)

        async def verify_all():
            return await asyncio.gather(*(post(client, "/verify", each) for each in rows))

        rewards = [reply["reward"] for reply in in_gym(verify_all())]
    finally:
        started.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    assert rewards[0] < rewards[1] < rewards[2]


def free_ports(count):
    """Return ports that nothing listens on."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
