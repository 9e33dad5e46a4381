"""Samples of evaluation harnesses: inspect_ai and lm-evaluation-harness.

inspect_ai writes one JSON with `samples`, or one of these per line; epochs of one sample id are a
group. Source: UKGovernmentBEIS/inspect_ai `log/_log.py`, `model/_chat_message.py`.

lm-evaluation-harness writes one line per document and filter. `resps` has one list per request of
the document, with one text per repeat. Source: EleutherAI `lm_eval/evaluator.py`,
`lm_eval/loggers/evaluation_tracker.py`."""

from collections.abc import Sequence
from typing import Any

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import (
    ANSWER,
    ANSWERED,
    OTHER_ANSWER,
    QUESTION,
    Format,
    Score,
    annotate_list,
    number_or_none,
    without_history,
)
from genrm_cli.rollouts.formats.shapes import (
    asked_of,
    items_of_answer,
    read_completion,
    split_messages,
)
from genrm_cli.rollouts.reading.chat_messages import turns_of_messages
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.line_fields import with_parts
from genrm_cli.rollouts.reading.record_fields import (
    excluded_of,
    failure_of,
    identifier,
    integer,
    is_truncated,
    list_at,
    rollout_of,
)
from genrm_cli.rollouts.reading.templates import DecodedPrompt
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _is_sample(record: Record) -> bool:
    output = record.get("output")
    return (
        record.keys() >= {"id", "epoch", "input"}
        and isinstance(output, dict)
        and "choices" in output
    )


def _samples(record: Record) -> list[Any]:
    if _is_sample(record):
        return [record]
    samples = list_at(record, "samples")
    if not all(isinstance(sample, dict) for sample in samples):
        raise UnreadableRecordError("a sample is not an object")
    return samples


def _read_sample(sample: Record) -> Rollout:
    messages = sample.get("messages")
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    choice = (
        choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    )
    name = identifier(sample.get("id"))
    known: Record = {
        "task": None if name is None else f"sample:{name}",
        "index": integer(sample.get("epoch")),
        "is_truncated": is_truncated(choice) or sample.get("limit") is not None,
        "excluded": excluded_of(sample) or failure_of(sample.get("error")),
    }
    if not isinstance(messages, list) or not messages:
        rollout = read_completion(sample, sample.get("input"), choice.get("message"), **known)
        # Without messages, the sample keeps the options of its question apart.
        return with_parts(sample, Fields(context=("choices",)), [rollout])[0]
    # Few-shot examples come before the policy acts; messages that it generated say so.
    turns = turns_of_messages(messages)
    pairs = zip(turns, messages, strict=True)
    generated = (turn.role == "assistant" and each.get("source") != "input" for turn, each in pairs)
    first = next((position for position, is_own in enumerate(generated) if is_own), len(messages))
    return split_messages(sample, messages, turns[:first], **known)


def _annotate_inspect(record: Record, scores: Sequence[Score]) -> None:
    """Add a score called `genrm` to each sample, as inspect_ai's own scorers do."""
    for sample, score in zip(_samples(record), scores, strict=True):
        given = sample.get("scores")
        others = dict(given) if isinstance(given, dict) else {}
        detail = dict(score.detail)
        if "genrm" in others:
            detail["previous_genrm"] = without_history(others["genrm"])
        if "scores" in sample and not isinstance(given, dict):
            detail["previous_scores_of_inspect"] = given
        sample["scores"] = others | {"genrm": {"value": score.reward, "metadata": detail}}


def _scores_of_inspect(record: Record) -> list[Score]:
    scores = []
    for sample in _samples(record):
        given = sample.get("scores")
        ours = given.get("genrm") if isinstance(given, dict) else None
        if not isinstance(ours, dict) or not isinstance(ours.get("metadata"), dict):
            raise UnreadableRecordError(
                "not scored: a sample has no score called genrm; run `genrm score` on it first"
            )
        scores.append(Score(number_or_none(ours.get("value")), ours["metadata"]))
    return scores


INSPECT = Format(
    "inspect_log",
    lambda record: (
        _is_sample(record)
        or (isinstance(record.get("samples"), list) and isinstance(record.get("eval"), dict))
    ),
    lambda record: list(map(_read_sample, _samples(record))),
    _annotate_inspect,
    lambda record, position: _samples(record)[position],
    _scores_of_inspect,
    fields=Fields(
        prompt=("samples", "messages", "input"),
        response=("samples", "messages", "output"),
        metadata=("eval", "id", "epoch", "scores", "error", "limit"),
    ),
    owns_line=True,
    example={
        "id": "river",
        "epoch": 1,
        "input": QUESTION,
        "output": {"choices": [{"message": ANSWERED}]},
    },
)


def _read_lm_eval(record: Record) -> list[Rollout]:
    responses = _responses(record.get("resps"))
    asked = _asked_by(record.get("arguments"))
    name = identifier(record.get("doc_id"))
    # Each filter repeats the same responses on its own line.
    filtered = record.get("filter")
    task = (
        None
        if name is None
        else f"doc:{name}" + (f" filter:{filtered}" if isinstance(filtered, str) else "")
    )
    return [
        rollout_of(record, asked.turns, items_of_answer(asked, text), task=task)
        for text in responses
    ]


def _responses(resps: object) -> list[str]:
    if not isinstance(resps, list) or not resps:
        raise UnreadableRecordError("resps is empty or missing, expected a list of lists of texts")
    if len(resps) > 1 and all(isinstance(each, list) for each in resps):
        raise UnreadableRecordError(
            f"the document has {len(resps)} requests, expected one generation (generate_until)"
        )
    texts = resps[0] if isinstance(resps[0], list) else resps
    if not texts or not all(isinstance(text, str) for text in texts):
        raise UnreadableRecordError(
            "resps contains no texts: expected generations, not log-likelihoods"
        )
    return [str(text) for text in texts]


def _asked_by(arguments: object) -> DecodedPrompt:
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else arguments
    while isinstance(first, list) and first and not isinstance(first[0], str):
        first = first[0]
    context = (
        first.get("arg_0")
        if isinstance(first, dict)
        else first[0]
        if isinstance(first, list) and first
        else None
    )
    if not isinstance(context, str):
        raise UnreadableRecordError(
            "arguments contain no context, expected gen_args_0.arg_0 to be a text"
        )
    return asked_of(context)


LM_EVAL = Format(
    "lm_eval",
    lambda record: record.keys() >= {"doc_id", "resps", "arguments"},
    _read_lm_eval,
    annotate_list,
    fields=Fields(
        prompt=("arguments",),
        response=("resps",),
        reference=("target", "doc"),
        metadata=("doc_id", "filter"),
    ),
    owns_line=True,
    example={
        "doc_id": 0,
        "arguments": {"gen_args_0": {"arg_0": QUESTION}},
        "resps": [[ANSWER, OTHER_ANSWER]],
    },
)
