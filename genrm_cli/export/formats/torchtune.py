"""Whole conversations as `chosen` and `rejected`: torchtune, open-instruct, and TRL with an implicit prompt.

The loaders use the common turns as the prompt.

Source: pytorch/torchtune bd2a0fc7 (0.7.0), `torchtune/data/_messages.py`, `ChosenToRejectedMessages`;
allenai/open-instruct e6c3044a, `dataset_transformation.py`.
"""

from genrm_cli.export.formats.loading import kind_of
from genrm_cli.export.messages import Message
from genrm_cli.export.rows import Answer, ExportFormat, Json, Pair, Prompt, UnfitError, scores_of


def _render(pair: Pair) -> Json:
    if pair.prompt.tools:
        raise UnfitError("torchtune does not show tool definitions to the model")
    chosen, rejected = (_conversation(pair.prompt, answer) for answer in (pair.chosen, pair.rejected))
    return {"chosen": chosen, "rejected": rejected} | scores_of(pair)


def _conversation(prompt: Prompt, answer: Answer) -> list[Message]:
    messages = [*prompt.messages, *answer.messages]
    if any("tool_calls" in message or message["role"] == "tool" for message in messages):
        raise UnfitError("torchtune reads neither tool calls nor their results")
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _usage(uri: str) -> str:
    return f"""dataset:
  _component_: torchtune.datasets.preference_dataset
  source: {kind_of(uri)}
  data_files: {uri}
  split: train
  train_on_input: False"""


FORMAT = ExportFormat("torchtune", "pair", _render, _usage, strips_reasoning=True)
