"""NeMo RL's `train_data_step*.jsonl` and `val_data_step*.jsonl`: `content` and `rewards`, lists of one rollout.

Training data has the plain text of each message, validation data whole messages. Source: NVIDIA-NeMo/RL
`nemo_rl/algorithms/grpo.py`, `nemo_rl/utils/logger.py`.
"""

from functools import partial

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import (
    ANSWER,
    OTHER_ANSWER,
    QUESTION,
    Fields,
    Format,
    annotate_list,
    own_of_lists,
)
from genrm_cli.rollouts.formats.shapes import read_chat
from genrm_cli.rollouts.reading.chat_messages import items_of_text
from genrm_cli.rollouts.reading.decoded import turns_of_template
from genrm_cli.rollouts.reading.record_fields import list_at, rollout_of
from genrm_cli.rollouts.rollout import Item, Rollout, Turn, UnreadableRecordError

_PARALLEL = (
    *("rewards", "filtered_rewards", "input_lengths", "token_ids", "token_loss_mask", "sample_loss_mask"),
    *("advantages", "generation_logprobs", "prev_logprobs", "agent_ref"),
)
_own_record = own_of_lists(_PARALLEL, ("content",))


def _recognise(record: Record) -> bool:
    return isinstance(record.get("content"), list) and isinstance(record.get("rewards"), list)


def _read(record: Record) -> list[Rollout]:
    return [
        _read_log(_own_record(record, position) if _is_batch(record) else record, log)
        for position, log in enumerate(_logs(record))
    ]


def _read_log(record: Record, log: object) -> Rollout:
    if not isinstance(log, list) or not log:
        raise UnreadableRecordError("content is not a list of texts or messages")
    if not all(isinstance(text, str) for text in log):
        return read_chat(record, log)
    if len(log) == 1:
        raise UnreadableRecordError("content has only one text, expected a prompt and a response")
    # Messages alternate from the first response on, so an odd number begins with a system message.
    opening = 1 if len(log) % 2 == 0 else 2
    roles = ("user",) if opening == 1 else ("system", "user")
    prompt = tuple(turn for role, text in zip(roles, log, strict=False) for turn in turns_of_template(text, role))
    items: list[Item] = []
    for number, text in enumerate(log[opening:]):
        items += items_of_text(text) if number % 2 == 0 else (Turn("environment", text),)
    return rollout_of(record, prompt, tuple(items))


def _is_batch(record: Record) -> bool:
    return isinstance(record["content"][0], list)


def _logs(record: Record) -> list[object]:
    content = list_at(record, "content")
    return content if isinstance(content[0], list) else [content]


def _own(record: Record, position: int) -> Record:
    return _own_record(record, position) if _is_batch(record) else record


FORMAT = Format(
    "nemo_rl",
    _recognise,
    _read,
    partial(annotate_list, also=("filtered_rewards",)),
    _own,
    fields=Fields(prompt=("content",), response=("content",), metadata=("rewards", "filtered_rewards")),
    example={"content": [[QUESTION, ANSWER], [QUESTION, OTHER_ANSWER]], "rewards": [1.0, 0.0]},
)
