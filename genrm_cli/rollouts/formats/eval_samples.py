"""Samples of evaluation harnesses: inspect_ai and lm-evaluation-harness.

inspect_ai writes one JSON with `samples`, or one of these per line; epochs of one sample id are a
group. Source: UKGovernmentBEIS/inspect_ai `log/_log.py`, `model/_chat_message.py`.

lm-evaluation-harness writes one line per document and filter. `resps` has one list per request of
the document, with one text per repeat. Source: EleutherAI `lm_eval/evaluator.py`."""

from typing import Any

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import Format
from genrm_cli.rollouts.formats.shapes import read_completion, read_conversation
from genrm_cli.rollouts.reading.answers import alternatives_of
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.line_fields import with_parts
from genrm_cli.rollouts.reading.messages import read_messages
from genrm_cli.rollouts.reading.record_fields import (
    excluded_of,
    failure_of,
    identifier,
    integer,
    is_truncated,
    list_at,
)
from genrm_cli.rollouts.reading.values import is_objects, object_or_empty
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _is_sample(record: Record) -> bool:
    has_choices = "choices" in object_or_empty(record.get("output"))
    return has_choices and record.keys() >= {"id", "epoch", "input"}


def _samples(record: Record) -> list[Record]:
    samples = [record] if _is_sample(record) else list_at(record, "samples")
    if not is_objects(samples):
        raise UnreadableRecordError("a sample is not an object")
    return samples


def _read_sample(sample: JsonObject) -> Rollout:
    messages = sample.get("messages")
    choice = alternatives_of(sample.get("output"))[0]
    name = identifier(sample.get("id"))
    known: Record = {
        "task": None if name is None else f"sample:{name}",
        "index": integer(sample.get("epoch")),
        "is_truncated": is_truncated(object_or_empty(choice)) or sample.get("limit") is not None,
        "excluded": excluded_of(sample) or failure_of(sample.get("error")),
    }
    if not isinstance(messages, list) or not messages:
        rollout = read_completion(sample, sample.get("input"), choice, **known)
        # Without messages, the sample keeps the options of its question apart.
        return with_parts(sample, Fields(context=("choices",)), [rollout])[0]
    # Few-shot examples come before the policy acts; messages that it generated say so.
    read = zip(read_messages(messages), messages, strict=True)
    generated = [
        message.role == "assistant" and each.get("source") != "input" for message, each in read
    ]
    first = generated.index(True) if True in generated else len(messages)
    return read_conversation(sample, messages, first, **known)


INSPECT = Format(
    "inspect_log",
    lambda record: (
        _is_sample(record)
        or (isinstance(record.get("samples"), list) and isinstance(record.get("eval"), dict))
    ),
    lambda record: list(map(_read_sample, _samples(record))),
    rows=lambda record: () if _is_sample(record) else _samples(record),
    fields=Fields(
        prompt=("samples", "messages", "input"), response=("samples", "messages", "output")
    ),
    owns_line=True,
)


def _texts_of_lm_eval(record: Record) -> list[Any]:
    responses = list_at(record, "resps")
    if len(responses) > 1 or not isinstance(responses[0], list) or not responses[0]:
        raise UnreadableRecordError(
            f"the document has {len(responses)} requests, expected one generation (generate_until)"
        )
    if not all(isinstance(text, str) for text in responses[0]):
        raise UnreadableRecordError("resps contains log-likelihoods, expected generations")
    return responses[0]


def _read_lm_eval(record: Record) -> list[Rollout]:
    asked = record.get("arguments")
    for name in ("gen_args_0", "arg_0"):
        asked = asked.get(name) if isinstance(asked, dict) else asked
    while isinstance(asked, list) and asked:
        asked = asked[0]
    if not isinstance(asked, str):
        raise UnreadableRecordError("arguments contain no context, expected gen_args_0.arg_0")
    # Each filter repeats the same responses on its own line.
    task = f"doc:{record.get('doc_id')} filter:{record.get('filter')}"
    return [read_completion(record, asked, text, task=task) for text in _texts_of_lm_eval(record)]


LM_EVAL = Format(
    "lm_eval",
    lambda record: record.keys() >= {"doc_id", "resps", "arguments"},
    _read_lm_eval,
    rows=_texts_of_lm_eval,
    fields=Fields(prompt=("arguments",), response=("resps",)),
    owns_line=True,
)
