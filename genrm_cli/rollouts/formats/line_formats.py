"""The formats whose lines are one rollout each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from genrm_cli.errors import SettingRef
from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.episodes import episode_lines
from genrm_cli.rollouts.formats.format import (
    ANSWER,
    ANSWERED,
    ASKED,
    QUESTION,
    Format,
    annotate_line,
)
from genrm_cli.rollouts.formats.shapes import (
    read_chat,
    read_completion,
    read_trajectory,
)
from genrm_cli.rollouts.reading.account import repeated_reference
from genrm_cli.rollouts.reading.known_names import REFERENCES, Fields, iter_texts
from genrm_cli.rollouts.reading.line_fields import (
    LINE_FIELDS,
    is_line,
    messages_at,
    parts_of,
    prompt_of,
    resolve_line,
    with_parts,
)
from genrm_cli.rollouts.reading.record_fields import first_of, identifier, integer, list_at
from genrm_cli.rollouts.reading.templates import read_prompt
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

Recognise = Callable[[Record], bool]


def line_format(
    name: str,
    fields: Fields,
    *,
    example: Record,
    recognise: Recognise,
    prompt: Callable[[Record], object] | None = None,
    observes: bool = False,
    task: str | None = None,
    index: str | None = None,
    rewards: Sequence[str] = (),
    resolve: Callable[[Record], Fields] | None = None,
) -> Format:
    """Return a format whose lines are one rollout each, with a prompt and a response.

    Args:
        recognise: whether a record looks like this format; see `having`.
        prompt: the prompt of a record; by default, the first field of that role that it has.
        observes: whether a decoded response holds what the environment said between turns of the
            policy.
        task: field that names the task, `index` the rollout in it; by default those that many
            formats share.
        rewards: fields beside `reward` that repeat the reward.
        resolve: finds the fields of a record, instead of `prompt` and `response`.
    """

    def read(record: Record) -> list[Rollout]:
        found = Fields() if resolve is None else resolve(record)
        if resolve is not None:
            given = prompt_of(record, found)
            said = record[found.response[0]]
        else:
            given = first_of(record, fields.prompt) if prompt is None else prompt(record)
            said = first_of(record, fields.response)
        known: Record = {}
        if task is not None:
            task_name = identifier(record.get(task))
            known["task"] = None if task_name is None else f"task:{task_name}"
        if index is not None:
            known["index"] = integer(record.get(index))
        rollout = read_completion(record, given, said, observes=observes, **known)
        return [rollout] if resolve is None else with_parts(record, found, [rollout])

    annotate = partial(annotate_line, also=tuple(rewards))
    return Format(name, recognise, read, annotate, fields=fields, example=example, resolve=resolve)


def having(*names: str, unless: str = "") -> Recognise:
    """Return a check that a record has all of these fields, and not the field `unless`."""
    return lambda record: record.keys() >= {*names} and unless not in record


def _is_verl(record: Record) -> bool:
    texts = isinstance(record.get("input"), str) and isinstance(record.get("output"), str)
    return (
        texts
        and "prompt" not in record
        and ("gts" in record or ("score" in record and "step" in record))
    )


def _prompt_of_areal(record: Record) -> object:
    """Return the prompt. AReaL cuts it by the number of trained tokens: with several turns, it
    holds policy turns.
    """
    prompt = record.get("prompt")
    if (
        isinstance(prompt, str)
        and (asked := read_prompt(prompt)).template
        and not asked.awaits_answer
    ):
        raise UnreadableRecordError(
            "the prompt does not end where the policy begins: it holds turns of the policy"
        )
    return prompt


# Conversations


def _read_tinker(record: Record) -> list[Rollout]:
    # The grader speaks after the rollout has ended.
    turns = [
        turn
        for turn in list_at(record, "turns")
        if not (isinstance(turn, dict) and turn.get("role") == "grader")
    ]
    example = identifier(record.get("example_id")) or identifier(record.get("idx"))
    task = None if example is None else f"example:{record.get('benchmark', '')}:{example}"
    return [read_trajectory(record, turns, task=task, prompt_media=())]


def _read_sharegpt(record: Record) -> list[Rollout]:
    conversation = record.get("conversations")
    if not isinstance(conversation, list):
        raise UnreadableRecordError(
            "no conversations, expected a list of turns with from and value"
        )
    messages = [_message_of_sharegpt(turn) for turn in conversation]
    system = record.get("system")
    if isinstance(system, str) and system.strip():
        messages.insert(0, {"role": "system", "content": system})
    return [read_chat(record, messages)]


_CONVERSATIONS = ("messages", "conversation")
_REFERENCES = frozenset(REFERENCES)


def _conversation_field(record: Record) -> str | None:
    values = ((name, messages_at(record, name)) for name in _CONVERSATIONS)
    return next((name for name, value in values if isinstance(value, list)), None)


def _read_conversation(record: Record) -> list[Rollout]:
    """Read messages that end in the response. Messages that wait for an answer are a prompt without
    a response.
    """
    field = _conversation_field(record)
    if field is None:
        raise UnreadableRecordError("no messages, expected a list of messages")
    rollout = read_chat(record, messages_at(record, field))
    return with_parts(record, _fields_of_conversation(record), [rollout])


def _fields_of_conversation(record: Record) -> Fields:
    field = _conversation_field(record) or "messages"
    return parts_of(record, Fields(prompt=(field,), response=(field,)))


def _resolve_conversation(record: Record) -> Fields:
    """Return the fields of a conversation that is not training data."""
    read = _fields_of_conversation(record)
    _refuse_training_data(record, messages_at(record, read.prompt[0]))
    return read


def _resolve_sharegpt(record: Record) -> Fields:
    _refuse_training_data(record, record.get("conversations"))
    return _SHAREGPT.present_in(record)


def _refuse_training_data(record: Record, messages: object) -> None:
    """Refuse messages that end in the known solution of their task: the policy wrote none of it."""
    if _REFERENCES.isdisjoint(record):
        return
    last = messages[-1] if isinstance(messages, list) and messages else None
    text = "".join(iter_texts(last))
    if (gold := repeated_reference(record, text)) is not None:
        raise UnreadableRecordError(
            f"the conversation ends in the known answer ({gold}), which the policy did not write; "
            "name the response with ",
            SettingRef("response_field"),
            " if it did",
        )


def _message_of_sharegpt(turn: object) -> object:
    if not isinstance(turn, dict) or "from" not in turn:
        return turn  # some tools write role and content here
    if turn["from"] == "function_call":
        return {"role": "assistant", "content": None, "tool_calls": [turn.get("value")]}
    return {
        "role": "tool" if turn["from"] == "observation" else turn["from"],
        "content": turn.get("value"),
    }


_SHAREGPT = Fields(prompt=("conversations",), system=("system",), response=("conversations",))

LINE_FORMATS = (
    # `trajectories.jsonl`. Source: thinking-machines-lab/tinker-cookbook
    # `tinker_cookbook/eval/benchmarks/_types.py`.
    Format(
        "tinker",
        lambda record: (
            isinstance(record.get("turns"), list)
            and ("example_id" in record or "benchmark" in record)
        ),
        _read_tinker,
        fields=Fields(
            prompt=("turns",),
            response=("turns",),
            metadata=("example_id", "benchmark", "idx", "error"),
        ),
        example={"example_id": "river", "turns": [ASKED, ANSWERED]},
    ),
    # Source: inclusionAI/AReaL `areal/infra/workflow_executor.py`.
    line_format(
        "areal",
        Fields(prompt=("prompt",), response=("completion",), metadata=("task_id", "sample_idx")),
        recognise=having("task_id", "sample_idx", "prompt", "completion"),
        prompt=_prompt_of_areal,
        observes=True,
        task="task_id",
        index="sample_idx",
        example={"task_id": 0, "sample_idx": 0, "prompt": QUESTION, "completion": ANSWER},
    ),
    # Source: NovaSky-AI/SkyRL `skyrl/train/utils/trainer_utils.py`.
    line_format(
        "skyrl",
        Fields(
            prompt=("input_prompt",),
            response=("output_response",),
            metadata=("score", "stop_reason"),
        ),
        recognise=having("input_prompt", "output_response"),
        observes=True,
        rewards=("score",),
        example={"input_prompt": QUESTION, "output_response": ANSWER},
    ),
    # Decoded without special tokens: the policy can write the roles between the turns of an output,
    # so they stay text. Source: verl `trainer/ppo/ray_trainer.py`.
    line_format(
        "verl",
        Fields(
            prompt=("input",),
            response=("output",),
            reference=("gts",),
            metadata=("score", "step", "prediction"),
        ),
        recognise=_is_verl,
        rewards=("score",),
        example={"input": QUESTION, "output": ANSWER, "gts": "Volga", "score": 1.0, "step": 1},
    ),
    # Source: NousResearch/atropos `atroposlib/cli/sft.py`.
    line_format(
        "atropos_text",
        Fields(prompt=("prefix",), response=("completion",), metadata=("score",)),
        recognise=having("prefix", "completion", unless="prompt"),
        rewards=("score",),
        example={"prefix": QUESTION, "completion": ANSWER},
    ),
    episode_lines.FORMAT,
    # Also Alpaca, OpenRLHF, verifiers, NeMo Skills, TRL's completion logs, LLaMA-Factory's
    # predictions, and so on.
    line_format(
        "completion",
        LINE_FIELDS,
        recognise=is_line,
        resolve=resolve_line,
        example={"prompt": QUESTION, "completion": ANSWER},
    ),
    Format(
        "sharegpt",
        lambda record: isinstance(record.get("conversations"), list),
        _read_sharegpt,
        fields=_SHAREGPT,
        resolve=_resolve_sharegpt,
        example={
            "conversations": [
                {"from": "human", "value": QUESTION},
                {"from": "gpt", "value": ANSWER},
            ]
        },
    ),
    # Also the conversations of LMSYS and WildChat.
    Format(
        "chat",
        lambda record: _conversation_field(record) is not None,
        _read_conversation,
        fields=replace(LINE_FIELDS, prompt=_CONVERSATIONS, response=_CONVERSATIONS),
        resolve=_resolve_conversation,
        example={"messages": [ASKED, ANSWERED]},
    ),
)
