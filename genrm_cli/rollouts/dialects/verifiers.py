"""verifiers `results.jsonl`: `example_id`, `prompt`, `completion`, one rollout a line.

A row whose generation failed has a null completion: an input without a response.
"""

from genrm_cli.rollouts.dialects import completion
from genrm_cli.rollouts.dialects.dialect import Dialect
from genrm_cli.rollouts.dialects.fields import Record


def _recognise(record: Record) -> bool:
    return "example_id" in record and "prompt" in record and "completion" in record


DIALECT = Dialect("verifiers", _recognise, completion.DIALECT.read, completion.DIALECT.annotate)
