"""TRL's KTOTrainer: `prompt`, `completion` and a boolean `label`.

Source: huggingface/trl 1.16.0, `trl/trainer/kto_trainer.py`. Its KL estimate uses neighbours in a batch, so rows of
one prompt are spread over the file, and the sampler must keep their order.
"""

from genrm_cli.export.formats.loading import load_dataset_text
from genrm_cli.export.rows import ExportFormat, Json, Labelled
from genrm_cli.export.tools import json_of_tools


def _render(row: Labelled) -> Json:
    columns: Json = {"prompt": row.prompt.messages, "completion": row.answer.messages, "label": row.label}
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
trainer = KTOTrainer(model=model, args=KTOConfig(...), train_dataset=dataset, processing_class=tokenizer)
# rows of one prompt are far apart: KTOConfig(train_sampling_strategy="sequential") keeps that order"""


FORMAT = ExportFormat("trl-kto", "label", _render, _usage, separates_reasoning=True, strips_reasoning=True)
