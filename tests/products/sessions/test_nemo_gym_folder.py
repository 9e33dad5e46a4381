"""The folder for NeMo Gym's `resources_servers`: its tasks, and the server that it becomes."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from importlib.resources import files

import httpx
from sessions import sample_set

from genrm_cli.http_server.router import AccessLimits
from genrm_cli.products.sessions.hosting.gymnasium import build_environment_app
from genrm_cli.products.sessions.hosting.hosted import HostedSessions
from genrm_cli.products.sessions.therapy.session import TherapeuticSession
from genrm_cli.settings.file_settings import ServeSettings

FOLDER = files("genrm_cli.adapters").joinpath("nemo_gym_sessions")
STAND_IN = """
class BaseResourcesServerConfig:
    host, port, genrm_flags = "127.0.0.1", 8123, ["--model", "m"]
class SimpleResourcesServer:
    @classmethod
    def load_config_from_global_config(cls):
        return BaseResourcesServerConfig()
"""


async def tasks():
    """Return what the server offers under /tasks."""

    async def nobody(conversation):
        raise AssertionError(conversation)

    sessions = HostedSessions(TherapeuticSession(), sample_set(), nobody, most=1, keep_s=60)
    transport = httpx.ASGITransport(build_environment_app(sessions, AccessLimits(ServeSettings())))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", verify=False
    ) as client:
        return (await client.get("/tasks")).text.splitlines()


def test_the_examples_are_the_first_tasks_of_the_server():
    """The file of five rows is what `GET /tasks` gives."""
    rows = FOLDER.joinpath("data", "example.jsonl").read_text(encoding="utf-8").splitlines()
    offered = asyncio.run(tasks())
    assert [json.loads(row) for row in rows] == [json.loads(row) for row in offered[:5]]


def test_the_folder_becomes_the_server(tmp_path):
    """Where NeMo Gym starts `app.py`, genrm listens on the assigned port, and its own test
    passes.
    """
    folder = tmp_path / "resources_servers" / "therapeutic_session"
    shutil.copytree(str(FOLDER), folder)
    package = tmp_path / "nemo_gym"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "base_resources_server.py").write_text(STAND_IN)
    command = tmp_path / "bin" / "genrm"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\necho "$@"\n')
    command.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path),
    }
    started = subprocess.run(
        [sys.executable, "app.py"], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    assert started.stdout.split() == [
        *("serve", "--environment", "therapeutic_session"),
        *("--listen", "127.0.0.1:8123", "--model", "m"),
    ]
    own_test = [sys.executable, "-m", "unittest", "tests/test_app.py"]
    subprocess.run(own_test, cwd=folder, env=env, check=True, stderr=subprocess.DEVNULL)
