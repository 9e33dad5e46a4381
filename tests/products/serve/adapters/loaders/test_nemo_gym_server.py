"""NeMo Gym's own server and client classes with our resources server, against a live server."""

import asyncio
import importlib.util
from pathlib import Path

import httpx
import pytest
from served import texts, verify_row

import genrm_cli.adapters

FOLDER = Path(genrm_cli.adapters.__path__[0]) / "nemo_gym"

pytestmark = pytest.mark.loader("nemo_gym")


def in_gym(work):
    """Run a coroutine with an HTTP client of NeMo Gym, which it keeps for one event loop."""
    from nemo_gym import server_utils

    async def closing():
        async with server_utils.get_global_aiohttp_client():
            return await work

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEMO_GYM_CONFIG_DICT", "{}")
        patch.setattr(server_utils, "_GLOBAL_AIOHTTP_CLIENT", None)
        return asyncio.run(closing())


def client_of(host, port):
    """Make NeMo Gym's own client of a resources server, `genrm`."""
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf

    entry = {"entrypoint": "app.py", "host": host, "port": int(port)}
    names = {"genrm": {"resources_servers": {"genrm": entry}}}
    return ServerClient.model_construct(
        head_server_config=None, global_config_dict=OmegaConf.create(names)
    )


async def post(client, path, body):
    """Send JSON with it."""
    from nemo_gym.server_utils import get_response_json, raise_for_status

    reply = await client.post(server_name="genrm", url_path=path, json=body)
    await raise_for_status(reply)
    return await get_response_json(reply)


def make_server(url, **settings):
    """Make the resources server from its folder and its settings; its ASGI application."""
    from omegaconf import OmegaConf

    spec = importlib.util.spec_from_file_location("app", FOLDER / "app.py")
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    loaded = OmegaConf.load(FOLDER / "configs" / "genrm_serve.yaml").genrm_serve
    given = OmegaConf.to_container(loaded.resources_servers.genrm_serve)
    given |= {"host": "127.0.0.1", "port": 1, "name": "genrm_serve", "genrm_url": url, **settings}
    config = app.GenrmServe.model_fields["config"].annotation.model_validate(given)
    return app.GenrmServe(config=config, server_client=client_of("127.0.0.1", 1)).setup_webserver()


def verify(url, rows, **settings):
    """Send rows to the resources server at once, and return what comes back."""

    async def verify_all():
        transport = httpx.ASGITransport(make_server(url, **settings))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://gym", timeout=None
        ) as client:
            asked = [client.post("/verify", json=each) for each in rows]
            return [reply.json() for reply in await asyncio.gather(*asked)]

    return in_gym(verify_all())


def row(task, number, text):
    """Make a row as an agent sends it to /verify."""
    return verify_row(number, text, f"Why {task}?", _ng_task_index=task, kept={"any": [1]})


def test_a_failed_judge_is_a_failed_row(served, judge_server):
    """The row keeps its fields, goes to the failures of NeMo Gym, and NeMo RL masks it."""
    judge_server.behave(fault={"content": "Both are nice."})
    rows = [row(8, number, text) for number, text in enumerate(texts(2, "gym-failed"))]
    for reply in verify(served.url, rows, num_rollouts_per_prompt=2):
        assert reply["kept"] == {"any": [1]}
        assert reply["_ng_failure_class"] == "judge_failed"
        assert "no reward" in reply["_ng_failure_judge_error"]
        assert reply["instance_config"] == {"mask_sample": True}


def test_nemo_gyms_own_client_posts_a_cohort(served):
    """`ServerClient` (nemo-gym 0.4.0) reaches a server that runs as the resources server itself."""
    client = client_of(*served.url.removeprefix("http://").split(":"))
    given = enumerate(texts(3, "gym-client"))
    rows = [row(9, number, text) | {"cohort_size": 3} for number, text in given]

    async def verify_all():
        assert await post(client, "/seed_session", rows[0]) == {}
        replies = await asyncio.gather(*(post(client, "/verify", each) for each in rows))
        return replies, await post(client, "/aggregate_metrics", {"verify_responses": replies})

    replies, metrics = in_gym(verify_all())
    rewards = [reply["reward"] for reply in replies]
    assert rewards == sorted(rewards)
    assert metrics["agent_metrics"]["mean/reward"] == pytest.approx(sum(rewards) / 3)
