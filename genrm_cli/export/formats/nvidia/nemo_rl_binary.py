"""NeMo RL's BinaryPreferenceDataset: a prompt with `chosen` and `rejected` as text.

Source: NVIDIA-NeMo/RL 7ea279ab; answers as lists of messages load, but fail in preprocessing with KeyError.
"""

from genrm_cli.export.rows import ExportFormat, Json, Pair, UnfitError, scores_of


def _render(pair: Pair) -> Json:
    if pair.prompt.tools:
        raise UnfitError("NeMo RL does not show tool definitions to the chat template")
    answers = {"prompt": pair.prompt.messages, "chosen": pair.chosen.text, "rejected": pair.rejected.text}
    return answers | scores_of(pair)


def _usage(uri: str) -> str:
    return f"""data.train.dataset_name=BinaryPreferenceDataset data.train.data_path={uri} \\
  data.train.prompt_key=prompt data.train.chosen_key=chosen data.train.rejected_key=rejected"""


FORMAT = ExportFormat("nemo-rl-binary", "pair", _render, _usage, strips_reasoning=True)
