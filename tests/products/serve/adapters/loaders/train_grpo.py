"""Train a tiny model for two steps: `train_grpo.py MODEL_FOLDER ROWS_PER_PROCESS`; torchrun starts
it twice. With `--evaluate` rows are then compared with the reference answers of the server.

Prints a JSON object for each call of the reward function, with the rank, and one with the log at
the end."""

import json
import sys

import torch.distributed as ranks
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from genrm_cli.adapters.trl import GenrmReward


class ShownReward(GenrmReward):
    """Shows what TRL gave and got."""

    async def __call__(self, prompts, completions, **columns):
        """Score, and print."""
        scored = await super().__call__(prompts, completions, **columns)
        rank = ranks.get_rank() if ranks.is_initialized() else 0
        show(
            {
                "rank": rank,
                "ids": columns["prompt_id"],
                "completions": completions,
                "scored": scored,
            }
        )
        return scored


def show(record):
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


folder = sys.argv[1]
rows = int(sys.argv[2])
arguments = GRPOConfig(
    output_dir=f"{folder}/trained",
    max_steps=2,
    per_device_train_batch_size=rows,
    num_generations=4,
    num_generations_eval=1,
    max_completion_length=8,
    logging_steps=1,
    report_to="none",
    use_cpu=True,
    bf16=False,
    save_strategy="no",
    disable_tqdm=True,
)
asked = {"prompt": ["Why?", "How?", "When?", "Who?"], "prompt_id": [0, 1, 2, 3]}
trainer = GRPOTrainer(
    AutoModelForCausalLM.from_pretrained(folder),
    reward_funcs=ShownReward(),
    args=arguments,
    train_dataset=Dataset.from_dict(asked),
    eval_dataset=Dataset.from_dict(asked | {"genrm_as": ["reference"] * 4}),
    processing_class=AutoTokenizer.from_pretrained(folder),
)
trainer.train()
if "--evaluate" in sys.argv:
    trainer.evaluate()
if trainer.is_world_process_zero():
    show({"log": trainer.state.log_history})
