"""inspect_ai logs: one JSON with `samples`, each a rollout; or one such sample per line.

Epochs of one sample id are a group. Source: UKGovernmentBEIS/inspect_ai `log/_log.py`, `model/_chat_message.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import ANSWERED, QUESTION, Format, Score, number_or_none, without_history
from genrm_cli.rollouts.formats.shapes import read_completion, split_messages
from genrm_cli.rollouts.reading.chat_messages import turns_of_messages
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.record_fields import (
    excluded_of,
    failure_of,
    has_all,
    identifier,
    integer,
    is_truncated,
    list_at,
)
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    return _is_sample(record) or (isinstance(record.get("samples"), list) and isinstance(record.get("eval"), Mapping))


def _is_sample(record: Record) -> bool:
    output = record.get("output")
    return has_all(record, ("id", "epoch", "input")) and isinstance(output, Mapping) and "choices" in output


def _read(record: Record) -> list[Rollout]:
    return [_read_sample(sample) for sample in _samples(record)]


def _samples(record: Record) -> list[Any]:
    if _is_sample(record):
        return [record]
    samples = list_at(record, "samples")
    if not all(isinstance(sample, dict) for sample in samples):
        raise UnreadableRecordError("a sample is not an object")
    return samples


def _read_sample(sample: Record) -> Rollout:
    messages, output = sample.get("messages"), sample.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    name = identifier(sample.get("id"))
    known: Record = {
        "task": None if name is None else f"sample:{name}",
        "index": integer(sample.get("epoch")),
        "is_truncated": is_truncated(choice) or sample.get("limit") is not None,
        "excluded": excluded_of(sample) or failure_of(sample.get("error")),
    }
    if not isinstance(messages, list) or not messages:
        return read_completion(sample, sample.get("input"), choice.get("message"), **known)
    # Few-shot examples come before the policy acts; messages that it generated say so.
    turns = turns_of_messages(messages)
    generated = (
        turn.role == "assistant" and each.get("source") != "input" for turn, each in zip(turns, messages, strict=True)
    )
    first = next((position for position, is_own in enumerate(generated) if is_own), len(messages))
    return split_messages(sample, messages, turns[:first], **known)


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    """Add a score called `genrm` to each sample, as inspect_ai's own scorers do."""
    for sample, score in zip(_samples(record), scores, strict=True):
        given = sample.get("scores")
        others = dict(given) if isinstance(given, Mapping) else {}
        detail = (
            score.detail | {"previous_genrm": without_history(others["genrm"])}
            if "genrm" in others
            else dict(score.detail)
        )
        if "scores" in sample and not isinstance(given, Mapping):
            detail["previous_scores"] = given
        sample["scores"] = others | {"genrm": {"value": score.reward, "metadata": detail}}


def _scores(record: Record) -> list[Score]:
    """Return the scores called `genrm` of the samples."""
    scores = []
    for sample in _samples(record):
        given = sample.get("scores")
        ours = given.get("genrm") if isinstance(given, Mapping) else None
        if not isinstance(ours, Mapping) or not isinstance(ours.get("metadata"), dict):
            raise UnreadableRecordError("not scored: a sample has no score called genrm; run `genrm score` on it first")
        scores.append(Score(number_or_none(ours.get("value")), ours["metadata"]))
    return scores


def _own_record(record: Record, position: int) -> Record:
    sample: Record = _samples(record)[position]
    return sample


FORMAT = Format(
    "inspect_log",
    _recognise,
    _read,
    _annotate,
    _own_record,
    _scores,
    fields=Fields(
        prompt=("samples", "messages", "input"),
        response=("samples", "messages", "output"),
        metadata=("eval", "id", "epoch", "scores", "error", "limit"),
    ),
    owns_line=True,
    example={"id": "river", "epoch": 1, "input": QUESTION, "output": {"choices": [{"message": ANSWERED}]}},
)
