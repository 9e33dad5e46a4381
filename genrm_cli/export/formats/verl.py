"""verl's RL data: prompts, with earlier samples and scores in `extra_info`.

Source: verl-project/verl 0.9.1, `verl/utils/dataset/rl_dataset.py`; its reward code reads
`reward_model.ground_truth` unconditionally, so the key exists, although it is empty.
"""

from genrm_cli.export.rows import ExportFormat, Json, PromptRow


def _render(row: PromptRow) -> Json:
    return {
        "data_source": "genrm",
        "prompt": row.prompt.messages,
        "ability": "chat",
        "reward_model": {"style": "model", "ground_truth": ""},
        "extra_info": {
            "index": row.number,
            "prompt_id": row.prompt.id,
            "judge": row.prompt.judge or "",
            "offline_rewards": [answer.reward for answer in row.answers],
            "offline_ids": [answer.id for answer in row.answers],
        },
    }


def _usage(uri: str) -> str:
    return f"""data.train_files={uri} data.prompt_key=prompt
# the custom reward function gets extra_info; verl has no offline rewards of its own"""


FORMAT = ExportFormat("verl", "prompt", _render, _usage)
