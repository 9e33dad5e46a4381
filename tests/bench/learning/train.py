"""Train a tiny policy with GRPO (TRL): `train.py STEPS SEED SOURCE SCALE FOLDER`.

SOURCE is `oracle` (the qualities), `grades` (one grade a response of the noisy judge), or the URL
of a `genrm serve`. SCALE is TRL's `scale_rewards`. Prints a JSON object at the end: the mean
quality of the responses of each step, and the number of grades.
"""

import json
import statistics
import sys

import torch
from bench.learning.noisy_judge import NoisyJudge
from bench.learning.task import LENGTH, QUESTIONS, WORDS, quality
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from genrm_cli.adapters.trl import GenrmReward

STEPS, SEED, SOURCE, SCALE, FOLDER = sys.argv[1:]
GROUP_SIZE = 8
judge = NoisyJudge(int(SEED))
curve: list[float] = []


class Scored:
    """Pays the qualities themselves, or the judge's grades of single responses."""

    __name__ = SOURCE

    async def __call__(self, prompts, completions, **_):
        """Return the reward of each completion."""
        pairs = list(zip(prompts, completions, strict=True))
        if SOURCE == "grades":
            return [judge.grade(*pair) for pair in pairs]
        return [quality(*pair) for pair in pairs]


class Measured:
    """Measures the qualities of the completions before they are paid."""

    __name__ = "measured"

    def __init__(self, reward):
        self._reward = reward

    async def __call__(self, prompts, completions, **columns):
        """Return the reward of each completion."""
        pairs = zip(prompts, completions, strict=True)
        curve.append(statistics.fmean(quality(*pair) for pair in pairs))
        return await self._reward(prompts, completions, **columns)


def make_policy():
    """Return an untrained model that writes the words of the task, and its tokenizer."""
    special = ("<end>", "<pad>", "<unk>")
    vocabulary = {word: number for number, word in enumerate((*special, *QUESTIONS, *WORDS))}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.decoder = decoders.Fuse()
    plain.add_special_tokens(list(special))
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=1,
        eos_token_id=0,
        bos_token_id=None,
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="<end>", pad_token="<pad>", unk_token="<unk>"
    )
    return LlamaForCausalLM(config), tokenizer


torch.manual_seed(int(SEED))
policy, tokenizer = make_policy()
reward = Scored() if SOURCE in ("oracle", "grades") else GenrmReward(SOURCE, returns="advantages")
arguments = GRPOConfig(
    output_dir=FOLDER,
    seed=int(SEED),
    max_steps=int(STEPS),
    per_device_train_batch_size=len(QUESTIONS) * GROUP_SIZE,
    num_generations=GROUP_SIZE,
    max_completion_length=LENGTH,
    learning_rate=0.005,
    scale_rewards=SCALE,
    lr_scheduler_type="constant",
    report_to="none",
    use_cpu=True,
    bf16=False,
    save_strategy="no",
    logging_strategy="no",
    disable_tqdm=True,
)
rows = {"prompt": list(QUESTIONS), "prompt_id": list(range(len(QUESTIONS)))}
GRPOTrainer(
    policy,
    reward_funcs=Measured(reward),
    args=arguments,
    train_dataset=Dataset.from_dict(rows),
    processing_class=tokenizer,
).train()
sys.stdout.write(json.dumps({"quality": curve, "grades": judge.replies}) + "\n")
