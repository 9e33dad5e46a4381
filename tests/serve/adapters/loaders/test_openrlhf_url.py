"""OpenRLHF's own client of remote reward models, against a live server."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from served import texts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.loader("openrlhf", "torch"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(900),
]

PROMPT = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"


class Engine:
    """Generates a given text."""

    def __init__(self, text):
        self._text = text

    async def generate(self, *_, **__):
        """Return it as vLLM would."""
        ids = [*self._text.encode()]
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, finish_reason="stop", logprobs=None)])


class Bytes:
    """A tokenizer of bytes."""

    def __call__(self, text, **_):
        import torch

        return {"input_ids": torch.tensor([[*text.encode()]])}

    def decode(self, ids, **_):
        """Return the text."""
        return bytes(ids).decode()


@pytest.mark.parametrize("servers", [1, 2])
def test_openrlhf_gets_its_rewards(served, servers):
    """`SingleTurnAgentExecutor` (openrlhf 0.11.2) sends one sample a request; two groups of three at once."""
    import torch
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    executor = SingleTurnAgentExecutor([f"{served.url}/openrlhf?size=3"] * servers)
    sampling = SimpleNamespace(max_tokens=500, logprobs=None)

    async def run():
        rollouts = [
            executor.execute(PROMPT, json.dumps({"group_id": group}), sampling, 1000, Bytes(), Engine(text))
            for group in (f"one-{servers}", f"two-{servers}")
            for text in texts(3, group)
        ]
        return await asyncio.gather(*rollouts)

    found = asyncio.run(run())
    rewards = torch.cat([torch.tensor([each["reward"]]) for each in found]).reshape(-1, 3)  # as its experiences
    assert (rewards.diff(dim=1) > 0).all()
    assert all(each["scores"] == each["reward"] for each in found)
    assert all(each["extra_logs"]["genrm_comparisons"][0] > 0 for each in found)


def test_openrlhf_never_gets_none(served):
    """With the documented URL a blank response has a number, so that `torch.cat` can join the rewards."""
    import torch
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    executor = SingleTurnAgentExecutor([f"{served.url}/openrlhf?size=3&on_failure=mean"])
    sampling = SimpleNamespace(max_tokens=500, logprobs=None)

    async def run():
        label = json.dumps({"group_id": "never-none"})
        executed = (
            executor.execute(PROMPT, label, sampling, 1000, Bytes(), Engine(text)) for text in ["", *texts(2, "none")]
        )
        return await asyncio.gather(*executed)

    found = asyncio.run(run())
    rewards = torch.cat([torch.tensor([each["reward"]]) for each in found])
    assert float(rewards[0]) == pytest.approx(float(rewards[1:].mean()))
    assert [each["extra_logs"]["genrm_unscored"][0] for each in found] == [1.0, 0.0, 0.0]
