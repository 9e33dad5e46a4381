"""NeMo-Aligner's DPO and RPO: texts in NeMo's own template, with the rewards that RPO reads.

Each response ends with the token that begins the next turn, as the template requires.

Source: NVIDIA/NeMo-Aligner af2b3bd9, `nemo_aligner/data/nlp/datasets.py`: `chosen_reward` and `rejected_reward`
default to 1 and 0.
"""

from genrm_cli.export.rows import ExportFormat, Json, Pair, Prompt, UnfitError, scores_of

_SYSTEM, _TURN = "<extra_id_0>System\n", "<extra_id_1>"
_NAMES = {"user": "User", "assistant": "Assistant"}


def _render(pair: Pair) -> Json:
    return {
        "prompt": _text_of(pair.prompt),
        "chosen_response": f"{pair.chosen.text}\n{_TURN}",
        "rejected_response": f"{pair.rejected.text}\n{_TURN}",
        "chosen_reward": pair.chosen.reward,
        "rejected_reward": pair.rejected.reward,
    } | scores_of(pair)


def _text_of(prompt: Prompt) -> str:
    if prompt.tools:
        raise UnfitError("NeMo-Aligner's template has no tools")
    starts_with_system = bool(prompt.messages) and prompt.messages[0]["role"] == "system"
    text = f"{_SYSTEM}{prompt.messages[0]['content'] if starts_with_system else ''}\n"
    for message in prompt.messages[starts_with_system:]:
        if message["role"] == "system":
            raise UnfitError("NeMo-Aligner's template has one system message, at the start")
        if message["role"] not in _NAMES or "tool_calls" in message:
            raise UnfitError("NeMo-Aligner's template has no tools")
        text += f"{_TURN}{_NAMES[message['role']]}\n{message['content']}\n"
    return f"{text}{_TURN}Assistant\n"


def _usage(uri: str) -> str:
    return f"""model.dpo.preference_loss=rpo_bwd_kl model.data.data_prefix={{train: [{uri}], validation: [...]}}
# it reads only plain JSON lines, and ignores pairs longer than the model's context with a warning"""


FORMAT = ExportFormat("nemo-aligner-rpo", "pair", _render, _usage)
