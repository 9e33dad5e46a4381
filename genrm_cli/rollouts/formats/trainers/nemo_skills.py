"""NeMo Skills' `output-rs*.jsonl`: `problem`, `expected_answer`, `generation`, one rollout per line.

With its `prompt_format=openai` the prompt is under `messages`.
Source: NVIDIA-NeMo/Skills `nemo_skills/inference/generate.py`.
"""

from genrm_cli.rollouts.formats.format import ANSWER, QUESTION, Format, annotate_line
from genrm_cli.rollouts.formats.plain.completion import read_completion
from genrm_cli.rollouts.reading.fields import Record, first_of
from genrm_cli.rollouts.rollout import Rollout

_PROMPTS = ("messages", "problem", "question")


def _recognise(record: Record) -> bool:
    asked = any(name in record for name in _PROMPTS)
    return asked and "generation" in record and ("expected_answer" in record or "num_generated_tokens" in record)


def _read(record: Record) -> list[Rollout]:
    return [read_completion(record, first_of(record, _PROMPTS), first_of(record, ("generation",)))]


FORMAT = Format(
    "nemo_skills",
    _recognise,
    _read,
    annotate_line,
    keys=(*_PROMPTS, "generation", "expected_answer", "num_generated_tokens"),
    example={"problem": QUESTION, "generation": ANSWER, "expected_answer": "Volga"},
)
