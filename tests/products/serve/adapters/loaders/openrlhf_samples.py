"""Samples as OpenRLHF's executors (0.11.2) score them: one a request."""

import asyncio
from types import SimpleNamespace

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
