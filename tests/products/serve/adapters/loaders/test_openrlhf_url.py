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
        return SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=ids, finish_reason="stop", logprobs=None)]
        )


class Bytes:
    """A tokenizer of bytes."""

    def __call__(self, text, **_):
        import torch

        return {"input_ids": torch.tensor([[*text.encode()]])}

    def decode(self, ids, **_):
        """Return the text."""
        return bytes(ids).decode()


def execute_all(executor, groups):
    """Execute the samples of all labels at once; what each returns."""
    sampling = SimpleNamespace(max_tokens=5_000, logprobs=None)

    async def run():
        rows = [(label, text) for label, given in groups.items() for text in given]
        asked = (
            executor.execute(PROMPT, label, sampling, 9_000, Bytes(), Engine(text))
            for label, text in rows
        )
        return await asyncio.gather(*asked)

    return asyncio.run(run())


@pytest.mark.parametrize("servers", [1, 2])
def test_openrlhf_gets_its_rewards(served, servers):
    """`SingleTurnAgentExecutor` (openrlhf 0.11.2) sends one sample a request; two groups of three
    at once.
    """
    import torch
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    executor = SingleTurnAgentExecutor([f"{served.url}/openrlhf?size=3"] * servers)
    groups = {
        json.dumps({"group_id": name}): texts(3, name)
        for name in (f"one-{servers}", f"two-{servers}")
    }
    found = execute_all(executor, groups)
    rewards = torch.cat([torch.tensor([each["reward"]]) for each in found]).reshape(
        -1, 3
    )  # as its experiences
    assert (rewards.diff(dim=1) > 0).all()
    # What OpenRLHF filters groups by: within its default range.
    assert all(float(torch.as_tensor(each["scores"])) == 0.5 for each in found)
    assert all(each["extra_logs"]["genrm_comparisons"][0] > 0 for each in found)
