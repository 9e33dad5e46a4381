"""Forward each rollout to `genrm serve`, which waits for its cohort. This file needs NeMo Gym and nothing else."""

import asyncio
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
    """The address of `genrm serve`, and the number of rollouts per prompt."""

    genrm_url: str = "http://127.0.0.1:8330"
    genrm_token_env: str = "GENRM_SERVE_TOKEN"  # noqa: S105  (the name of a variable)
    num_rollouts_per_prompt: int
    try_for_s: float = 300.0


class GenrmVerifyRequest(BaseVerifyRequest):  # type: ignore[misc]
    """A row; further fields are kept."""

    model_config = ConfigDict(extra="allow")


class GenrmVerifyResponse(BaseVerifyResponse):  # type: ignore[misc]
    """The row with its reward."""

    model_config = ConfigDict(extra="allow")


class GenrmServe(SimpleResourcesServer):  # type: ignore[misc]
    """Waits for the cohort of a rollout; a rollout without a reward is a failed judge call."""

    config: GenrmServeConfig

    async def verify(self, body: GenrmVerifyRequest) -> Any:
        """Return the row with its reward.

        Raises:
            JudgeError: there is no reward; the row goes to the failures file.
            RuntimeError: genrm serve refuses the request.
        """
        row = body.model_dump(mode="json")
        try:
            answered = await self._post("/verify", row | {"cohort_size": self.config.num_rollouts_per_prompt})
            if answered.get("_ng_failure_class"):
                raise JudgeError(answered["_ng_failure_judge_error"])
        except JudgeError as error:
            if JudgeError.__module__ != __name__:
                raise
            failure = {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": str(error)}
            return JSONResponse(jsonable_encoder(row | {"reward": 0.0} | failure))
        return GenrmVerifyResponse(**row, reward=float(answered["reward"]))

    async def _post(self, path: str, row: dict[str, Any]) -> dict[str, Any]:
        """Send until the server answers; a repeated request gets the same answer."""
        token = os.environ.get(self.config.genrm_token_env)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        ends_s = time.monotonic() + self.config.try_for_s
        while True:
            reply = await request("POST", self.config.genrm_url + path, json=row, headers=headers)
            if reply.ok:
                return dict(await reply.json())
            said = f"genrm serve: {reply.status} {await reply.text()}"
            if reply.status not in (429, 503):
                raise RuntimeError(said)
            if time.monotonic() > ends_s:
                raise JudgeError(said)
            await asyncio.sleep(float(reply.headers.get("Retry-After", 5)))


if __name__ == "__main__":
    GenrmServe.run_webserver()
