"""An executor for OpenRLHF, whose own client gives up a few seconds after the server went away.

Source: openrlhf 0.11.2, `utils/agent.py` (`_fetch_rewards_via_http`) and
`trainer/ray/vllm_engine.py` (`_load_agent_executor`)."""

from openrlhf.utils.agent import SingleTurnAgentExecutor

from genrm_cli.adapters.reward_client import Json, RewardClient


class GenrmExecutor(SingleTurnAgentExecutor):  # type: ignore[misc]
    """Waits for a server that is busy or away; a subclass `AgentExecutor` in a file of the user's
    has the client.
    """

    client: RewardClient

    def __init__(self) -> None:
        super().__init__(self.client.url)

    async def _fetch_rewards_via_http(
        self, queries: list[str], prompts: list[str], labels: list[str]
    ) -> list[Json]:
        return [
            await self.client.post("", {"query": queries, "prompts": prompts, "labels": labels})
        ]
