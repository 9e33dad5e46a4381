"""Forward each rollout to `genrm serve`, which waits for its cohort. This file needs NeMo Gym and
nothing else.
"""

import asyncio
import os
import time
from typing import Any

from fastapi.responses import JSONResponse
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import request
from pydantic import ConfigDict


class GenrmServeConfig(BaseResourcesServerConfig):  # type: ignore[misc]
    """The address of `genrm serve`, and the number of rollouts per prompt."""

    genrm_url: str = "http://127.0.0.1:8330"
    genrm_token_env: str = "GENRM_SERVE_TOKEN"  # noqa: S105  (the name of a variable)
    num_rollouts_per_prompt: int
    try_for_s: float = 300.0


class GenrmVerifyRequest(BaseVerifyRequest):  # type: ignore[misc]
    """A row; further fields are kept."""

    model_config = ConfigDict(extra="allow")


class GenrmServe(SimpleResourcesServer):  # type: ignore[misc]
    """Waits for the cohort of a rollout. A row without a reward is masked."""

    config: GenrmServeConfig

    async def verify(self, body: GenrmVerifyRequest) -> JSONResponse:
        """Return the row as `genrm serve` verifies it.

        Raises:
            RuntimeError: genrm serve refuses the request.
        """
        row = body.model_dump(mode="json")
        try:
            row = await self._post(row | {"cohort_size": self.config.num_rollouts_per_prompt})
        except TimeoutError as error:
            row = masked(row, str(error))
        return JSONResponse(row)

    async def _post(self, row: dict[str, Any]) -> dict[str, Any]:
        """Send until the server answers; a repeated request gets the same answer.

        No connection waits for long. Only the time counts in which the server says nothing of its
        own: not that it waits, or is busy.
        """
        token = os.environ.get(self.config.genrm_token_env)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = self.config.genrm_url
        failing_since_s = None
        while True:
            reply = await request("POST", f"{url}/verify?wait=15", json=row, headers=headers)
            if reply.status == 200:
                return dict(await reply.json())
            said = f"genrm serve: {reply.status} {await reply.text()}"
            if reply.status not in (202, 429, 502, 503, 504):
                raise RuntimeError(said)
            lives = reply.status in (202, 429)
            if reply.status in (502, 504):  # of a proxy, which may only be impatient
                lives = (await request("GET", f"{url}/healthz")).ok
            now_s = time.monotonic()
            failing_since_s = None if lives else failing_since_s or now_s
            if failing_since_s is not None and now_s - failing_since_s > self.config.try_for_s:
                raise TimeoutError(said)
            await asyncio.sleep(float(reply.headers.get("Retry-After", 1)))


def masked(row: dict[str, Any], reason: str) -> dict[str, Any]:
    """Return a row without a reward, marked where NeMo Gym and NeMo RL look."""
    return row | {
        "reward": 0.0,  # a placeholder: both require a number
        "mask_sample": True,
        "instance_config": {**(row.get("instance_config") or {}), "mask_sample": True},
        "failure_reason": reason,
        "_ng_failure_class": "judge_failed",
        "_ng_failure_judge_error": reason,
    }


if __name__ == "__main__":
    GenrmServe.run_webserver()
