"""NeMo RL's `train_data_step*.jsonl` and `val_data_step*.jsonl`: `content` and `rewards`, lists of
one rollout.

Training data has the plain text of each message, validation data whole messages. An environment
speaks after every turn of the policy, the last included: it says there what the verifier found.
Rollouts collected by NeMo Gym (with `agent_ref`) alternate between user and policy, and end with
the policy. Source: NVIDIA-NeMo/RL `nemo_rl/algorithms/grpo.py`, `nemo_rl/experience/rollouts.py`,
`nemo_rl/utils/logger.py`."""

from itertools import groupby
from typing import Any

from msgspec.structs import replace

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import Format
from genrm_cli.rollouts.formats.shapes import response_span
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.messages import (
    items_of_messages,
    items_of_text,
    media_of_messages,
    turns_of_messages,
)
from genrm_cli.rollouts.reading.record_fields import list_at, rollout_of
from genrm_cli.rollouts.reading.templates import read_prompt
from genrm_cli.rollouts.reading.values import list_or_empty, words
from genrm_cli.rollouts.rollout import Item, Rollout, Turn, UnreadableRecordError

# Others write `content` and `rewards` as well, but none of these beside them.
_OWN_NAMES = frozenset(words("idx input_lengths token_loss_mask sample_loss_mask agent_ref"))


def _recognise(record: Record) -> bool:
    content = record.get("content")
    is_batch = isinstance(content, list) and bool(content) and isinstance(content[0], list)
    return is_batch and not _OWN_NAMES.isdisjoint(record)


def _logs(record: Record) -> list[Any]:
    content = list_at(record, "content")
    return content if isinstance(content[0], list) else [content]


def _read(record: Record) -> list[Rollout]:
    return [
        _read_log(FORMAT.own_record(record, position), log)
        for position, log in enumerate(_logs(record))
    ]


def _read_log(record: Record, log: object) -> Rollout:
    if not isinstance(log, list) or not log:
        raise UnreadableRecordError("content is not a list of texts or messages")
    if not all(isinstance(text, str) for text in log):
        return _read_messages(record, log)
    if len(log) == 1:
        raise UnreadableRecordError("content has only one text, expected a prompt and a response")
    start = _prompt_texts(record, log)
    # Each text is what its message adds to the rendered conversation.
    asked = read_prompt("".join(log[:start]))
    if start > 1 and not asked.awaits_answer:
        *before, last = log[:start]
        asked = replace(
            asked, turns=(*(Turn("system", text) for text in before), Turn("user", last))
        )
    items: list[Item] = []
    opened = asked.opened
    for number, text in enumerate(log[start:]):
        if number % 2 == 0:
            items += items_of_text(opened + text)
        elif start + number + 1 < len(log):  # the last observation tells the verdict
            said = read_prompt(text, "environment")
            opened = said.opened
            items += (Turn("environment", turn.text) for turn in said.turns)
    return rollout_of(record, asked.turns, tuple(items))


def _prompt_texts(record: Record, log: list[str]) -> int:
    """Return how many texts are the prompt, those before the first text of the policy; refuse what
    cannot be told.

    Policy and environment alternate from there on, so it also tells whether the last text is an
    observation."""
    # Without a frame around the first text, only the policy may have written one.
    is_framed = read_prompt(log[0]).template is not None
    texts = log[: -1 if is_framed else 1]
    starts = [number for number, text in enumerate(texts, 1) if read_prompt(text).awaits_answer]
    start = _start_by_mask(record, len(log))
    if start is None:
        if len(starts) == 1 or len(log) == 2:
            return starts[0] if starts else 1
        raise UnreadableRecordError(
            f"content has {len(log)} texts, no token_loss_mask, and no prompt that ends where the "
            "policy begins: the first may be a system prompt, and the last an observation"
        )
    # Only NeMo Gym's rollouts end with the policy: otherwise, an observation lost its tokens when
    # it was cut.
    ends_with_policy = (len(log) - start) % 2 == 1
    is_observed = log[-1].lstrip().startswith("Environment:")
    alone = start == 1 and not is_observed if ends_with_policy else start in (1, 2)
    if start in starts if starts else alone:
        return start
    raise UnreadableRecordError(
        "token_loss_mask does not fit the texts of content: an observation may be missing"
    )


def _start_by_mask(record: Record, texts: int) -> int | None:
    """Return the number of texts before the first generated one by `token_loss_mask`; None without
    a usable mask.
    """
    mask = list_or_empty(record.get("token_loss_mask"))
    length = record.get("input_lengths")
    if isinstance(length, list) and len(length) == 1:
        (length,) = length
    if mask and isinstance(mask[0], list):
        (mask, *_) = mask
    if not all(isinstance(each, (int, float)) for each in mask):
        return None
    counted = mask[:length] if isinstance(length, int) else mask
    runs = [is_generated for is_generated, _ in groupby(map(bool, counted))]
    return texts - 2 * sum(runs) + runs[-1] if any(runs) else None


def _read_messages(record: Record, log: list[Any]) -> Rollout:
    """Read messages. The environment answers every turn of the policy: the first answered turn is
    its first.
    """
    turns = turns_of_messages(log)
    start, end = response_span(turns, "answer")
    observed = next((number for number, turn in enumerate(turns) if turn.role == "environment"), 0)
    if observed and turns[observed - 1].role == "assistant":
        start = observed - 1
    asked = [read_prompt(turn.text, turn.role) for turn in turns[:start]]
    said = log[start:end]
    if said and asked and isinstance(said[0].get("content"), str):
        said[0] = said[0] | {"content": asked[-1].opened + said[0]["content"]}
    prompt = tuple(turn for each in asked for turn in each.turns)
    return rollout_of(
        record, prompt, items_of_messages(said), prompt_media=media_of_messages(log[:start])
    )


FORMAT = Format(
    "nemo_rl",
    _recognise,
    _read,
    rows=_logs,
    fields=Fields(prompt=("content",), response=("content",)),
    owns_line=True,
)
