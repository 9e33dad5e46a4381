"""An executor for OpenRLHF that waits for a server that is busy or away.

Source: openrlhf 0.11.2, `utils/agent.py` (`_fetch_rewards_via_http`: five requests, a second apart, whatever the reply
says; then no reward, which ends the training) and `trainer/ray/vllm_engine.py` (`_load_agent_executor`).
"""

from collections.abc import Sequence

from openrlhf.utils.agent import SingleTurnAgentExecutor

from genrm_cli.adapters.reward_client import Json, RewardClient


class GenrmExecutor(SingleTurnAgentExecutor):  # type: ignore[misc]
    """Generates one response and asks for its reward; a file with a subclass `AgentExecutor` says which `client`.

    The URL of the client is that of `--reward.remote_url`.
    """

    client: RewardClient

    def __init__(self) -> None:
        super().__init__(self.client.url)

    async def _fetch_rewards_via_http(
        self, queries: Sequence[str], prompts: Sequence[str], labels: object
    ) -> list[Json]:
        return [await self.client.post("", {"query": queries, "prompts": prompts, "labels": labels})]
