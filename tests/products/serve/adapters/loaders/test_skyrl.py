"""SkyRL's own generator and environment, with our wrapper around them."""

import asyncio

import pytest
from served import texts
from trainers_page import block, run_python

pytestmark = pytest.mark.loader("skyrl", "torch", "transformers")


class Engine:
    """Says what the test wants, in the order of the requests, as SkyRL's inference client would."""

    model_name = "policy"

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.said = []

    async def generate(self, batch, model=None):
        """Return one response to each prompt of a request."""
        del model
        texts = [self.said.pop(0) for _ in batch["prompt_token_ids"]]
        return {
            "responses": texts,
            "response_ids": [self._tokenizer.encode(f"{text}<|end|>") for text in texts],
            "stop_reasons": ["stop"] * len(texts),
            "response_logprobs": None,
        }

    async def finish_session(self, session):
        """Forget nothing."""


def batch_of(prompts, phase):
    """Make a batch as SkyRL's trainer makes it: two trajectories of each prompt."""
    from skyrl.train.generators.base import BatchMetadata, TrajectoryID

    rows = [(number, sample) for number in range(len(prompts)) for sample in range(2)]
    return {
        "prompts": [[{"role": "user", "content": prompts[number]}] for number, _ in rows],
        "env_classes": ["gsm8k"] * len(rows),
        "env_extras": [{"reward_spec": {"method": "rule", "ground_truth": "42"}} for _ in rows],
        "sampling_params": None,
        "trajectory_ids": [TrajectoryID(str(number), sample) for number, sample in rows],
        "batch_metadata": BatchMetadata(global_step=1, training_phase=phase),
    }


def test_rewards_of_its_environment_are_replaced_in_training_only(served, tokenizer):
    """The generator of the page, around SkyRL's: each trajectory gets a number, compared with those
    of its prompt; evaluation keeps the rewards of the environment; two blanks get the mean of all
    groups before.
    """
    experiment = run_python(block("SkyRL", "python", served.url))["GenrmExp"]
    from skyrl.train.config import SkyRLTrainConfig

    settings = SkyRLTrainConfig()
    settings.generator.max_input_length = 512
    engine = Engine(tokenizer)
    unopened = object.__new__(experiment)  # its constructor loads a model and data sets
    generator = unopened.get_generator(settings, tokenizer, engine)

    def generate(prompts, *said, phase="train"):
        engine.said = list(said)
        return asyncio.run(generator.generate(batch_of(prompts, phase)))

    output = generate(["Why?", "How?"], *texts(4, "skyrl"))  # its requests come in any order
    rewards = output["rewards"]
    lengths = [len(ids) for ids in output["response_ids"]]
    for first, second in ((0, 1), (2, 3)):
        assert (rewards[first] - rewards[second]) * (lengths[first] - lengths[second]) > 0
        assert rewards[first] + rewards[second] == pytest.approx(6)
    assert [len(mask) for mask in output["loss_masks"]] == lengths
    own = generate(["Why?"], *texts(1, "skyrl-c"), "#### 42", phase="eval")["rewards"]
    assert sorted(sum(each) if isinstance(each, list) else each for each in own) == [0.0, 1.0]
    blank = generate(["When?"], "", "")["rewards"]
    assert blank[0] == blank[1]
