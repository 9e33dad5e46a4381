"""lm-evaluation-harness samples: `doc_id`, `arguments`, `resps`, one line per document and filter.

`resps` has one list per request of the document, with one text per repeat. Source: EleutherAI
`lm_eval/evaluator.py`, `lm_eval/loggers/evaluation_tracker.py`.
"""

from collections.abc import Mapping

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import ANSWER, OTHER_ANSWER, QUESTION, Format, annotate_list
from genrm_cli.rollouts.formats.shapes import asked_of, items_of_answer
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.record_fields import has_all, identifier, rollout_of
from genrm_cli.rollouts.reading.templates import DecodedPrompt
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return has_all(record, ("doc_id", "resps", "arguments"))


def _read(record: Record) -> list[Rollout]:
    responses = _responses(record.get("resps"))
    asked = _asked_by(record.get("arguments"))
    name = identifier(record.get("doc_id"))
    # Each filter repeats the same responses on its own line.
    filtered = record.get("filter")
    task = None if name is None else f"doc:{name}" + (f" filter:{filtered}" if isinstance(filtered, str) else "")
    return [rollout_of(record, asked.turns, items_of_answer(asked, text), task=task) for text in responses]


def _responses(resps: object) -> list[str]:
    if not isinstance(resps, list) or not resps:
        raise UnreadableRecordError("resps is empty or missing, expected a list of lists of texts")
    if len(resps) > 1 and all(isinstance(each, list) for each in resps):
        raise UnreadableRecordError(f"the document has {len(resps)} requests, expected one generation (generate_until)")
    texts = resps[0] if isinstance(resps[0], list) else resps
    if not texts or not all(isinstance(text, str) for text in texts):
        raise UnreadableRecordError("resps contains no texts: expected generations, not log-likelihoods")
    return [str(text) for text in texts]


def _asked_by(arguments: object) -> DecodedPrompt:
    first = arguments.get("gen_args_0") if isinstance(arguments, Mapping) else arguments
    while isinstance(first, list) and first and not isinstance(first[0], str):
        first = first[0]
    context = (
        first.get("arg_0") if isinstance(first, Mapping) else first[0] if isinstance(first, list) and first else None
    )
    if not isinstance(context, str):
        raise UnreadableRecordError("arguments contain no context, expected gen_args_0.arg_0 to be a text")
    return asked_of(context)


FORMAT = Format(
    "lm_eval",
    _recognise,
    _read,
    annotate_list,
    fields=Fields(
        prompt=("arguments",), response=("resps",), reference=("target", "doc"), metadata=("doc_id", "filter")
    ),
    owns_line=True,
    example={"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": QUESTION}}, "resps": [[ANSWER, OTHER_ANSWER]]},
)
