"""NeMo RL's PreferenceDataset: `context` and exactly two ranked completions; lower rank is better.

Source: NVIDIA-NeMo/RL 7ea279ab, `nemo_rl/data/datasets/preference_datasets/`. `reward` loads and is ignored.
"""

from genrm_cli.export.rows import ExportFormat, Json, Pair, UnfitError, scores_of


def _render(pair: Pair) -> Json:
    if pair.prompt.tools:
        raise UnfitError("NeMo RL does not show tool definitions to the chat template")
    ranked = [
        {"rank": rank, "completion": answer.messages, "reward": answer.reward}
        for rank, answer in enumerate((pair.chosen, pair.rejected))
    ]
    return {"context": pair.prompt.messages, "completions": ranked} | scores_of(pair)


def _usage(uri: str) -> str:
    return f"""data.train.dataset_name=PreferenceDataset data.train.data_path={uri}
# pairs longer than max_seq_length stay, with a loss multiplier of 0"""


FORMAT = ExportFormat("nemo-rl", "pair", _render, _usage, separates_reasoning=True, strips_reasoning=True)
