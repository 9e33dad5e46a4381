"""Forward each rollout to the cohort endpoint of `genrm serve`. This file needs NeMo Gym and nothing else."""

import asyncio
import hashlib
import json
import os
import time
from typing import Any

from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import request
from pydantic import ConfigDict

try:
    from nemo_gym.judge import JudgeError
except ModuleNotFoundError:  # NeMo Gym 0.4.0 and older

    class JudgeError(Exception):  # type: ignore[no-redef]
        """The judge failed."""


class GenrmServeConfig(BaseResourcesServerConfig):  # type: ignore[misc]
    """Where `genrm serve` is, and how many rollouts a prompt has."""

    genrm_url: str = "http://127.0.0.1:8330"
    genrm_token_env: str = "GENRM_SERVE_TOKEN"  # noqa: S105  (the name of a variable)
    num_rollouts_per_prompt: int
    try_for_s: float = 300.0


class GenrmVerifyRequest(BaseVerifyRequest):  # type: ignore[misc]
    """A row; its further fields stay."""

    model_config = ConfigDict(extra="allow")


class GenrmVerifyResponse(BaseVerifyResponse):  # type: ignore[misc]
    """The row with its reward."""

    model_config = ConfigDict(extra="allow")


class GenrmServe(SimpleResourcesServer):  # type: ignore[misc]
    """Waits for the cohort of a rollout; a rollout without a reward is a failed judge call."""

    config: GenrmServeConfig

    async def verify(self, body: GenrmVerifyRequest) -> GenrmVerifyResponse:
        """Return the row with its reward.

        Raises:
            JudgeError: it has none; the row goes to the failures file.
        """
        row = body.model_dump(mode="json")
        try:
            reward = await self._reward_of(row)
        except JudgeError as error:
            if JudgeError.__module__ != __name__:
                raise
            failure = {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": str(error)}
            return JSONResponse(jsonable_encoder(row | {"reward": 0.0} | failure))
        return GenrmVerifyResponse(**row, reward=reward)

    async def _reward_of(self, row: dict[str, Any]) -> float:
        asked = row["responses_create_params"]
        task = row.get("_ng_task_index", row.get("prompt_id"))
        principle = row.get("principle")
        member = row.get("_ng_rollout_index", _digest(row["response"]))
        messages = asked["input"]
        if asked.get("instructions"):
            turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
            messages = [{"role": "system", "content": asked["instructions"]}, *turns]
        question = {"size": self.config.num_rollouts_per_prompt, "messages": messages, "item": row["response"]}
        if principle is not None:
            question["principle"] = principle
        group = _digest([task, asked["input"], principle])
        reply = await self._post(f"/v1/cohorts/{group}/members/{member}", question)
        if reply["reward"] is None:
            raise JudgeError(reply["reason"])
        return float(reply["reward"])

    async def _post(self, path: str, question: dict[str, Any]) -> dict[str, Any]:
        """Send until the server answers; a repeated request gets the same answer."""
        token = os.environ.get(self.config.genrm_token_env)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        ends_s = time.monotonic() + self.config.try_for_s
        while True:
            reply = await request("POST", self.config.genrm_url + path, json=question, headers=headers)
            if reply.ok:
                return dict(await reply.json())
            if reply.status not in (429, 503) or time.monotonic() > ends_s:
                raise JudgeError(f"genrm serve: {reply.status} {await reply.text()}")
            await asyncio.sleep(float(reply.headers.get("Retry-After", 5)))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


if __name__ == "__main__":
    GenrmServe.run_webserver()
