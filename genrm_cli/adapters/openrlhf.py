"""An executor for OpenRLHF, whose own client gives up a few seconds after the server went away.

Source: openrlhf 0.11.2, `utils/agent.py` (`_fetch_rewards_via_http`) and
`trainer/ray/vllm_engine.py` (`_load_agent_executor`)."""

import json

from openrlhf.utils.agent import SingleTurnAgentExecutor

from genrm_cli.adapters.reward_client import Json, RewardClient


class GenrmExecutor(SingleTurnAgentExecutor):  # type: ignore[misc]
    """Waits for a server that is busy or away; a subclass `AgentExecutor` in a file of the user's
    has the client.
    """

    client: RewardClient

    def __init__(self) -> None:
        super().__init__(self.client.urls)

    async def _fetch_rewards_via_http(
        self, queries: list[str], prompts: list[str], labels: list[str]
    ) -> list[Json]:
        # One sample a call, whose group is its prompt and label, as for the server.
        body = {"query": queries, "prompts": prompts, "labels": labels}
        return [await self.client.post("", body, group=json.dumps([prompts, labels]))]
