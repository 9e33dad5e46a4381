"""Lines whose responses are objects of their writer: rLLM, UltraFeedback, arena-hard, ART."""

from collections.abc import Sequence
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
    annotate_line,
    annotate_list,
    own_of_lists,
)
from genrm_cli.rollouts.formats.shapes import (
    read_chat,
    read_completion,
    read_trajectory,
    split_messages,
)
from genrm_cli.rollouts.reading.chat_messages import turns_of_messages
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.record_fields import excluded_of, identifier, list_at
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

_CUT_OFF = ("max_", "timeout", "truncat")  # prefixes of termination reasons that are limits


def _is_rllm(record: Record) -> bool:
    return isinstance(record.get("trajectories"), list) and (
        "task_hash" in record or "termination_reason" in record
    )


def _read_rllm(record: Record) -> list[Rollout]:
    reason = str(record.get("termination_reason") or "").lower()
    name = identifier(record.get("task_hash"))
    known = {
        "task": None if name is None else f"task:{name}",
        "is_truncated": reason.startswith(_CUT_OFF),
        "excluded": excluded_of(record) or ("failed (error)" if reason == "error" else None),
    }
    return [
        read_trajectory(record, _messages_of_steps(each), **known)
        for each in list_at(record, "trajectories")
    ]


def _messages_of_steps(trajectory: object) -> list[Any]:
    """Return the messages of the last step that has any: those of each step begin with those of
    earlier steps.
    """
    steps = trajectory.get("steps") if isinstance(trajectory, dict) else None
    if not isinstance(steps, list):
        raise UnreadableRecordError("a trajectory has no steps, expected a list")
    logs = [step.get("chat_completions") for step in steps if isinstance(step, dict)]
    return next((log for log in reversed(logs) if isinstance(log, list) and log), [])


def annotate_trajectories(record: Record, scores: Sequence[Score]) -> None:
    """Set each trajectory's reward, and `rewards` of the episode."""
    trajectories = [dict(trajectory) for trajectory in record["trajectories"]]
    before = [trajectory.get("reward") for trajectory in trajectories]
    for trajectory, score in zip(trajectories, scores, strict=True):
        trajectory["reward"] = score.reward
    record["trajectories"] = trajectories
    annotate_list(record, scores)
    record["genrm"]["previous_trajectory_rewards"] = before


_RLLM = Format(
    "rllm",
    _is_rllm,
    _read_rllm,
    annotate_trajectories,
    own_of_lists(("rewards",), ("trajectories",)),
    fields=Fields(
        prompt=("trajectories",),
        response=("trajectories",),
        metadata=("task_hash", "termination_reason", "rewards"),
    ),
    owns_line=True,
    example={
        "task_hash": "river",
        "trajectories": [
            {"steps": [{"chat_completions": [ASKED, message]}]}
            for message in (ANSWERED, ANSWERED_TOO)
        ],
    },
)


def _is_ultrafeedback(record: Record) -> bool:
    completions = record.get("completions")
    return "instruction" in record and _all_have(completions, "response")


def _all_have(values: object, name: str) -> bool:
    """Whether a value is a list of objects that all have this field, and not empty."""
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(each, dict) and name in each for each in values)
    )


def _read_ultrafeedback(record: Record) -> list[Rollout]:
    """Read the completions. Each has a system prompt of its own, so that some may answer other
    prompts.
    """
    if not _is_ultrafeedback(record):
        raise UnreadableRecordError(
            "no completions with a response each, expected those of UltraFeedback"
        )
    return [
        # The principle told the policy how to answer; it is part of the system prompt, not the
        # judge's criterion.
        read_completion(
            record,
            _asked(record["instruction"], each.get("custom_system_prompt")),
            each["response"],
            principle=None,
        )
        for each in record["completions"]
    ]


def _asked(instruction: object, system: object) -> object:
    if not isinstance(system, str) or not system.strip():
        return instruction
    return [{"role": "system", "content": system}, {"role": "user", "content": instruction}]


def _is_arena_hard(record: Record) -> bool:
    messages = record.get("messages")
    contents = (
        message.get("content")
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict)
    )
    return "uid" in record and any(
        isinstance(content, dict) and "answer" in content for content in contents
    )


def _read_arena_hard(record: Record) -> list[Rollout]:
    messages = [_message_of(message) for message in list_at(record, "messages")]
    name = identifier(record.get("uid"))
    return [read_chat(record, messages, **({} if name is None else {"task": f"uid:{name}"}))]


def _message_of(message: object) -> object:
    """Return a message whose content is no longer an object of the answer and the thought before
    it.
    """
    if not isinstance(message, dict) or not isinstance(message.get("content"), dict):
        return message
    content = message["content"]
    return {
        **message,
        "content": content.get("answer"),
        "reasoning_content": content.get("thought"),
    }


def _is_art(record: Record) -> bool:
    if _all_have(record.get("trajectories"), "messages_and_choices"):
        return True
    steps = record.get("messages_and_choices")
    return isinstance(steps, list) and any(
        isinstance(step, dict) and "message" in step for step in steps
    )


def _read_art(record: Record) -> list[Rollout]:
    trajectories = list_at(record, "trajectories") if "trajectories" in record else [record]
    return [_read_trajectory(record, each) for each in trajectories]


def _read_trajectory(record: Record, trajectory: object) -> Rollout:
    """Read a trajectory: the policy's part begins with its first choice; assistant messages before
    it are context.
    """
    steps = trajectory.get("messages_and_choices") if isinstance(trajectory, dict) else None
    if not isinstance(steps, list):
        raise UnreadableRecordError("a trajectory has no messages_and_choices, expected a list")
    first = next(
        (at for at, step in enumerate(steps) if isinstance(step, dict) and "message" in step),
        len(steps),
    )
    messages = [
        step["message"] if isinstance(step, dict) and "message" in step else step for step in steps
    ]
    reason = steps[-1].get("finish_reason") if steps and isinstance(steps[-1], dict) else None
    return split_messages(
        record, messages, turns_of_messages(messages[:first]), is_truncated=reason == "length"
    )


def _annotate_art(record: Record, scores: Sequence[Score]) -> None:
    (annotate_trajectories if "trajectories" in record else annotate_line)(record, scores)


NESTED_FORMATS = (
    _RLLM,
    # Source: the card of openbmb/UltraFeedback.
    Format(
        "ultrafeedback",
        _is_ultrafeedback,
        _read_ultrafeedback,
        annotate_list,
        own_of_lists(("models", "rewards"), ("completions",)),
        fields=Fields(
            prompt=("instruction",), response=("completions",), metadata=("models", "source")
        ),
        owns_line=True,
        example={
            "instruction": QUESTION,
            "completions": [{"response": ANSWER}, {"response": OTHER_ANSWER}],
        },
    ),
    # Source: lmarena/arena-hard-auto `gen_answer.py`.
    Format(
        "arena_hard",
        _is_arena_hard,
        _read_arena_hard,
        fields=Fields(
            prompt=("messages",),
            response=("messages",),
            metadata=("uid", "ans_id", "model", "metadata"),
        ),
        example={
            "uid": "river",
            "messages": [ASKED, {"role": "assistant", "content": {"answer": ANSWER}}],
        },
    ),
    # Source: OpenPipe/ART `src/art/utils/trajectory_logging.py`.
    Format(
        "art",
        _is_art,
        _read_art,
        _annotate_art,
        own_of_lists(("rewards",), ("trajectories",)),
        fields=Fields(
            prompt=("trajectories", "messages_and_choices"),
            response=("trajectories", "messages_and_choices"),
            metadata=("reward", "rewards", "metrics", "metadata", "logs"),
        ),
        owns_line=True,
        example={
            "trajectories": [
                {
                    "messages_and_choices": [
                        ASKED,
                        {"finish_reason": "stop", "index": 0, "message": message},
                    ]
                }
                for message in (ANSWERED, ANSWERED_TOO)
            ]
        },
    ),
)
