"""NeMo Gym's own `gymnasium_agent` plays sessions with a live `genrm serve --environment`."""

import asyncio
import json
from collections import namedtuple

import pytest
import yaml
from genrm_process import Genrm
from served import gym_response, serving
from test_nemo_gym_server import in_gym

pytestmark = pytest.mark.loader("nemo_gym")

SAID = (
    "That sounds really hard, and it makes sense that you feel this way. What is it like for you?"
)
Request = namedtuple("Request", "cookies")
NAMES = """
env: {{resources_servers: {{env: {{entrypoint: app.py, host: 127.0.0.1, port: {}}}}}}}
model: {{responses_api_models: {{model: {{entrypoint: app.py, host: 127.0.0.1, port: {}}}}}}}
"""
AGENT = """
entrypoint: app.py
host: 127.0.0.1
port: 1
name: agent
resources_server: {type: resources_servers, name: env}
model_server: {type: responses_api_models, name: model}
max_steps: 20
"""


async def answer(request):
    """Answer as a model server of NeMo Gym, always with the same turn."""
    from aiohttp import web

    return web.json_response(gym_response(SAID))


async def play(env_port, rows):
    """Let the agent play a session for each row, all at once."""
    from aiohttp import web
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf
    from responses_api_agents.gymnasium_agent.app import (
        GymnasiumAgent,
        GymnasiumAgentConfig,
        GymnasiumAgentRunRequest,
    )

    application = web.Application()
    application.router.add_post("/v1/responses", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    names = OmegaConf.create(NAMES.format(env_port, runner.addresses[0][1]))
    agent = GymnasiumAgent.model_construct(
        config=GymnasiumAgentConfig.model_validate(yaml.safe_load(AGENT)),
        server_client=ServerClient.model_construct(
            head_server_config=None, global_config_dict=names
        ),
    )
    try:
        requests = (GymnasiumAgentRunRequest.model_validate(row) for row in rows)
        return await asyncio.gather(*(agent.run(Request({}), request) for request in requests))
    finally:
        await runner.cleanup()


def test_the_agent_plays_sessions(tmp_path):
    """It takes rows of `/tasks`; the client leaves who hears one sentence only, with its reward
    (nemo-gym 0.4.0).
    """
    with serving(Genrm(tmp_path), "--environment", "therapeutic_session") as served:
        rows = [json.loads(line) for line in served.get("/tasks").text.splitlines()][:4]
        for result in in_gym(play(int(served.url.rpartition(":")[2]), rows)):
            assert result.terminated is True
            assert result.info["end_reason"] == "client_left"
            # A client who left is a gate.
            assert 0 < result.reward < max(result.info["reward_components"].values())
            roles = [item.role for item in result.response.output]
            assert roles == ["assistant", "user"] * (len(roles) // 2) + ["assistant"]
            assert len(roles) == 2 * result.info["turn_index"] - 1
