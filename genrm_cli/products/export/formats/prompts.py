"""Prompts for reinforcement learning, alone or with the rewards of earlier responses.

Source: `trl/trainer/grpo_trainer.py` of huggingface/trl 1.16.0: every column but the prompt reaches
the reward function as a list, and `rollout_func` returns `prompt_ids`, `completion_ids` and
`logprobs`. `verl/utils/dataset/rl_dataset.py` of verl-project/verl 0.9.1: its reward code reads
`reward_model.ground_truth` unconditionally, so the key exists even where it is empty."""

from genrm_cli.products.export.chat_messages import Message
from genrm_cli.products.export.rows import (
    ExportedAnswer,
    ExportFormat,
    Json,
    PromptRow,
    json_of_tools,
)


def _grpo(row: PromptRow) -> Json:
    return {"prompt": row.prompt.messages, "prompt_id": row.prompt.id}


def _verl(row: PromptRow) -> Json:
    return {
        "data_source": "genrm",
        "prompt": row.prompt.messages,
        "ability": "chat",
        "reward_model": {"style": "model", "ground_truth": row.prompt.reference},
        "extra_info": {
            "index": row.number,
            "prompt_id": row.prompt.id,
            "judge": row.prompt.judge or "",
            "offline_rewards": [answer.reward for answer in row.answers],
            "offline_ids": [answer.id for answer in row.answers],
        },
    }


def _group(row: PromptRow) -> Json:
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


def _messages_of(answer: ExportedAnswer) -> list[Message]:
    """Return the messages of a response. Those of a session record whether the policy wrote
    them.
    """
    if not answer.is_session:
        return answer.messages
    return [message | {"policy": message["role"] == "assistant"} for message in answer.messages]


_GRPO_USAGE = """{load}
trainer = GRPOTrainer(model=model, reward_funcs=reward, args=GRPOConfig(...), train_dataset=dataset)
# reward(prompts, completions, prompt_id, **others); for stored completions use the format groups"""


def _name_split(row: Json, name: str) -> None:
    # verl's own data sets call them so. A reward manager learns from nothing else which samples
    # are of validation.
    row["extra_info"]["split"] = "train" if name == "train" else "test"


_VERL_USAGE = """data.train_files={uri} {validation}data.prompt_key=prompt
# the custom reward function gets extra_info; verl has no offline rewards of its own"""
_GROUPS_USAGE = (
    "{load}\n"
    "# GRPOTrainer(rollout_func=...) feeds these completions back; `genrm guide export` has a "
    "complete example"
)

FORMATS = (
    ExportFormat("trl-grpo", "prompts for TRL's GRPOTrainer", "prompt", _grpo, _GRPO_USAGE),
    ExportFormat(
        "verl",
        "prompts for verl, with the rewards of earlier responses",
        "prompt",
        _verl,
        _VERL_USAGE,
        name_split=_name_split,
    ),
    # Without log probabilities of the policy that wrote the completions, training on them is
    # off-policy.
    ExportFormat(
        "groups",
        "prompts with all responses and rewards, for offline RL",
        "prompt",
        _group,
        _GROUPS_USAGE,
        separates_reasoning=True,
    ),
)
