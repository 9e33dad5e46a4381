"""An environment for NeMo RL."""

import json
from collections import Counter
from typing import Any

import ray
import torch
from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn

from genrm_cli.adapters.reward_client import Json, RewardClient, wait_for


class GenrmEnvironment(EnvironmentInterface):  # type: ignore[misc]
    """Scores the samples of each prompt against each other; every episode ends after one turn.

    NeMo RL passes a batch without ids, so samples with the same prompt are a group. It must pass
    whole groups, which asynchronous rollouts do not. It requires a number for every sample."""

    def __init__(self, cfg: Json | None = None) -> None:
        """Take the settings: `url`, `on_failure` and others of `RewardClient`."""
        self._client = RewardClient(**(cfg or {}))

    def step(self, message_log_batch: list[Any], metadata: list[Any]) -> Any:
        """Return the rewards of a batch.

        Raises:
            ValueError: a prompt has only one sample.
            MissingRewardError: a sample has no reward.
            RewardServerError: the server refuses, or cannot be reached.
        """
        talks = [
            [{key: turn[key] for key in ("role", "content")} for turn in log]
            for log in message_log_batch
        ]
        split = [
            next(place for place, turn in enumerate(talk) if turn["role"] == "assistant")
            for talk in talks
        ]
        prompts = [talk[:place] for talk, place in zip(talks, split, strict=True)]
        responses = [talk[place:] for talk, place in zip(talks, split, strict=True)]
        names = [json.dumps(prompt) for prompt in prompts]
        if 1 in Counter(names).values():
            raise ValueError(
                "a prompt has one sample in this batch; genrm compares samples: no asynchronous "
                "rollouts"
            )
        about = {
            name: [(each or {}).get(name) for each in metadata]
            for name in ("principle", "reference")
        }
        rewards = torch.tensor(
            wait_for(self._client.score_rows(names, prompts, responses, **about))
        )
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
