"""An environment for NeMo RL."""

import asyncio
import json
from typing import Any

import ray
import torch
from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn

from genrm_cli.adapters.reward_client import Json, RewardClient, numbers_in, parse_on_failure, wait_for


class GenrmEnvironment(EnvironmentInterface):  # type: ignore[misc]
    """Scores the samples of each prompt against each other; every episode ends after one turn.

    NeMo RL passes a batch without ids, so samples with the same prompt are a group. It must pass whole
    groups, which asynchronous rollouts do not. It requires a number for every sample.
    """

    def __init__(self, cfg: Json | None = None) -> None:
        """Take the settings: `url`, `on_failure` and others of `RewardClient`."""
        settings = dict(cfg or {})
        self._on_failure = parse_on_failure(settings.pop("on_failure", None))
        self._client = RewardClient(**settings)

    def step(self, message_log_batch: list[Any], metadata: list[Any]) -> Any:
        """Return the rewards of a batch.

        Raises:
            ValueError: a prompt has only one sample.
            MissingRewardError: a sample has no reward.
            RewardServerError: the server refuses, or cannot be reached.
        """
        talks = [[{key: turn[key] for key in ("role", "content")} for turn in log] for log in message_log_batch]
        split = [next(place for place, turn in enumerate(talk) if turn["role"] == "assistant") for talk in talks]
        groups: dict[str, list[int]] = {}
        for row, (talk, place) in enumerate(zip(talks, split, strict=True)):
            groups.setdefault(json.dumps(talk[:place]), []).append(row)
        if any(len(rows) < 2 for rows in groups.values()):
            raise ValueError("a prompt has one sample in this batch; genrm compares samples: no asynchronous rollouts")

        async def ask() -> list[Json]:
            asked = (
                self._client.score_group(
                    talks[rows[0]][: split[rows[0]]],
                    [talks[row][split[row] :] for row in rows],
                    principle=(metadata[rows[0]] or {}).get("principle"),
                    reference=(metadata[rows[0]] or {}).get("reference"),
                )
                for rows in groups.values()
            )
            return await asyncio.gather(*asked)

        rewards = torch.zeros(len(talks))
        for rows, reply in zip(groups.values(), wait_for(ask()), strict=True):
            rewards[rows] = torch.tensor(numbers_in(reply, self._on_failure))
        return EnvironmentReturn(
            observations=[{"role": "environment", "content": ""} for _ in talks],
            metadata=metadata,
            next_stop_strings=[None] * len(talks),
            rewards=rewards,
            terminateds=torch.ones(len(talks)),
            answers=None,
        )

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, Json]:
        """Return the batch as it is, and its mean reward."""
        return batch, {"genrm_reward": float(batch["rewards"].float().mean())}


GenrmActor = ray.remote(GenrmEnvironment)
"""What `register_env` takes."""
