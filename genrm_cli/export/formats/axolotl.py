"""Axolotl's DPO strategy `chat_template`: a prompt with one message each as `chosen` and `rejected`.

Given a list of messages, it would train only on the last one. A chat template that strips `</think>` silently leaves
both answers empty.

Source: axolotl-ai-cloud/axolotl 067b021c (0.18.0), `axolotl/prompt_strategies/dpo/chat_template.py`.
"""

from genrm_cli.export.formats.loading import kind_of
from genrm_cli.export.rows import ExportFormat, Json, Pair, UnfitError, scores_of


def _render(pair: Pair) -> Json:
    if pair.prompt.tools or any("tool_calls" in message for message in pair.prompt.messages):
        raise UnfitError("Axolotl's DPO strategy shows neither tool definitions nor tool calls to the chat template")
    return {
        "prompt": pair.prompt.messages,
        "chosen": {"role": "assistant", "content": pair.chosen.text},
        "rejected": {"role": "assistant", "content": pair.rejected.text},
    } | scores_of(pair)


def _usage(uri: str) -> str:
    return f"""rl: dpo
datasets:
  - path: {uri}
    ds_type: {kind_of(uri)}
    split: train
    type: chat_template.default
    field_messages: prompt
    field_chosen: chosen
    field_rejected: rejected
    message_property_mappings: {{role: role, content: content}}"""


FORMAT = ExportFormat("axolotl", "pair", _render, _usage, strips_reasoning=True)
