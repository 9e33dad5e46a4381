"""Read a labelled line: a question and two answers, one of which is known to be better."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from genrm_cli.json_types import Record
from genrm_cli.rollouts.reading.messages import turns_of_messages, turns_of_prompt
from genrm_cli.rollouts.reading.record_fields import principle_of
from genrm_cli.rollouts.reading.templates import read_prompt
from genrm_cli.rollouts.rollout import Rollout, Text, Turn, UnreadableRecordError
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


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two answers to one conversation. The chosen one is known to be better.

    Attributes:
        key: identifies the pair by its content, so that runs over different files can be matched.
        item: the key of the line's first pair. Pairs of one line share question and answers, so a
            line is one independent observation, regardless of its number of pairs.
        id: name of the pair in the line, or else `line:` and its number. A suffix such as `#1-3`
            gives the styles of chosen and rejected, from 1, if the line has several.
        category: category in the line; None if it has none.
        places: positions of both answers among the better and the other ones of the line, from 0.
        rollouts: the better answer and the other one, both without reasoning.
    """

    key: str
    item: str
    id: str
    category: str | None
    places: tuple[int, int]
    rollouts: tuple[Rollout, ...]


def parse_pairs(record: Record, line: int) -> list[LabelledPair]:
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
    if "response_A" in record or "response_B" in record:
        return _pairs_of(
            record, line, _conversation_of(record, "question"), *_sides_by_label(record)
        )
    if "chosen" not in record or "rejected" not in record:
        raise UnreadableRecordError(f"no labelled pair; {_EXPECTED}")
    if _is_styles(record["chosen"]) or _is_styles(record["rejected"]):
        sides = _styles_of(record, "chosen"), _styles_of(record, "rejected")
        return _pairs_of(record, line, _conversation_of(record, "prompt"), *sides)
    before_chosen, chosen = _answer_of(record, "chosen")
    before_rejected, rejected = _answer_of(record, "rejected")
    if before_chosen != before_rejected:
        raise UnreadableRecordError("chosen and rejected are answers to different conversations")
    prompt = (
        _conversation_of(record, "prompt")
        if record.get("prompt") is not None or not before_chosen
        else ()
    )
    repeated = set(prompt) <= set(before_chosen)  # many data sets repeat the prompt in both answers
    conversation = before_chosen if repeated else prompt + before_chosen
    return _pairs_of(record, line, conversation, [chosen], [rejected])


def _pairs_of(
    record: Record,
    line: int,
    conversation: tuple[Turn, ...],
    chosen: Sequence[str],
    rejected: Sequence[str],
) -> list[LabelledPair]:
    name = _first_of(record, _ID_FIELDS) or f"line:{line}"
    category = _first_of(record, _CATEGORY_FIELDS)
    principle = principle_of(record)
    several = len(chosen) > 1 or len(rejected) > 1
    item = ""
    pairs = []
    for i, better in enumerate(chosen, 1):
        for j, worse in enumerate(rejected, 1):
            if better == worse:
                raise UnreadableRecordError("chosen and rejected are the same text")
            style = f"#{i}-{j}" if several else ""
            key = _key_of(conversation, better, worse, style, principle)
            item = item or key
            rollouts = tuple(
                Rollout(conversation, (Text(answer),), principle) for answer in (better, worse)
            )
            places = (i - 1, j - 1)
            pairs.append(LabelledPair(key, item, name + style, category, places, rollouts))
    return pairs


def _sides_by_label(record: Record) -> tuple[list[str], list[str]]:
    a = _text_of(record, "response_A")
    b = _text_of(record, "response_B")
    label = record.get("label")
    if label == "A>B":
        return [a], [b]
    if label == "B>A":
        return [b], [a]
    raise UnreadableRecordError(f"the label is {_shown(label)}, expected 'A>B' or 'B>A'")


def _is_styles(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _styles_of(record: Record, name: str) -> list[str]:
    value = record[name]
    styles = [value] if isinstance(value, str) else value
    if not _is_styles(styles):
        raise UnreadableRecordError(
            f"{name} is {_shown(value)}, expected a list of texts like the other one"
        )
    return [_without_reasoning(text) for text in styles]


def _answer_of(record: Record, name: str) -> tuple[tuple[Turn, ...], str]:
    """Return the turns before an answer, and the answer without its reasoning."""
    value = record[name]
    if not isinstance(value, list):
        return (), _text_of(record, name)
    turns = turns_of_messages(value)
    if not turns or turns[-1].role != "assistant":
        raise UnreadableRecordError(f"{name} does not end in an assistant turn")
    return turns[:-1], _without_reasoning(turns[-1].text)


def _conversation_of(record: Record, name: str) -> tuple[Turn, ...]:
    value = record.get(name)
    turns = read_prompt(value).turns if isinstance(value, str) else turns_of_prompt(value)
    if not any(turn.text.strip() for turn in turns):
        raise UnreadableRecordError(f"{name} is missing or empty")
    return turns


def _text_of(record: Record, name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        raise UnreadableRecordError(f"{name} is {_shown(value)}, expected a text or messages")
    return _without_reasoning(value)


def _without_reasoning(text: str) -> str:
    """Return an answer as rollouts are read: without reasoning and end tokens."""
    return strip_end_tokens(split_reasoning(text)[1])[0]


def _first_of(record: Record, names: Sequence[str]) -> str | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value)
    return None


def _key_of(
    conversation: tuple[Turn, ...], chosen: str, rejected: str, style: str, principle: str | None
) -> str:
    text = json.dumps([conversation, chosen, rejected, style, principle])
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    return repr(value[:20]) if isinstance(value, str) else f"no text but {type(value).__name__}"
