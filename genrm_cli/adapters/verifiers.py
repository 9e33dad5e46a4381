"""An environment for verifiers: n attempts at a task, which are compared with each other.

verifiers finds an environment by the name of a module. A file of the user's, on the path of Python,
names this one:

    # genrm_env.py
    from genrm_cli.adapters.verifiers import GenrmEnv

    __all__ = ["GenrmEnv"]

`--env.id genrm-env --env.n 8` then pairs it with any taskset, in training and in evaluation.
`--env.on_failure mean` gives an attempt without a reward the mean of its episode.

Source: verifiers 0.4.0, `v1/envs/best_of_n/env.py`, `v1/utils/loaders.py` and `v1/trace.py`. Its
earlier group rewards (`requires_group_rollouts`) are gone: what compares attempts is an episode.
"""

from typing import Literal

import verifiers.v1 as vf
from verifiers.v1.envs.best_of_n import BestOfNEnv, BestOfNEnvConfig

from genrm_cli.adapters.reward_client import RewardClient, talk_of


class GenrmEnvConfig(BestOfNEnvConfig):  # type: ignore[misc]
    """Settings of the environment.

    Attributes:
        on_failure: as in `RewardClient`.
    """

    on_failure: float | Literal["mean"] | None = None


class GenrmEnv(BestOfNEnv, vf.Env[GenrmEnvConfig]):  # type: ignore[misc]
    """Adds the reward `genrm` to that of the task; `GENRM_SERVE_URL` names the server.

    verifiers adds up rewards and would count a missing one as 0, so an attempt without one is an
    error unless `on_failure` is set. Each component is a metric of its own."""

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        """Compare the attempts of an episode, and record their rewards.

        The episode has failed with an error.

        Raises:
            MissingRewardError: an attempt has no reward.
            RewardServerError: the server refuses, or cannot be reached.
        """
        await super().finalize(task, episode)
        talks = [talk_of(trace) for trace in episode.traces]
        prompt = next((prompt for prompt, response in talks if response), None)
        if prompt is None:
            return  # every attempt failed before its first answer
        client = RewardClient(on_failure=self.config.on_failure)
        reply = await client.score_group(prompt, [response or None for _, response in talks])
        rewards = client.numbers_in(reply)
        about = zip(episode.traces, rewards, reply["responses"], strict=True)
        for trace, reward, response in about:
            trace.record_reward("genrm", reward)
            for name, value in (response.get("components") or {}).items():
                trace.metrics[f"genrm_{name}"] = value
