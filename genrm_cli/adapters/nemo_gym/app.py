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
        """Send until the server answers; a repeated request gets the same answer."""
        token = os.environ.get(self.config.genrm_token_env)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        ends_s = time.monotonic() + self.config.try_for_s
        while True:
            reply = await request(
                "POST", f"{self.config.genrm_url}/verify", json=row, headers=headers
            )
            if reply.ok:
                return dict(await reply.json())
            said = f"genrm serve: {reply.status} {await reply.text()}"
            if reply.status not in (429, 503):
                raise RuntimeError(said)
            if time.monotonic() > ends_s:
                raise TimeoutError(said)
            await asyncio.sleep(float(reply.headers.get("Retry-After", 5)))


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
