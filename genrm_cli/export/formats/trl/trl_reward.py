"""TRL's RewardTrainer: the columns of DPO, with a float `margin` in every row, subtracted inside the loss.

Source: huggingface/trl 1.16.0, `trl/trainer/reward_trainer.py`; if only some rows have a `margin`, its collator raises
TypeError.
"""

from genrm_cli.export.formats.loading import load_dataset_text
from genrm_cli.export.formats.trl.trl_dpo import explicit_pair
from genrm_cli.export.rows import ExportFormat


def _usage(uri: str) -> str:
    return f"""{load_dataset_text(uri)}
trainer = RewardTrainer(model=model, args=RewardConfig(...), train_dataset=dataset, processing_class=tokenizer)
# margin is used unchanged: drop the column to train without margins, or scale it"""


FORMAT = ExportFormat("trl-reward", "pair", explicit_pair, _usage, separates_reasoning=True, strips_reasoning=True)
