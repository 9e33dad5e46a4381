"""TRL's GRPOTrainer and RLOOTrainer: prompts; every other column reaches the reward function as a list.

Source: huggingface/trl 1.16.0, `trl/trainer/grpo_trainer.py`.
"""

from genrm_cli.export.formats.loading import load_dataset_text
from genrm_cli.export.rows import ExportFormat, Json, PromptRow


def _render(row: PromptRow) -> Json:
    return {"prompt": row.prompt.messages, "prompt_id": row.prompt.id}


def _usage(uri: str) -> str:
    return f"""{load_dataset_text(uri)}
trainer = GRPOTrainer(model=model, reward_funcs=reward, args=GRPOConfig(...), train_dataset=dataset)
# reward(prompts, completions, prompt_id, **others); for stored completions use --to groups"""


FORMAT = ExportFormat("trl-grpo", "prompt", _render, _usage)
