"""The formats whose lines are one rollout each: one row each, which names the fields."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats import episode_lines
from genrm_cli.rollouts.formats.format import ANSWER, ANSWERED, ASKED, QUESTION, Format, annotate_line
from genrm_cli.rollouts.formats.shapes import (
    read_chat,
    read_completion,
    read_trajectory,
    split_messages,
)
from genrm_cli.rollouts.reading.chat_messages import turns_of_messages
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.line_fields import (
    LINE_FIELDS,
    is_line,
    parts_of,
    prompt_of,
    resolve_line,
    with_parts,
)
from genrm_cli.rollouts.reading.record_fields import (
    excluded_of,
    failure_of,
    first_of,
    has_all,
    identifier,
    integer,
    list_at,
)
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
    response: Callable[[Record], object] | None = None,
    observes: bool = False,
    task: str | None = None,
    index: str | None = None,
    error: str | None = None,
    rewards: Sequence[str] = (),
    resolve: Callable[[Record], Fields] | None = None,
) -> Format:
    """Return a format whose lines are one rollout each, with a prompt and a response.

    Args:
        name: value of `format`.
        fields: the fields that it reads, by role.
        example: a short record in this format.
        recognise: whether a record looks like this format; see `having`.
        prompt: the prompt of a record; by default, the first field of that role that it has.
        response: the response of a record; likewise.
        observes: whether a decoded response holds what the environment said between turns of the policy.
        task: field that names the task; by default those that many formats share.
        index: field with the index of the rollout in its group; likewise.
        error: field that says why the generation failed.
        rewards: fields beside `reward` that repeat the reward.
        resolve: finds the fields of a record, instead of `prompt` and `response`.
    """

    def read(record: Record) -> list[Rollout]:
        found = Fields() if resolve is None else resolve(record)
        if resolve is not None:
            given, said = prompt_of(record, found), record[found.response[0]]
        else:
            given = first_of(record, fields.prompt) if prompt is None else prompt(record)
            said = first_of(record, fields.response) if response is None else response(record)
        known: Record = {}
        if task is not None:
            task_name = identifier(record.get(task))
            known["task"] = None if task_name is None else f"task:{task_name}"
        if index is not None:
            known["index"] = integer(record.get(index))
        if error is not None:
            known["excluded"] = excluded_of(record) or failure_of(record.get(error))
        rollout = read_completion(record, given, said, observes=observes, **known)
        return [rollout] if resolve is None else with_parts(record, found, [rollout])

    annotate = partial(annotate_line, also=tuple(rewards))
    return Format(name, recognise, read, annotate, fields=fields, example=example, resolve=resolve)


def having(*names: str, unless: str = "") -> Recognise:
    """Return a check that a record has all of these fields, and not the field `unless`."""
    return lambda record: has_all(record, names) and unless not in record


def _has_list(name: str) -> Recognise:
    return lambda record: isinstance(record.get(name), list)


def _is_nemo_skills(record: Record) -> bool:
    asked = any(name in record for name in ("messages", "problem", "question"))
    return asked and "generation" in record and ("expected_answer" in record or "num_generated_tokens" in record)


def _is_verl(record: Record) -> bool:
    texts = isinstance(record.get("input"), str) and isinstance(record.get("output"), str)
    return texts and "prompt" not in record and ("gts" in record or ("score" in record and "step" in record))


def _prompt_of_areal(record: Record) -> object:
    """Return the prompt. AReaL cuts it by the number of trained tokens: with several turns, it holds policy turns."""
    prompt = record.get("prompt")
    if isinstance(prompt, str) and (asked := read_prompt(prompt)).template and not asked.awaits_answer:
        raise UnreadableRecordError("the prompt does not end where the policy begins: it holds turns of the policy")
    return prompt


# Conversations


def _read_tinker(record: Record) -> list[Rollout]:
    # The grader speaks after the rollout has ended.
    turns = [
        turn for turn in list_at(record, "turns") if not (isinstance(turn, Mapping) and turn.get("role") == "grader")
    ]
    example = identifier(record.get("example_id")) or identifier(record.get("idx"))
    task = None if example is None else f"example:{record.get('benchmark', '')}:{example}"
    excluded = excluded_of(record) or failure_of(record.get("error"))
    return [read_trajectory(record, turns, task=task, excluded=excluded, prompt_media=())]


def _read_sharegpt(record: Record) -> list[Rollout]:
    conversation = record.get("conversations")
    if not isinstance(conversation, list):
        raise UnreadableRecordError("no conversations, expected a list of turns with from and value")
    messages = [_message_of_sharegpt(turn) for turn in conversation]
    system = record.get("system")
    if isinstance(system, str) and system.strip():
        messages.insert(0, {"role": "system", "content": system})
    return [read_chat(record, messages)]


def _read_conversation(record: Record, field: str) -> list[Rollout]:
    """Read messages that end in the response. Messages that wait for an answer are a prompt without a response."""
    messages = record.get(field)
    if not isinstance(messages, list):
        raise UnreadableRecordError(f"no {field}, expected a list of messages")
    is_asked = messages and isinstance(messages[-1], Mapping) and messages[-1].get("role") in ("user", "human")
    rollout = split_messages(record, messages, turns_of_messages(messages)) if is_asked else read_chat(record, messages)
    return with_parts(record, _fields_of_conversation(record, field), [rollout])


def _fields_of_conversation(record: Record, field: str) -> Fields:
    return parts_of(record, Fields(prompt=(field,), response=(field,)))


def _message_of_sharegpt(turn: object) -> object:
    if not isinstance(turn, Mapping) or "from" not in turn:
        return turn  # some tools write role and content here
    if turn["from"] == "function_call":
        return {"role": "assistant", "content": None, "tool_calls": [turn.get("value")]}
    return {"role": "tool" if turn["from"] == "observation" else turn["from"], "content": turn.get("value")}


LINE_FORMATS = (
    # `trajectories.jsonl`. Source: thinking-machines-lab/tinker-cookbook `tinker_cookbook/eval/benchmarks/_types.py`.
    Format(
        "tinker",
        lambda record: isinstance(record.get("turns"), list) and ("example_id" in record or "benchmark" in record),
        _read_tinker,
        fields=Fields(prompt=("turns",), response=("turns",), metadata=("example_id", "benchmark", "idx", "error")),
        example={"example_id": "river", "turns": [ASKED, ANSWERED]},
    ),
    # `results.jsonl`: a row whose generation failed has a null completion, an input without a response.
    line_format(
        "verifiers",
        Fields(prompt=("prompt",), response=("completion",), metadata=("example_id", "error")),
        recognise=having("example_id", "prompt", "completion"),
        error="error",
        example={"example_id": 0, "prompt": [ASKED], "completion": [ANSWERED]},
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
        Fields(prompt=("input_prompt",), response=("output_response",), metadata=("score", "stop_reason")),
        recognise=having("input_prompt", "output_response"),
        observes=True,
        rewards=("score",),
        example={"input_prompt": QUESTION, "output_response": ANSWER},
    ),
    # `output-rs*.jsonl`; with `prompt_format=openai` the prompt is under `messages`.
    # Source: NVIDIA-NeMo/Skills `nemo_skills/inference/generate.py`.
    line_format(
        "nemo_skills",
        Fields(
            prompt=("messages", "problem", "question"),
            response=("generation",),
            reference=("expected_answer",),
            metadata=("num_generated_tokens",),
        ),
        recognise=_is_nemo_skills,
        example={"problem": QUESTION, "generation": ANSWER, "expected_answer": "Volga"},
    ),
    # Decoded without special tokens: the policy can write the roles between the turns of an output, so they stay text.
    # Source: verl `trainer/ppo/ray_trainer.py`.
    line_format(
        "verl",
        Fields(prompt=("input",), response=("output",), reference=("gts",), metadata=("score", "step", "prediction")),
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
    line_format(
        "alpaca",
        LINE_FIELDS,
        recognise=having("instruction", "output", unless="prompt"),
        resolve=resolve_line,
        example={"instruction": QUESTION, "input": "", "output": ANSWER},
    ),
    # Also OpenRLHF's `input` and `output`, TRL's completion logs, LLaMA-Factory's predictions, and so on.
    line_format(
        "completion",
        LINE_FIELDS,
        recognise=is_line,
        resolve=resolve_line,
        example={"prompt": QUESTION, "completion": ANSWER},
    ),
    Format(
        "sharegpt",
        _has_list("conversations"),
        _read_sharegpt,
        fields=Fields(prompt=("conversations",), system=("system",), response=("conversations",)),
        example={"conversations": [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": ANSWER}]},
    ),
    # Also the conversations of LMSYS and WildChat.
    *(
        Format(
            name,
            _has_list(field),
            partial(_read_conversation, field=field),
            fields=replace(LINE_FIELDS, prompt=(field,), response=(field,)),
            resolve=partial(_fields_of_conversation, field=field),
            example={field: [ASKED, ANSWERED]},
        )
        for name, field in (("chat", "messages"), ("conversation", "conversation"))
    ),
)
