"""Formats of TRL's trainers, each a list of messages for every text.

Other columns are ignored. The column `tools` exists only if a prompt has tools; TRL reads it as
JSON text.

Source: huggingface/trl 1.16.0, `trl/data_utils.py` and the modules of the trainers named below.
"""

from genrm_cli.products.export.rows import (
    Json,
    Pair,
    Prompt,
    Sample,
    in_messages,
    json_of_tools,
    scores_of,
)


def explicit_pair(pair: Pair) -> Json:
    """Return a pair with an explicit prompt, which TRL, OpenRLHF and others accept unchanged."""
    row = {
        "prompt": pair.prompt.messages,
        "chosen": pair.chosen.messages,
        "rejected": pair.rejected.messages,
    }
    return row | _tools_of(pair.prompt) | scores_of(pair)


def _completion(row: Sample) -> Json:
    columns: Json = {"prompt": row.prompt.messages, "completion": row.answer.messages}
    if row.label is not None:
        columns["label"] = row.label
    return {
        **columns,
        **_tools_of(row.prompt),
        "score": row.answer.reward,
        "prompt_id": row.prompt.id,
        "completion_id": row.answer.id,
        "judge": row.prompt.judge or "",
    }


def _tools_of(prompt: Prompt) -> Json:
    return {"tools": json_of_tools(prompt.tools)} if prompt.tools else {}


def _usage(name: str, note: str = "") -> str:
    """Return the code that loads the rows and makes TRL's trainer of this name."""
    settings = f"model=model, args={name}Config(...)"
    data = "train_dataset=dataset, processing_class=tokenizer"
    lines = ["{load}", f"trainer = {name}Trainer({settings}, {data})"]
    return "\n".join([*lines, f"# {note}"] if note else lines)


_ORPO_USAGE = "from trl.experimental.orpo import ORPOConfig, ORPOTrainer\n" + _usage(
    "ORPO", "pairs are cut to 512 tokens unless ORPOConfig(max_length=...) says more"
)
_SIMPO_USAGE = """from trl.experimental.cpo import CPOConfig, CPOTrainer
{load}
args = CPOConfig(loss_type="simpo", cpo_alpha=0.0, ...)
trainer = CPOTrainer(model=model, args=args, train_dataset=dataset, processing_class=tokenizer)
# pairs are cut to 512 tokens unless CPOConfig(max_length=...) says more"""
_REWARD_NOTE = "margin is used unchanged: drop the column to train without margins, or scale it"
_KTO_NOTE = (
    'rows of one prompt are far apart: KTOConfig(train_sampling_strategy="sequential") keeps that '
    "order"
)
_SFT_NOTE = (
    "completions with several turns: SFTConfig(assistant_only_loss=True) excludes the turns of "
    "others from the loss"
)

FORMATS = (
    in_messages("trl-dpo", "pairs for TRL's DPOTrainer", "pair", explicit_pair, _usage("DPO")),
    in_messages("trl-orpo", "pairs for TRL's ORPOTrainer", "pair", explicit_pair, _ORPO_USAGE),
    in_messages(
        "trl-simpo",
        "pairs for TRL's CPOTrainer with the SimPO loss",
        "pair",
        explicit_pair,
        _SIMPO_USAGE,
    ),
    # The margin is subtracted inside the loss. If only some rows have one, the collator raises
    # TypeError.
    in_messages(
        "trl-reward",
        "pairs with margins for TRL's RewardTrainer",
        "pair",
        explicit_pair,
        _usage("Reward", _REWARD_NOTE),
    ),
    # Its KL estimate uses neighbours in a batch, so rows of one prompt are spread over the file,
    # and the sampler must keep their order.
    in_messages(
        "trl-kto",
        "labelled responses for TRL's KTOTrainer",
        "label",
        _completion,
        _usage("KTO", _KTO_NOTE),
    ),
    in_messages(
        "trl-sft",
        "the best responses for TRL's SFTTrainer",
        "sample",
        _completion,
        _usage("SFT", _SFT_NOTE),
    ),
)
