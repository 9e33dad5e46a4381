"""TRL's SFTTrainer: `prompt` and `completion`, each a list of messages.

Source: huggingface/trl 1.16.0, `trl/trainer/sft_trainer.py`.
"""

from genrm_cli.export.formats.loading import load_dataset_text
from genrm_cli.export.rows import ExportFormat, Json, Sample
from genrm_cli.export.tools import json_of_tools


def _render(row: Sample) -> Json:
    columns: Json = {"prompt": row.prompt.messages, "completion": row.answer.messages}
    if row.prompt.tools:
        columns["tools"] = json_of_tools(row.prompt.tools)
    return columns | {
        "score": row.answer.reward,
        "prompt_id": row.prompt.id,
        "completion_id": row.answer.id,
        "judge": row.prompt.judge or "",
    }


def _usage(uri: str) -> str:
    return f"""{load_dataset_text(uri)}
trainer = SFTTrainer(model=model, args=SFTConfig(...), train_dataset=dataset, processing_class=tokenizer)
# completions with several turns: SFTConfig(assistant_only_loss=True) excludes the turns of others from the loss"""


FORMAT = ExportFormat("trl-sft", "sample", _render, _usage, separates_reasoning=True, strips_reasoning=True)
