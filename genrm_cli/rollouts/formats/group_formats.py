"""The formats whose lines hold several responses: one row each."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import (
    ANSWER,
    ANSWERED,
    ANSWERED_TOO,
    ASKED,
    OTHER_ANSWER,
    QUESTION,
    Format,
    Score,
    annotate_list,
    own_of_lists,
    set_detail,
)
from genrm_cli.rollouts.formats.shapes import (
    PARALLEL,
    read_chat,
    read_choices,
    read_completion,
    read_list,
)
from genrm_cli.rollouts.reading.chat_messages import role_of
from genrm_cli.rollouts.reading.known_names import (
    MANY_RESPONSES,
    RESPONSES,
    Fields,
    is_api_choices,
    is_messages,
)
from genrm_cli.rollouts.reading.line_fields import (
    LINE_FIELDS,
    has_prompt,
    prompt_of,
    resolve_line,
    with_parts,
)
from genrm_cli.rollouts.reading.record_fields import list_at, task_of
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def list_format(
    name: str,
    fields: Fields,
    *,
    parallel: Sequence[str] = (),
    rewards: str = "rewards",
    **parts: Any,
) -> Format:
    """Return a format whose lines hold a list of responses: the first field of a response that is a
    list.

    `parallel` names fields with one entry per response, `rewards` the list of rewards; `parts` are
    those of `Format`."""
    annotate = partial(annotate_list, field=rewards)
    own_record = own_of_lists(parallel, fields.response)
    return Format(name, annotate=annotate, own_record=own_record, fields=fields, **parts)


_COLUMNS = Fields(
    prompt=("prompt", "prompts"),
    response=("responses", "completion", "completions", "outputs", "generations"),
    metadata=("scores", "messages"),  # ROLL has the messages that its prompts were rendered from
)


def _column(record: Record, names: Sequence[str]) -> list[Any]:
    """Return the first of these fields that is a list of texts or of lists; empty if there is
    none.
    """
    values = (record[name] for name in names if isinstance(record.get(name), list))
    return next((each for each in values if not any(isinstance(value, dict) for value in each)), [])


def _is_columns(record: Record) -> bool:
    prompts = _column(record, _COLUMNS.prompt)
    responses = _column(record, _COLUMNS.response)
    if not prompts or len(prompts) != len(responses):
        return False
    # Lists of texts alone may be the turns of one conversation: a batch has another column.
    others = (
        value
        for name, value in record.items()
        if name not in (*_COLUMNS.prompt, *_COLUMNS.response)
    )
    is_batch = any(isinstance(value, list) and len(value) == len(prompts) for value in others)
    return is_batch or len(prompts) == 1 or any(map(_is_nested, responses))


def _rows(record: Record) -> list[tuple[int, object, object]]:
    """Return number, prompt and response of each rollout of columns; a response may be a list of
    alternatives.
    """
    prompts = _column(record, _COLUMNS.prompt)
    responses = _column(record, _COLUMNS.response)
    if not prompts or len(prompts) != len(responses):
        raise UnreadableRecordError(
            f"{len(prompts)} prompts but {len(responses)} responses, expected equal numbers"
        )
    return [
        (row, prompt, each)
        for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True))
        for each in (response if _is_nested(response) else [response])
    ]


def _is_nested(response: object) -> bool:
    return isinstance(response, list) and all(isinstance(each, str | list) for each in response)


def _read_columns(record: Record) -> list[Rollout]:
    if not (rows := _rows(record)):
        raise UnreadableRecordError("the lists of responses are empty")
    return [
        read_completion(_own_row(record, row), prompt, response) for row, prompt, response in rows
    ]


def _annotate_columns(record: Record, scores: Sequence[Score]) -> None:
    """Annotate columns; the rewards of alternatives are nested as the responses are."""
    field = "scores" if "scores" in record and "rewards" not in record else "rewards"
    responses = _column(record, _COLUMNS.response)
    if not any(map(_is_nested, responses)):
        annotate_list(record, scores, field)
        return
    rest = iter(scores)
    rows = [[next(rest) for _ in (each if _is_nested(each) else [each])] for each in responses]
    details = [[score.detail for score in row] for row in rows]
    detail: Record = {"rollouts": details, f"previous_{field}": record.get(field)}
    record[field] = [[score.reward for score in row] for row in rows]
    set_detail(record, detail)


def _own_row(record: Record, row: int) -> Record:
    """Return a row: every list as long as the column of prompts is a column."""
    count = len(_column(record, _COLUMNS.prompt))
    return {
        name: value[row] if isinstance(value, list) and len(value) == count > row else value
        for name, value in record.items()
    }


def _is_many(record: Record) -> bool:
    return has_prompt(record) and any(
        isinstance(record.get(name), list)
        and _are_alternatives(record[name], name in MANY_RESPONSES)
        for name in (*MANY_RESPONSES, *RESPONSES)
    )


def _are_alternatives(values: list[object], is_named_so: bool) -> bool:
    """Whether a list holds alternatives, by its name or as texts (null if one failed); messages may
    be one response.
    """
    if is_messages(values):
        # Reasoning and answer in two messages are one response.
        roles = {role_of(each) for each in values if isinstance(each.get("role"), str)}
        return is_named_so and roles == {"assistant"}
    return is_named_so or (any(values) and all(isinstance(each, str | None) for each in values))


def _read_many(record: Record) -> list[Rollout]:
    read = resolve_line(record)
    rollouts = read_list(record, prompt_of(record, read), list_at(record, read.response[0]))
    return with_parts(record, read, rollouts)


def _is_vllm(record: Record) -> bool:
    outputs = record.get("outputs")
    texts = isinstance(outputs, list) and all(
        isinstance(each, dict) and "text" in each for each in outputs
    )
    return texts and ("prompt" in record or "prompt_token_ids" in record)


def _is_openai_chat(record: Record) -> bool:
    choices = record.get("choices")
    return is_api_choices(choices) and (bool(choices) or has_prompt(record))


def _fields_of_choices(record: Record) -> Fields:
    # The object does not contain its prompt, but its writer may have put it beside the choices.
    return (
        resolve_line(record, ("choices",)) if has_prompt(record) else Fields(response=("choices",))
    )


def _read_openai_chat(record: Record) -> list[Rollout]:
    choices = record.get("choices")
    read = _fields_of_choices(record)
    prompt = prompt_of(record, read) if read.prompt else None
    if choices == []:
        return with_parts(record, read, [read_completion(record, prompt, None)])
    group = len(list_at(record, "choices")) > 1 or (task_of(record) is None and not read.prompt)
    return with_parts(
        record, read, read_choices(record, list_at(record, "choices"), prompt, line_is_group=group)
    )


_ATROPOS_LISTS = (
    "tokens",
    "masks",
    "scores",
    "advantages",
    "ref_logprobs",
    "inference_logprobs",
    "overrides",
    "images",
    "distill_token_ids",
    "distill_logprobs",
)


def _read_atropos(record: Record) -> list[Rollout]:
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UnreadableRecordError(
            "an Atropos group without messages, expected texts: set include_messages in the "
            "environment"
        )
    return [read_chat(record, each, line_is_group=True, task=None, index=None) for each in messages]


GROUP_FORMATS = (
    # Groups have messages only if the environment includes them.
    # Source: NousResearch/atropos `atroposlib/envs/base.py`.
    list_format(
        "atropos",
        Fields(
            prompt=("messages",), response=("messages",), metadata=("tokens", "masks", "scores")
        ),
        recognise=lambda record: (
            isinstance(record.get("scores"), list) and "tokens" in record and "masks" in record
        ),
        read=_read_atropos,
        parallel=_ATROPOS_LISTS,
        rewards="scores",
        owns_line=True,
        example={
            "tokens": [[1], [2]],
            "masks": [[1], [2]],
            "scores": [1.0, 0.0],
            "messages": [[ASKED, ANSWERED], [ASKED, ANSWERED_TOO]],
        },
    ),
    # Also `rollout_dump_data.step_N.jsonl` of ROLL and `completions.jsonl` of ms-swift. Source:
    # alibaba/ROLL `roll/pipeline/rlvr/utils.py`, modelscope/ms-swift
    # `swift/rlhf_trainers/grpo_trainer.py`.
    Format(
        "columns",
        _is_columns,
        _read_columns,
        _annotate_columns,
        lambda record, position: _own_row(record, _rows(record)[position][0]),
        fields=_COLUMNS,
        example={"prompts": [QUESTION], "responses": [[ANSWER, OTHER_ANSWER]]},
    ),
    # Source: vllm-project/vllm `vllm/outputs.py` (RequestOutput, CompletionOutput).
    list_format(
        "vllm",
        Fields(prompt=("prompt",), response=("outputs",), metadata=("prompt_token_ids",)),
        recognise=_is_vllm,
        read=lambda record: read_choices(
            record, list_at(record, "outputs"), record.get("prompt"), line_is_group=True
        ),
        example={"prompt": QUESTION, "outputs": [{"text": ANSWER}, {"text": OTHER_ANSWER}]},
    ),
    list_format(
        "many",
        replace(LINE_FIELDS, response=(*MANY_RESPONSES, *RESPONSES)),
        resolve=resolve_line,
        recognise=_is_many,
        read=_read_many,
        parallel=PARALLEL,
        example={"prompt": QUESTION, "responses": [ANSWER, OTHER_ANSWER]},
    ),
    list_format(
        "openai_chat",
        replace(LINE_FIELDS, response=("choices",)),
        resolve=_fields_of_choices,
        recognise=_is_openai_chat,
        read=_read_openai_chat,
        example={
            "messages": [ASKED],
            "choices": [{"message": ANSWERED}, {"message": ANSWERED_TOO}],
        },
    ),
)
