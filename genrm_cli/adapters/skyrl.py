"""A generator for SkyRL."""

from typing import Any

from skyrl.train.generators.base import GeneratorInterface

from genrm_cli.adapters.reward_client import RewardClient


class GenrmGenerator(GeneratorInterface):  # type: ignore[misc]
    """Wraps a generator, and replaces its rewards by comparing the trajectories of each prompt.

    SkyRL requires a number for every trajectory. Evaluation keeps the rewards of its environment.
    Step-wise trajectories are not supported."""

    def __init__(self, generator: Any, tokenizer: Any, **client: Any) -> None:
        """Wrap a generator; `client` are arguments of `RewardClient`."""
        self._generator = generator
        self._tokenizer = tokenizer
        self._client = RewardClient(**client)

    async def generate(self, input_batch: Any) -> Any:
        """Generate, and score.

        Raises:
            ValueError: the output does not have one row for each trajectory.
            MissingRewardError: a trajectory has no reward.
            RewardServerError: the server refuses, or cannot be reached.
        """
        output = await self._generator.generate(input_batch)
        about = input_batch.get("batch_metadata")
        if about is not None and about.training_phase == "eval":
            return output
        ids = input_batch["trajectory_ids"]
        prompts = input_batch["prompts"]
        texts = [
            self._tokenizer.decode(each, skip_special_tokens=True)
            for each in output["response_ids"]
        ]
        if ids is None or len(ids) != len(texts):
            raise ValueError("the generator does not return one response for each trajectory id")
        rewards = await self._client.score_rows([each.instance_id for each in ids], prompts, texts)
        return {**output, "rewards": rewards}
