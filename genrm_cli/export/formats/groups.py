"""Groups for offline RL: a prompt with all its completions, rewards, advantages and standard errors.

Without log probabilities of the policy that wrote the completions, training on them is off-policy.

Source: the `rollout_func` of huggingface/trl 1.16.0 returns `prompt_ids`, `completion_ids` and `logprobs`; any further
key reaches the reward function.
"""

from genrm_cli.export.formats.loading import load_dataset_text
from genrm_cli.export.messages import Message
from genrm_cli.export.rows import Answer, ExportFormat, Json, PromptRow
from genrm_cli.export.tools import json_of_tools


def _render(row: PromptRow) -> Json:
    return {
        "prompt": row.prompt.messages,
        "completions": [_messages_of(answer) for answer in row.answers],
        "rewards": [answer.reward for answer in row.answers],
        "advantages": [answer.advantage for answer in row.answers],
        "standard_errors": [answer.standard_error for answer in row.answers],
        "logprobs": [answer.logprobs for answer in row.answers],
        "completion_ids": [answer.id for answer in row.answers],
        "tools": json_of_tools(row.prompt.tools),
        "prompt_id": row.prompt.id,
        "judge": row.prompt.judge or "",
    }


def _messages_of(answer: Answer) -> list[Message]:
    """Return the messages of a response. Those of a session record whether the policy wrote them."""
    if not answer.is_session:
        return answer.messages
    return [message | {"policy": message["role"] == "assistant"} for message in answer.messages]


def _usage(uri: str) -> str:
    return f"""{load_dataset_text(uri)}
# GRPOTrainer(rollout_func=...) feeds these completions back; `genrm guide export` has a complete example"""


FORMAT = ExportFormat("groups", "prompt", _render, _usage, separates_reasoning=True)
