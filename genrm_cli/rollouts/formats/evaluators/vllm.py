"""vLLM's offline outputs: `prompt` and `outputs`, each with a `text`; the line is a whole group.

Source: vllm-project/vllm `vllm/outputs.py` (RequestOutput, CompletionOutput).
"""

from collections.abc import Mapping

from genrm_cli.rollouts.formats.evaluators.openai_chat import read_choices
from genrm_cli.rollouts.formats.format import ANSWER, OTHER_ANSWER, QUESTION, Format, annotate_list, own_of_lists
from genrm_cli.rollouts.reading.decoded import messages_of_template
from genrm_cli.rollouts.reading.fields import Record, list_at
from genrm_cli.rollouts.rollout import Rollout


def _recognise(record: Record) -> bool:
    outputs = record.get("outputs")
    texts = isinstance(outputs, list) and all(isinstance(each, Mapping) and "text" in each for each in outputs)
    return texts and ("prompt" in record or "prompt_token_ids" in record)


def _read(record: Record) -> list[Rollout]:
    prompt = messages_of_template(record.get("prompt"))
    return read_choices(record, list_at(record, "outputs"), prompt, line_is_group=True)


FORMAT = Format(
    "vllm",
    _recognise,
    _read,
    annotate_list,
    own_of_lists((), ("outputs",)),
    keys=("prompt", "prompt_token_ids", "outputs"),
    example={"prompt": QUESTION, "outputs": [{"text": ANSWER}, {"text": OTHER_ANSWER}]},
)
