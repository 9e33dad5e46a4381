"""Trajectories of agents: one episode per line, whose task is the system turn and the first turn of
the user, and whose response is everything after it.

    {"instance_id": "x__y-1", "messages": [...], "info": {"exit_status": "Submitted"}}

Each writer's steps become chat messages, so one reader serves all. The id of the task names the
group. Episodes of one task may begin differently, as simulated users do: what all of a group share
is shown as the conversation, the rest with each response.

Sources: SWE-agent/mini-swe-agent `docs/usage/output_files.md`, SWE-agent `sweagent/types.py`,
All-Hands-AI/OpenHands `evaluation/utils/shared.py`, sierra-research/tau2-bench
`src/tau2/data_model/simulation.py`, laude-institute/harbor `docs/rfcs/0001-trajectory-format.md`,
ShishirPatil/gorilla `bfcl_eval/model_handler/base_handler.py`."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import (
    ANSWERED,
    ASKED,
    Format,
    Score,
    annotate_line,
    annotate_list,
)
from genrm_cli.rollouts.reading.chat_messages import items_of_messages, turns_of_messages
from genrm_cli.rollouts.reading.known_names import Fields, is_messages
from genrm_cli.rollouts.reading.line_fields import messages_at
from genrm_cli.rollouts.reading.message_parts import (
    list_or_empty,
    media_of_messages,
    text_or_empty,
)
from genrm_cli.rollouts.reading.record_fields import failure_of, identifier, rollout_of
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

Messages = list[Any]

_IDS = ("instance_id", "task_id", "id", "task_name")
_CUT_OFF = ("limit", "max_", "exit_cost", "exit_context", "timeout", "too_many")
_ENDS = ("exit_status", "termination_reason", "submission")


def read_episode(record: Record, messages: Messages) -> Rollout:
    """Read an episode: the task ends with the first turn of the user."""
    turns = turns_of_messages(messages)
    users = [number for number, turn in enumerate(turns) if turn.role == "user"]
    start = users[0] + 1 if users else 0
    info = record.get("info")
    places = [place for place in (record, info) if isinstance(place, dict)]
    ended = " ".join(str(place.get(name) or "") for place in places for name in _ENDS[:2]).lower()
    names = (identifier(place.get(name)) for place in places for name in _IDS)
    name = next(filter(None, names), None)
    return rollout_of(
        record,
        turns[:start],
        items_of_messages(messages[start:]),
        task=None if name is None else f"task:{name}",
        is_session=True,
        opens_freely=True,
        is_truncated=any(word in ended for word in _CUT_OFF),
        excluded=failure_of(record.get("error")),
        prompt_media=media_of_messages(messages[:start]),
    )


def agent_format(
    name: str,
    field: str,
    recognise: Callable[[Record], bool],
    messages_of: Callable[[Record], Messages],
    example: Record,
) -> Format:
    """Return a format of episodes, from the field that holds their steps and a function that makes
    messages of them.
    """

    def read(record: Record) -> list[Rollout]:
        messages = messages_of(record)
        if not messages:
            raise UnreadableRecordError(f"no steps of an agent in {field}")
        return [read_episode(record, messages)]

    fields = Fields(prompt=(field,), response=(field,), metadata=tuple(example))
    return Format(
        name, recognise, read, annotate_line, fields=fields, owns_line=True, example=example
    )


def _message(role: str, content: object, **more: object) -> Record:
    return {"role": role, "content": content, **{key: each for key, each in more.items() if each}}


def _call(name: object, arguments: object) -> Record:
    return {"name": name, "arguments": arguments}


# Messages of mini-swe-agent, SWE-smith, tau-bench and tau2


def _is_swe(record: Record) -> bool:
    info = record.get("info")
    has_end = isinstance(info, dict) and not {"exit_status", "submission"}.isdisjoint(info)
    is_named = str(record.get("trajectory_format", "")).startswith("mini-swe-agent")
    is_smith = not {"instance_id", "traj_id"}.isdisjoint(record) and not {
        "resolved",
        "patch",
        "model_patch",
    }.isdisjoint(record)
    return (has_end or is_named or is_smith) and is_messages(messages_at(record, "messages"))


def _swe_messages(record: Record) -> Messages:
    return list_or_empty(messages_at(record, "messages"))


_SIMULATION = frozenset(("reward_info", "termination_reason", "agent_cost", "user_cost"))


def _is_simulation(record: object) -> bool:
    return (
        isinstance(record, dict)
        and "task_id" in record
        and (is_messages(record.get("traj")) or not _SIMULATION.isdisjoint(record))
        and is_messages(record.get("traj", record.get("messages")))
    )


def _tau_messages(record: Record) -> Messages:
    return list_or_empty(record.get("traj", record.get("messages")))


def _simulations(record: Record) -> list[Any]:
    found = list_or_empty(record.get("simulations"))
    if not found or not all(map(_is_simulation, found)):
        raise UnreadableRecordError("simulations is not a list of simulations with messages")
    return found


def _read_simulations(record: Record) -> list[Rollout]:
    return [read_episode(each, _tau_messages(each)) for each in _simulations(record)]


def _annotate_simulations(record: Record, scores: Sequence[Score]) -> None:
    annotate_list(record, scores)


# SWE-agent, and the trajectories of Nebius


def _is_swe_agent(record: Record) -> bool:
    steps = record.get("trajectory")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return False
    first = steps[0] if steps else {}
    is_nebius = "instance_id" in record and first.keys() >= {"role", "text"}
    return is_nebius or first.keys() >= {"observation", "response"}


def _swe_agent_messages(record: Record) -> Messages:
    steps: list[JsonObject] = list_or_empty(record.get("trajectory"))
    if not all(isinstance(step, dict) for step in steps) or not steps:
        raise UnreadableRecordError("trajectory is not a list of steps")
    if "role" in steps[0]:
        return [
            _message(step.get("role", ""), step.get("text") or step.get("content"))
            if step.get("text") or step.get("content") or step.get("tool_calls")
            else _message(step.get("role", ""), step.get("system_prompt"))
            for step in steps
        ]
    return [*_swe_agent_task(record, steps[0]), *_swe_agent_steps(steps)]


def _swe_agent_task(record: Record, first: JsonObject) -> Messages:
    """Return the messages before the first step: those of its query, or of the history."""
    asked = first.get("query")
    asked = asked if is_messages(asked) else list_or_empty(record.get("history"))
    task: Messages = []
    for each in asked:
        if not isinstance(each, dict) or each.get("role") not in ("system", "user"):
            if task and task[-1]["role"] == "user":
                break
            continue
        is_shown = each.get("message_type") != "demonstration" and not each.get("is_demo")
        task.extend([_message(each["role"], each.get("content"))] if is_shown else [])
    return task


def _swe_agent_steps(steps: Sequence[JsonObject]) -> Iterator[Record]:
    for step in steps:
        said = text_or_empty(step.get("response")) or text_or_empty(step.get("thought"))
        action = text_or_empty(step.get("action"))
        calls = step.get("tool_calls")
        if not calls and action and action.strip() not in said:
            calls = [_call("", action)]
        yield _message("assistant", said, tool_calls=calls)
        if observation := text_or_empty(step.get("observation")):
            yield _message("tool", observation)


# OpenHands


def _events(record: Record) -> Iterator[JsonObject]:
    for event in list_or_empty(record.get("history")):
        for each in event if isinstance(event, list) else [event]:  # pairs in early versions
            if isinstance(each, dict):
                yield each


def _is_openhands(record: Record) -> bool:
    names = {"action", "observation", "kind"}
    return any("source" in each and not names.isdisjoint(each) for each in _events(record))


def _openhands_messages(record: Record) -> Messages:
    messages = [each for event in _events(record) for each in _messages_of_event(event)]
    if messages and not any(each["role"] == "user" for each in messages):
        task = text_or_empty(record.get("instruction"))
        messages.insert(0, _message("user", task))
    return messages


def _messages_of_event(event: JsonObject) -> Iterator[Record]:
    if "kind" in event:
        yield from _messages_of_new_event(event)
        return
    role = "user" if event.get("source") == "user" else "assistant"
    held = event.get("args")
    args = held if isinstance(held, dict) else {}
    action = text_or_empty(event.get("action"))
    said = text_or_empty(args.get("content")) or text_or_empty(event.get("message"))
    thought = text_or_empty(args.get("thought"))
    if "observation" in event:
        if content := text_or_empty(event.get("content")):
            yield _message("tool", content, name=text_or_empty(event.get("observation")))
    elif action == "system":
        yield _message("system", said)
    elif action == "message":
        yield _message(role, said)
    elif action == "finish":
        yield _message("assistant", text_or_empty(args.get("final_thought")) or thought or said)
    elif action == "think":
        yield _message("thinking", thought)
    elif action and role == "assistant" and action not in ("recall", "change_agent_state"):
        left = {key: each for key, each in args.items() if key != "thought"}
        yield _message("assistant", thought, tool_calls=[_call(action, left)])


def _messages_of_new_event(event: JsonObject) -> Iterator[Record]:
    kind = text_or_empty(event.get("kind"))
    if kind == "SystemPromptEvent":
        yield _message("system", [event.get("system_prompt")])
    elif kind == "MessageEvent" and isinstance(held := event.get("llm_message"), dict):
        yield _message(text_or_empty(held.get("role")), held.get("content"))
    elif kind == "ActionEvent":
        call = event.get("tool_call") or _call(event.get("tool_name"), event.get("action"))
        thought = event.get("reasoning_content")
        yield _message(
            "assistant", event.get("thought"), tool_calls=[call], reasoning_content=thought
        )
    elif kind == "ObservationEvent" and isinstance(held := event.get("observation"), dict):
        content = held.get("content") or held.get("output")
        name = text_or_empty(event.get("tool_name"))
        if content is None:
            content = json.dumps(held, ensure_ascii=False)
        yield _message("tool", content, name=name)


# Harbor and terminal-bench (ATIF)


def _is_atif(record: Record) -> bool:
    return str(record.get("schema_version", "")).startswith("ATIF") and "steps" in record


def _atif_messages(record: Record) -> Messages:
    messages: Messages = []
    for step in list_or_empty(record.get("steps")):
        if not isinstance(step, dict):
            raise UnreadableRecordError("a step is not an object")
        role = text_or_empty(step.get("source"))
        calls = [
            _call(call.get("function_name"), call.get("arguments"))
            for call in list_or_empty(step.get("tool_calls"))
            if isinstance(call, dict)
        ]
        thought = step.get("reasoning_content")
        messages.append(
            _message(role, step.get("message"), tool_calls=calls, reasoning_content=thought)
        )
        seen = step.get("observation")
        results = list_or_empty(seen.get("results")) if isinstance(seen, dict) else []
        messages += [_message("tool", each.get("content")) for each in results if each]
    return messages


# Multi-turn results of BFCL with their log


def _is_bfcl(record: Record) -> bool:
    log = list_or_empty(record.get("inference_log"))
    return any(isinstance(each, dict) and "begin_of_turn_query" in each for each in log)


def _bfcl_messages(record: Record) -> Messages:
    messages: Messages = []
    for turn in list_or_empty(record.get("inference_log")):
        if not isinstance(turn, dict):
            continue  # the state of the simulated services
        messages += list_or_empty(turn.get("begin_of_turn_query"))
        for name, step in turn.items():
            if name.startswith("step_"):
                messages += map(_bfcl_message, filter(_is_bfcl_act, list_or_empty(step)))
    return messages


def _is_bfcl_act(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("role") in ("assistant", "tool")


def _bfcl_message(entry: JsonObject) -> Record:
    """Return a message; calls of the policy are a list of objects from name to JSON text."""
    content = entry.get("content")
    if isinstance(content, list) and all(isinstance(each, dict) for each in content):
        calls = [_call(name, given) for each in content for name, given in each.items()]
        return _message(entry["role"], None, tool_calls=calls)
    if not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False)
    return _message(entry["role"], content)


AGENT_FORMATS = (
    agent_format(
        "mini_swe_agent",
        "messages",
        _is_swe,
        _swe_messages,
        {"info": {"exit_status": "Submitted"}, "messages": [ASKED, ANSWERED]},
    ),
    agent_format(
        "tau_bench",
        "messages",
        _is_simulation,
        _tau_messages,
        {"task_id": "river", "reward_info": {}, "messages": [ASKED, ANSWERED]},
    ),
    Format(
        "tau_results",
        lambda record: all(isinstance(record.get(name), list) for name in ("tasks", "simulations")),
        _read_simulations,
        _annotate_simulations,
        lambda record, position: _simulations(record)[position],
        fields=Fields(prompt=("simulations",), response=("simulations",), metadata=("tasks",)),
        owns_line=True,
        example={
            "tasks": [],
            "simulations": [{"task_id": "river", "reward_info": {}, "messages": [ASKED, ANSWERED]}],
        },
    ),
    agent_format(
        "swe_agent",
        "trajectory",
        _is_swe_agent,
        _swe_agent_messages,
        {
            "instance_id": "river",
            "trajectory": [
                {"query": [ASKED], "response": ANSWERED["content"], "observation": "Done."}
            ],
        },
    ),
    agent_format(
        "openhands",
        "history",
        _is_openhands,
        _openhands_messages,
        {
            "instance_id": "river",
            "history": [
                {"source": "user", "action": "message", "args": {"content": ASKED["content"]}},
                {"source": "agent", "action": "message", "args": {"content": ANSWERED["content"]}},
            ],
        },
    ),
    agent_format(
        "atif",
        "steps",
        _is_atif,
        _atif_messages,
        {
            "schema_version": "ATIF-v1.4",
            "steps": [
                {"source": "user", "message": ASKED["content"]},
                {"source": "agent", "message": ANSWERED["content"]},
            ],
        },
    ),
    agent_format(
        "bfcl",
        "inference_log",
        _is_bfcl,
        _bfcl_messages,
        {
            "id": "river",
            "inference_log": [
                {
                    "begin_of_turn_query": [ASKED],
                    "step_0": [{"role": "assistant", "content": ANSWERED["content"]}],
                }
            ],
        },
    ),
)
