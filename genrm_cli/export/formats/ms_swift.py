"""ms-swift's DPO and reward model training: `messages` that end in the chosen answer, and `rejected_response`.

It removes every field of a message except role, content and loss, so tool calls would be lost.

Source: modelscope/ms-swift 3602360a (4.6), `swift/dataset/preprocessor/core.py`.
"""

from genrm_cli.export.rows import ExportFormat, Json, Pair, UnfitError, scores_of


def _render(pair: Pair) -> Json:
    if pair.prompt.tools or any("tool_calls" in message for message in pair.prompt.messages):
        raise UnfitError("ms-swift removes tool calls from messages")
    messages = [{"role": message["role"], "content": message["content"]} for message in pair.prompt.messages]
    return {
        "messages": [*messages, {"role": "assistant", "content": pair.chosen.text}],
        "rejected_response": pair.rejected.text,
    } | scores_of(pair)


def _usage(uri: str) -> str:
    return f"""swift rlhf --rlhf_type dpo --dataset {uri} ...
# --rlhf_type rm reads the column margin"""


FORMAT = ExportFormat("ms-swift", "pair", _render, _usage, strips_reasoning=True)
