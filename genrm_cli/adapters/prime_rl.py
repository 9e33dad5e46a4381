"""An algorithm for prime-rl."""

from typing import Any

from prime_rl.orchestrator.algo.base import iter_trainable_traces
from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm
from prime_rl.orchestrator.algo.routing import assign_advantages

from genrm_cli.adapters.reward_client import RewardClient, talk_of


class GenrmGRPOAlgorithm(GRPOAlgorithm):  # type: ignore[misc]
    """GRPO whose rewards come from comparing the group; `GENRM_SERVE_URL` names the server.

    A trace without a reward is recorded as unscored. It takes no part in the baseline, and its
    advantage is 0."""

    async def score_group(self, episodes: list[Any]) -> None:
        """Record the reward of each trainable trace, and let GRPO assign the advantages.

        Raises:
            ValueError: an episode has several trainable traces.
            RewardServerError: the server refuses, or cannot be reached.
        """
        pairs = list(iter_trainable_traces(episodes))
        if len({id(episode) for episode, _ in pairs}) < len(pairs):
            raise ValueError(
                "genrm compares one trace of each episode; this one has several that are trainable"
            )
        talks = [talk_of(trace) for _, trace in pairs]
        reply = await RewardClient().score_group(talks[0][0], [response for _, response in talks])
        scored = []
        for (episode, trace), reward in zip(pairs, reply["rewards"], strict=True):
            if reward is None:
                trace.rewards["genrm"] = None
                assign_advantages(trace, 0.0)
            else:
                trace.record_reward("genrm", reward)
                scored.append(episode)
        if scored:
            await super().score_group(scored)
