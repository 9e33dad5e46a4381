"""Pairs for reward models and DPO in loaders other than TRL's.

A loader that would silently drop tools, turns or whole rows refuses the row here, so that the loss
is counted.

Source: OpenRLHF 3c3be623 (0.11.0), `openrlhf/datasets/reward_dataset.py`; NVIDIA-NeMo/RL 7ea279ab,
`nemo_rl/data/datasets/preference_datasets/`; axolotl-ai-cloud/axolotl 067b021c (0.18.0),
`axolotl/prompt_strategies/dpo/chat_template.py`; modelscope/ms-swift 3602360a (4.6),
`swift/dataset/preprocessor/core.py`; pytorch/torchtune bd2a0fc7 (0.7.0),
`torchtune/data/_messages.py`, `ChosenToRejectedMessages`; allenai/open-instruct e6c3044a,
`dataset_transformation.py`."""

from genrm_cli.products.export.chat_messages import Message
from genrm_cli.products.export.formats.huggingface import explicit_pair
from genrm_cli.products.export.rows import (
    ExportedAnswer,
    Json,
    Pair,
    Prompt,
    UnfitError,
    in_messages,
    in_text,
    scores_of,
)


def _openrlhf(pair: Pair) -> Json:
    if pair.prompt.tools:
        raise UnfitError("OpenRLHF does not show tool definitions to the chat template")
    return explicit_pair(pair)


def _nemo_rl(pair: Pair) -> Json:
    """Return a context with two ranked completions; lower rank is better, and `reward` is
    ignored.
    """
    if pair.prompt.tools:
        raise UnfitError("NeMo RL does not show tool definitions to the chat template")
    ranked = [
        {"rank": rank, "completion": answer.messages, "reward": answer.reward}
        for rank, answer in enumerate((pair.chosen, pair.rejected))
    ]
    return {"context": pair.prompt.messages, "completions": ranked} | scores_of(pair)


def _axolotl(pair: Pair) -> Json:
    """Return one message a side: of a list, the strategy `chat_template` would train on the last
    one only.
    """
    if pair.prompt.tools or any("tool_calls" in message for message in pair.prompt.messages):
        raise UnfitError(
            "Axolotl's DPO strategy shows neither tool definitions nor tool calls to the chat "
            "template"
        )
    return {
        "prompt": pair.prompt.messages,
        "chosen": {"role": "assistant", "content": pair.chosen.text},
        "rejected": {"role": "assistant", "content": pair.rejected.text},
    } | scores_of(pair)


def _ms_swift(pair: Pair) -> Json:
    """Return messages of role and content: ms-swift removes every other field, so tool calls would
    be lost.
    """
    if pair.prompt.tools or any("tool_calls" in message for message in pair.prompt.messages):
        raise UnfitError("ms-swift removes tool calls from messages")
    messages = [_plain(message) for message in pair.prompt.messages]
    return {
        "messages": [*messages, {"role": "assistant", "content": pair.chosen.text}],
        "rejected_response": pair.rejected.text,
    } | scores_of(pair)


def _torchtune(pair: Pair) -> Json:
    """Return two whole conversations, of which the loaders use the common turns as the prompt."""
    if pair.prompt.tools:
        raise UnfitError("torchtune does not show tool definitions to the model")
    chosen, rejected = (
        _conversation(pair.prompt, answer) for answer in (pair.chosen, pair.rejected)
    )
    return {"chosen": chosen, "rejected": rejected} | scores_of(pair)


def _conversation(prompt: Prompt, answer: ExportedAnswer) -> list[Message]:
    messages = [*prompt.messages, *answer.messages]
    if any("tool_calls" in message or message["role"] == "tool" for message in messages):
        raise UnfitError("torchtune reads neither tool calls nor their results")
    return [_plain(message) for message in messages]


def _plain(message: Message) -> Message:
    return {"role": message["role"], "content": message["content"]}


_OPENRLHF_USAGE = """--data.dataset {uri} --data.apply_chat_template \\
  --data.prompt_key prompt --data.chosen_key chosen --data.rejected_key rejected
# --data.max_len is 512 by default: longer pairs are cut, and their two sides may become equal"""
_NEMO_RL_USAGE = """data.train.dataset_name=PreferenceDataset data.train.data_path={uri}
# pairs longer than max_seq_length stay, with a loss multiplier of 0"""
_AXOLOTL_USAGE = """rl: dpo
datasets:
  - path: {uri}
    ds_type: {kind}
    split: train
    type: chat_template.default
    field_messages: prompt
    field_chosen: chosen
    field_rejected: rejected
    message_property_mappings: {{role: role, content: content}}"""
_MS_SWIFT_USAGE = """swift rlhf --rlhf_type dpo --dataset {uri} ...
# --rlhf_type rm reads the column margin"""
_TORCHTUNE_USAGE = """dataset:
  _component_: torchtune.datasets.preference_dataset
  source: {kind}
  data_files: {uri}
  split: train
  train_on_input: False"""

FORMATS = (
    in_messages("openrlhf", "pairs for OpenRLHF", "pair", _openrlhf, _OPENRLHF_USAGE),
    in_messages(
        "nemo-rl", "pairs for NeMo RL's PreferenceDataset", "pair", _nemo_rl, _NEMO_RL_USAGE
    ),
    # A chat template that strips `</think>` silently leaves both answers empty.
    in_text("axolotl", "pairs for Axolotl", "pair", _axolotl, _AXOLOTL_USAGE),
    in_text("ms-swift", "pairs for ms-swift", "pair", _ms_swift, _MS_SWIFT_USAGE),
    in_text(
        "torchtune",
        "whole conversations for torchtune, open-instruct and other loaders with an implicit "
        "prompt",
        "pair",
        _torchtune,
        _TORCHTUNE_USAGE,
    ),
)
