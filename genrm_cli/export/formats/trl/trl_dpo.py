"""TRL's DPOTrainer: an explicit prompt, `chosen` and `rejected`, each a list of messages.

Other columns are ignored. The column `tools` exists only if a prompt has tools; TRL reads it as JSON text.

Source: huggingface/trl 1.16.0, `trl/trainer/dpo_trainer.py`, `trl/data_utils.py`.
"""

from genrm_cli.export.formats.loading import load_dataset_text
from genrm_cli.export.rows import ExportFormat, Json, Pair, scores_of
from genrm_cli.export.tools import json_of_tools


def explicit_pair(pair: Pair) -> Json:
    """Return a pair with an explicit prompt, which TRL, OpenRLHF and others accept unchanged."""
    row: Json = {
        "prompt": pair.prompt.messages,
        "chosen": pair.chosen.messages,
        "rejected": pair.rejected.messages,
    }
    if pair.prompt.tools:
        row["tools"] = json_of_tools(pair.prompt.tools)
    return row | scores_of(pair)


def _usage(uri: str) -> str:
    return f"""{load_dataset_text(uri)}
trainer = DPOTrainer(model=model, args=DPOConfig(...), train_dataset=dataset, processing_class=tokenizer)"""


FORMAT = ExportFormat("trl-dpo", "pair", explicit_pair, _usage, separates_reasoning=True, strips_reasoning=True)
