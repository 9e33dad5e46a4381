"""The pages for the documentation of trainers, and the folders that go with them, as pasted."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from genrm_process import PACKAGE_ROOT, Genrm, read_lines
from served import serving
from trainers_page import ADAPTERS, NEMO_GYM, TRL, VERL, block, blocks_of, commands, run_python

import genrm_cli.adapters

FOLDERS = Path(genrm_cli.adapters.__path__[0])
GYM = FOLDERS / "nemo_gym"
RECIPE = FOLDERS / "verl_recipe"
PINS = PACKAGE_ROOT / "tests" / "products" / "export" / "loaders"
# `sh` runs in test_commands.py; installations are those of `make test-loaders`.
BLOCKS = {
    TRL: ["console", "sh", "python"],
    NEMO_GYM: ["sh", "console"],
    VERL: ["console", "sh", "bash"],
}
STAND_INS = {
    "fastapi/responses.py": "JSONResponse = dict",
    "pydantic.py": "ConfigDict = dict",
    "nemo_gym/server_utils.py": "request = None",
    "nemo_gym/base_resources_server.py": (
        "class BaseResourcesServerConfig: ...\nclass BaseVerifyRequest: ...\n"
        "class SimpleResourcesServer: ..."
    ),
}


@pytest.fixture(scope="module")
def lexical(tmp_path_factory):
    """Keep a server whose judge counts words."""
    with serving(Genrm(tmp_path_factory.mktemp("lexical")), "--judge", "lexical") as served:
        yield served


def test_the_pages_are_short_and_their_blocks_are_known():
    """A maintainer reads a page in a minute, and each block runs in a test."""
    for page, languages in BLOCKS.items():
        assert [language for _, language, _ in blocks_of(page)] == languages
        assert len((ADAPTERS / f"{page}.md").read_text(encoding="utf-8").split()) <= 250


def test_the_folders_have_what_their_homes_ask_for():
    """The recipe has the page's command, and the versions are those that are tested."""
    assert block("Training", "bash", "http://localhost:8330", VERL) in (
        RECIPE / "train.sh"
    ).read_text(encoding="utf-8")
    required = (RECIPE / "REQUIRED_VERL.txt").read_text(encoding="utf-8")
    (pin,) = [
        line.removeprefix("PIP_INSTALL=pip install ")
        for line in required.splitlines()
        if line.startswith("PIP_INSTALL=")
    ]
    assert pin in (PINS / "without-dependencies.txt").read_text(encoding="utf-8").split()
    assert f"pip install {pin} " in block("Installation", "console", "", VERL)
    trl = block("Installation", "console", "", TRL)
    assert trl.split()[4] in (PINS / "requirements.txt").read_text(encoding="utf-8").split()


def test_the_example_rows_of_nemo_gym_are_rewarded(lexical):
    """Two rollouts of each prompt, as NeMo Gym sends them, are compared with each other."""
    waiting = []
    for task, row in enumerate(read_lines(GYM / "data" / "example.jsonl")):
        for number, text in enumerate(("Yes.", "Yes, and here are the reasons in some detail.")):
            content = [{"type": "output_text", "text": text}]
            output = [{"type": "message", "role": "assistant", "content": content}]
            names = {"_ng_task_index": task, "_ng_rollout_index": number, "cohort_size": 2}
            body = row | names | {"response": {"output": output}}
            waiting.append(lexical.begin("/verify", body))
    rewards = [each.json()["reward"] for each in waiting]
    assert len(rewards) == 10
    assert all(rewards[place] < rewards[place + 1] for place in range(0, 10, 2))


def test_the_folder_of_nemo_gym_passes_its_own_test(tmp_path):
    """Copied where its page says, with NeMo Gym, or stand-ins for what it imports of it."""
    folder = tmp_path / "resources_servers" / "genrm_serve"
    shutil.copytree(GYM, folder)
    copy, start = commands("Quick start", "", NEMO_GYM)
    assert copy[-1] == "resources_servers/genrm_serve"
    named = start[-1].partition("[")[2].partition(",")[0]
    assert (tmp_path / named).is_file()
    for name, text in STAND_INS.items():
        path = tmp_path / name
        if find_spec(name.partition("/")[0].removesuffix(".py")) is not None:
            continue
        path.parent.mkdir(exist_ok=True)
        path.parent.joinpath("__init__.py").touch()
        path.write_text(text)
    subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "tests"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.timeout(900)
@pytest.mark.loader("trl", "datasets")
def test_the_quick_start_of_trl_trains(lexical, model_folder, tmp_path, monkeypatch):
    """The model, the data set and the device are the user's (trl 1.16.0)."""
    import datasets

    monkeypatch.chdir(tmp_path)
    prompts = datasets.Dataset.from_dict({"prompt": ["Why?", "How?"]})
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split: prompts)
    pasted = block("Quick start", "python", lexical.url, TRL)
    pasted = pasted.replace("Qwen/Qwen2.5-0.5B-Instruct", str(model_folder))
    own = "use_cpu=True, bf16=False, max_steps=1, max_completion_length=8, report_to='none', "
    pasted = pasted.replace("GRPOConfig(", f"GRPOConfig({own}")
    history = run_python(pasted)["trainer"].state.log_history
    assert any("genrm/reward" in step for step in history)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.timeout(900)
@pytest.mark.loader("verl", "torch", "ray")
def test_verl_takes_the_options_of_the_recipe():
    """Its own configuration composes them (verl 0.9.1)."""
    from hydra import compose, initialize_config_dir

    [[_, _, module, *options]] = commands("Training", "", VERL, "bash")
    configs = Path(find_spec(module).origin).with_name("config")
    options.remove("$@")
    with initialize_config_dir(str(configs), version_base=None):
        config = compose("ppo_trainer", options)
    assert config.reward.reward_manager.name == "GenrmRewardManager"
    assert config.actor_rollout_ref.rollout.n == 8
