"""Read a labelled line: a question, and answers of which some are known to be better."""

import hashlib
import json
from collections.abc import Sequence
from itertools import product

from msgspec import Struct

from genrm_cli.json_types import Record
from genrm_cli.products.evaluation.pair_records import NOT_JUDGED, PairRecord
from genrm_cli.rollouts.reading.messages import (
    ChatMessage,
    media_of_messages,
    read_messages,
    turns_of_messages,
    turns_of_prompt,
)
from genrm_cli.rollouts.reading.record_fields import media_beside, principle_of
from genrm_cli.rollouts.reading.templates import read_prompt
from genrm_cli.rollouts.rollout import Media, Turn, UnreadableRecordError
from genrm_cli.texts.reasoning import split_reasoning, strip_end_tokens

# JudgeBench, RewardBench and RM-Bench, and the names of our own formats
_ID_FIELDS = ("pair_id", "id", "prompt_id", "example_id")
_CATEGORY_FIELDS = ("category", "subset", "domain", "source")
_KEY_DIGITS = 16  # 64 bits: two of a million pairs share a key with a probability of 3e-8
_EXPECTED = (
    "expected question, response_A, response_B and label (JudgeBench), or prompt, chosen and "
    "rejected "
    "(RewardBench; RM-Bench with a list of styles each)"
)


class LabelledPair(Struct, frozen=True):
    """A chosen answer of a line against a rejected one.

    Attributes:
        key: identifies the pair by its content, so that runs over different files can be matched.
        record: the pair in the result, not judged yet.
    """

    key: str
    chosen: str
    rejected: str
    record: PairRecord


class LabelledLine(Struct, frozen=True, kw_only=True):
    """A conversation and its pairs of answers, without their reasoning.

    Attributes:
        pairs: each chosen answer against each rejected one. They share question and answers, so a
            line is one independent observation, regardless of their number.
        principle: what the line says to judge by.
        asked_media: the images and files of the conversation; `said_media` are those of answers.
    """

    conversation: tuple[Turn, ...]
    pairs: tuple[LabelledPair, ...]
    principle: str | None
    asked_media: tuple[Media, ...]
    said_media: tuple[Media, ...]


def parse_labelled(record: Record, line: int) -> LabelledLine:
    """Parse a labelled line: one pair, or each chosen style against each rejected one.

    Args:
        record: a line of JudgeBench, RewardBench or RM-Bench, or just `prompt`, `chosen`,
            `rejected`, each a text or messages. In messages, the last assistant turn is the answer,
            and everything before it is the conversation.
        line: its number, for pairs without a name.

    Raises:
        UnreadableRecordError: it is none of these, or the two answers are the same; the message
            says why.
    """
    asked, better_name, worse_name = _names_in(record)
    before, chosen, before_media, chosen_media = _answers_of(record, better_name)
    before_rejected, rejected, _, rejected_media = _answers_of(record, worse_name)
    if before != before_rejected:
        raise UnreadableRecordError("chosen and rejected are answers to different conversations")
    prompt: tuple[Turn, ...] = ()
    if record.get(asked) is not None or not before:
        prompt = _conversation_of(record, asked)
    # Many data sets repeat the prompt in both answers.
    conversation = before if set(prompt) <= set(before) else prompt + before
    name = _first_of(record, _ID_FIELDS) or f"line:{line}"
    category = _first_of(record, _CATEGORY_FIELDS)
    principle = principle_of(record)
    pairs: list[LabelledPair] = []
    for places in product(range(len(chosen)), range(len(rejected))):
        better = chosen[places[0]]
        worse = rejected[places[1]]
        if better == worse:
            raise UnreadableRecordError("chosen and rejected are the same text")
        style = f"#{places[0] + 1}-{places[1] + 1}" if len(chosen) * len(rejected) > 1 else ""
        content = json.dumps([conversation, better, worse, style, principle])
        key = hashlib.sha256(content.encode()).hexdigest()[:_KEY_DIGITS]
        pair = PairRecord(
            id=name + style,
            item=pairs[0].key if pairs else key,
            line=line,
            category=category,
            chosen_index=places[0],
            rejected_index=places[1],
            chosen_chars=len(better),
            rejected_chars=len(worse),
            chosen_first=NOT_JUDGED,
            chosen_second=NOT_JUDGED,
        )
        pairs.append(LabelledPair(key, better, worse, pair))
    return LabelledLine(
        conversation=conversation,
        pairs=tuple(pairs),
        principle=principle,
        asked_media=(*media_of_messages(record.get(asked)), *before_media, *media_beside(record)),
        said_media=(*chosen_media, *rejected_media),
    )


def _names_in(record: Record) -> tuple[str, str, str]:
    """Return the names of the fields with the conversation, the chosen and the rejected answers."""
    if "response_A" in record or "response_B" in record:
        label = record.get("label")
        if label == "A>B":
            return "question", "response_A", "response_B"
        if label == "B>A":
            return "question", "response_B", "response_A"
        raise UnreadableRecordError(f"the label is {_shown(label)}, expected 'A>B' or 'B>A'")
    if "chosen" not in record or "rejected" not in record:
        raise UnreadableRecordError(f"no labelled pair; {_EXPECTED}")
    return "prompt", "chosen", "rejected"


def _answers_of(
    record: Record, name: str
) -> tuple[tuple[Turn, ...], list[str], tuple[Media, ...], tuple[Media, ...]]:
    """Return the turns before an answer, and the answer, or a list of styles of it, as rollouts are
    read: without reasoning and end tokens; a blank one is empty. Then the media of both.
    """
    value = record.get(name)
    messages: list[ChatMessage] = []
    turns: tuple[Turn, ...] = ()
    if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
        texts = value
    elif isinstance(value, list):
        messages = read_messages(value)
        turns = turns_of_messages(messages)
        if not turns or turns[-1].role != "assistant":
            raise UnreadableRecordError(f"{name} does not end in an assistant turn")
        texts = [turns[-1].text]
    elif isinstance(value, str):
        texts = [value]
    else:
        raise UnreadableRecordError(
            f"{name} is {_shown(value)}, expected a text, messages or a list of texts"
        )
    answers = [strip_end_tokens(split_reasoning(text)[1])[0] for text in texts]
    answers = [answer if answer.strip() else "" for answer in answers]
    return turns[:-1], answers, media_of_messages(messages[:-1]), media_of_messages(messages[-1:])


def _conversation_of(record: Record, name: str) -> tuple[Turn, ...]:
    value = record.get(name)
    turns = read_prompt(value).turns if isinstance(value, str) else turns_of_prompt(value)
    if not any(turn.text.strip() for turn in turns):
        raise UnreadableRecordError(f"{name} is missing or empty")
    return turns


def _first_of(record: Record, names: Sequence[str]) -> str | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value)
    return None


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    return repr(value[:20]) if isinstance(value, str) else f"no text but {type(value).__name__}"
