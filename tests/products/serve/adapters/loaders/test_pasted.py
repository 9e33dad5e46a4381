"""The guide's page about trainers, pasted: its Python, and its commands as each trainer's own code
reads them.
"""

import argparse
import ast
import asyncio
import contextlib
import datetime
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from served import texts
from small_server import answering
from test_nemo_gym_server import client_of, in_gym, post, row
from test_openrlhf_url import execute_all
from test_verl_adapter import make_batch
from trainers_page import block, commands, run_python

from genrm_cli.adapters.reward_client import RewardClient

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default"), pytest.mark.timeout(900)]


@pytest.mark.loader("trl", "datasets")
def test_trl(served, model_folder, tmp_path, monkeypatch):
    """The trainer of the snippet trains; the model, the data set and the device are the user's."""
    from datasets import Dataset

    monkeypatch.chdir(tmp_path)
    pasted = block("TRL", "python", served.url).replace("Qwen/Qwen3-8B", str(model_folder))
    pasted = pasted.replace("GRPOConfig(", "GRPOConfig(use_cpu=True, bf16=False, ")
    trainer = run_python(pasted, dataset=Dataset.from_dict({"prompt": ["Why?"]}))["trainer"]
    trainer.args.max_steps = 1
    trainer.train()
    assert any("genrm/reward" in step for step in trainer.state.log_history)


@pytest.mark.loader("verl", "torch", "ray")
def test_verl(served, model_folder):
    """Its configuration takes the options, and its reward workers score a batch (verl 0.9.1)."""
    import ray
    from hydra import compose, initialize_config_dir
    from verl.experimental.reward_loop import RewardLoopManager, migrate_legacy_reward_impl

    [[_, _, module, *options]] = commands("verl", served.url)
    source = Path(find_spec(module).origin)
    assert '@hydra.main(config_path="config", config_name="ppo_trainer"' in source.read_text()
    own = [
        f"actor_rollout_ref.model.path={model_folder}",
        "actor_rollout_ref.rollout.n=3",
        "reward.num_workers=2",
    ]
    with initialize_config_dir(str(source.with_name("config")), version_base=None):
        config = migrate_legacy_reward_impl(compose("ppo_trainer", [*options, *own]))
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    try:
        data = make_batch(
            {
                "pasted-1": texts(3, "verl-pasted"),
                "pasted-2": [*texts(2, "verl-blank"), ""],
            },
            version=1,
        )
        scored = RewardLoopManager(config).compute_rm_score(data)
    finally:
        ray.shutdown()
    first, second = scored.batch["rm_scores"].sum(dim=1).reshape(2, 3).tolist()
    assert first[0] < first[1] < first[2]
    assert second[2] == pytest.approx((second[0] + second[1]) / 2)


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
    *rewards, blank = (
        torch.cat([torch.tensor([each["reward"]]) for each in found]).flatten().tolist()
    )  # as its trainer
    assert rewards[0] < rewards[6]
    assert blank == pytest.approx(sum(rewards) / 7)
    assert [each["extra_logs"]["genrm_unscored"][0] for each in found] == [0.0] * 7 + [1.0]


def parse_as_openrlhf(module, options, monkeypatch):
    """Run what its script does with the command line, up to the training, which needs vLLM and
    DeepSpeed.
    """
    script = ast.parse(Path(find_spec(module).origin).read_text()).body[-1].body
    assert ast.unparse(script.pop()) == "train(args)"
    names = {
        "argparse": argparse,
        "os": os,
        "datetime": datetime.datetime,
    }
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


@pytest.mark.loader("openrlhf", "torch")
def test_the_executor_waits_for_a_server_that_is_busy():
    """Where OpenRLHF's own client gives up after five requests, and its training ends."""
    from genrm_cli.adapters.openrlhf import GenrmExecutor

    busy = (429, {"Retry-After": "0"}, {})
    with answering(*[busy] * 6, (200, {}, {"rewards": [2.5]})) as (url, seen):
        client = RewardClient(f"{url}/openrlhf?size=1")
        executor = type("AgentExecutor", (GenrmExecutor,), {"client": client})()
        assert [each["reward"] for each in execute_all(executor, {None: ["Yes."]})] == [[2.5]]
    assert len(seen) == 7


@pytest.mark.loader("nemo_gym", "ray")
def test_nemo_gym(served, tmp_path):
    """Both commands run: the servers start in processes of their own, and its client gets rewards
    (nemo-gym 0.4.0).

    What would install a server's requirements is told that they are there; the rest of `env.yaml`
    is the user's."""
    import yaml

    head, model = free_ports(2)
    servers = (
        "resources_servers/genrm_serve",
        "responses_api_agents/simple_agent",
        "responses_api_models/openai_model",
    )
    for server in servers:
        (tmp_path / "installed" / server).mkdir(parents=True)
        (tmp_path / "installed" / server / ".venv").symlink_to(sys.prefix)
    own = {"genrm_url": served.url, "num_rollouts_per_prompt": 3}
    policy = {
        "entrypoint": "app.py",
        "openai_base_url": served.url,
        "openai_api_key": "none",
        "openai_model": "policy",
    }
    environment = {
        "skip_venv_if_present": True,
        "uv_venv_dir": str(tmp_path / "installed"),
        "head_server": {"host": "127.0.0.1", "port": head},
        "genrm_serve": {"resources_servers": {"genrm_serve": own | {"port": model}}},
    }
    (tmp_path / "resources_servers").mkdir()
    (tmp_path / "env.yaml").write_text(yaml.safe_dump(environment))
    (tmp_path / "policy.yaml").write_text(
        yaml.safe_dump({"policy_model": {"responses_api_models": {"openai_model": policy}}})
    )
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
