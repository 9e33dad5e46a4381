"""An environment for verifiers: n attempts at a task, which are compared with each other.

verifiers finds an environment by the name of a module. A file of the user's, on the path of Python,
names this one:

    # genrm_env.py
    from genrm_cli.adapters.verifiers import GenrmEnv

    __all__ = ["GenrmEnv"]

`--env.id genrm-env --env.n 8` then pairs it with any taskset, in training and in evaluation.

Source: verifiers 0.4.0, `v1/envs/best_of_n/env.py`, `v1/utils/loaders.py` and `v1/trace.py`. Its
earlier group rewards (`requires_group_rollouts`) are gone: what compares attempts is an episode.
"""

import verifiers.v1 as vf
from verifiers.v1.envs.best_of_n import BestOfNEnv

from genrm_cli.adapters.reward_client import RewardClient, talk_of


class GenrmEnv(BestOfNEnv):  # type: ignore[misc]
    """Adds the reward `genrm` to that of the task; `GENRM_SERVE_URL` names the server.

    An attempt without a reward has None, which counts as 0 beside the rewards of its task. Each
    component is a metric of its own."""

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        """Compare the attempts of an episode, and record their rewards.

        Raises:
            RewardServerError: the server refuses, or cannot be reached; the episode has failed
                then.
        """
        await super().finalize(task, episode)
        talks = [talk_of(trace) for trace in episode.traces]
        prompt = next((prompt for prompt, response in talks if response), None)
        if prompt is None:
            return  # every attempt failed before its first answer
        reply = await RewardClient().score_group(
            prompt, [response or None for _, response in talks]
        )
        for trace, response in zip(episode.traces, reply["responses"], strict=True):
            if response["reward"] is None:
                trace.rewards["genrm"] = None
            else:
                trace.record_reward("genrm", response["reward"])
            for name, value in (response.get("components") or {}).items():
                trace.metrics[f"genrm_{name}"] = value
