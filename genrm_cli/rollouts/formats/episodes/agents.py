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
from collections.abc import Iterable, Iterator
from typing import Any

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import Format
from genrm_cli.rollouts.formats.shapes import read_conversation
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.record_fields import failure_of, identifier
from genrm_cli.rollouts.reading.values import (
    first_text,
    is_messages,
    is_objects,
    list_or_empty,
    messages_in,
    object_or_empty,
    objects_in,
    text_or_empty,
    words,
)
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

# The names of a task, the most particular first: `id` may be that of the run.
_IDS = ("instance_id", "task_id", "id", "task_name")
# Signs in the reason for an end that a limit of turns, time, tokens or cost was reached.
_CUT_OFF = words("limit max_ exit_cost exit_context timeout too_many")
_ENDS = ("exit_status", "termination_reason")
# One of these tells a simulation of tau-bench from other messages with a task.
_OF_SIMULATIONS = frozenset(("reward_info", "termination_reason", "agent_cost", "user_cost"))
# What the policy or another says in a step.
_SAID = words("message response thought text content system_prompt")
# What SWE-smith and SWE-bench keep beside the messages of a task.
_SOLUTIONS = frozenset(("resolved", "patch", "model_patch"))
# An event of OpenHands has a source and is one of these.
_OPENHANDS = frozenset(("action", "observation"))
# Each record of an agent has one of these: most others are known not to be by their names alone.
_SIGNS = frozenset(
    words(
        "trajectory steps info trajectory_format instance_id traj_id task_id history inference_log"
    )
)
_IDLE_EVENTS = ("", "recall", "change_agent_state")  # events of OpenHands


def _read(record: Record) -> list[Rollout]:
    episodes = _simulations(record) or [record]
    return [_read_episode(each, list(_messages_of(each))) for each in episodes]


def _read_episode(record: Record, messages: list[Any]) -> Rollout:
    if not messages:
        raise UnreadableRecordError("no steps of an agent, expected messages or a trajectory")
    places = (record, object_or_empty(record.get("info")))
    ended = " ".join(str(place.get(name)) for place in places for name in _ENDS).lower()
    names = (identifier(place.get(name)) for place in places for name in _IDS)
    name = next(filter(None, names), None)
    return read_conversation(
        record,
        messages,
        "task",
        task=None if name is None else f"task:{name}",
        is_session=True,
        opens_freely=True,
        is_truncated=any(word in ended for word in _CUT_OFF),
        excluded=failure_of(record.get("error")),
    )


def _messages_of(record: Record) -> Iterable[Any]:
    """Return the messages of a record's steps; none if no agent wrote it."""
    if _SIGNS.isdisjoint(record):
        return ()
    first = next(iter(list_or_empty(record.get("trajectory"))), None)
    names = object_or_empty(first).keys()
    is_nebius = "instance_id" in record and names >= {"role", "text"}
    is_atif = "steps" in record and str(record.get("schema_version")).startswith("ATIF")
    if _is_swe(record) or _is_simulation(record):
        return _own_messages(record)
    if is_nebius or is_atif or names >= {"observation", "response"}:
        return _step_messages(record)
    if any("source" in each and not _OPENHANDS.isdisjoint(each) for each in _events(record)):
        return _openhands_messages(record)
    log = objects_in(record.get("inference_log"))
    return _bfcl_messages(log) if any("begin_of_turn_query" in each for each in log) else ()


def _message(role: str, content: object, **more: object) -> Record:
    return {"role": role, "content": content, **{key: each for key, each in more.items() if each}}


def _call(name: object, arguments: object) -> Record:
    return {"name": name, "arguments": arguments}


# mini-swe-agent, SWE-smith, tau-bench and tau2


def _is_swe(record: Record) -> bool:
    has_end = not {"exit_status", "submission"}.isdisjoint(object_or_empty(record.get("info")))
    is_named = str(record.get("trajectory_format")).startswith("mini-swe-agent")
    is_task = not {"instance_id", "traj_id"}.isdisjoint(record)
    is_smith = is_task and not _SOLUTIONS.isdisjoint(record)
    return (has_end or is_named or is_smith) and is_messages(messages_in(record.get("messages")))


def _is_simulation(record: Record) -> bool:
    is_one = is_messages(record.get("traj")) or not _OF_SIMULATIONS.isdisjoint(record)
    return "task_id" in record and is_one and bool(list(_own_messages(record)))


def _own_messages(record: Record) -> Iterable[Any]:
    messages = messages_in(record.get("traj", record.get("messages")))
    return messages if is_messages(messages) else ()


def _simulations(record: Record) -> list[Record]:
    """Return the simulations of a file of results of tau2; empty for any other record."""
    found = record.get("simulations")
    if not isinstance(record.get("tasks"), list) or not is_objects(found):
        return []
    return found if all(map(_is_simulation, found)) else []


# Steps: SWE-agent, the trajectories of Nebius, Harbor and terminal-bench (ATIF)


def _step_messages(record: Record) -> Iterator[Record]:
    steps = record.get("trajectory", record.get("steps"))
    if not is_objects(steps):
        raise UnreadableRecordError("a step is not an object")
    if {"role", "source"}.isdisjoint(steps[0]):
        yield from _swe_agent_task(record, steps[0])
    for step in steps:
        said = next((step[name] for name in _SAID if step.get(name)), "")
        action = text_or_empty(step.get("action"))
        calls = step.get("tool_calls")
        if not calls and action.strip() and action.strip() not in str(said):
            calls = [_call("", action)]
        role = first_text(step, ("role", "source")) or "assistant"
        thought = step.get("reasoning_content")
        yield _message(role, said, tool_calls=calls, reasoning_content=thought)
        seen = step.get("observation")
        results = list_or_empty(seen.get("results")) if isinstance(seen, dict) else [seen]
        for each in results:
            if content := each.get("content") if isinstance(each, dict) else each:
                yield _message("tool", content)


def _swe_agent_task(record: Record, first: JsonObject) -> Iterator[Record]:
    """Yield the messages before the first step: those of its query, or of the history, up to the
    first turn of the user without demonstrations.
    """
    query = first.get("query")
    asked = query if is_messages(query) else objects_in(record.get("history"))
    for each in asked:
        is_task = each.get("role") in ("system", "user")
        if not is_task or each.get("message_type") == "demonstration" or each.get("is_demo"):
            continue
        yield _message(each["role"], each.get("content"))
        if each["role"] == "user":
            return


# OpenHands


def _events(record: Record) -> Iterator[JsonObject]:
    for event in list_or_empty(record.get("history")):
        yield from objects_in(event if isinstance(event, list) else [event])


def _openhands_messages(record: Record) -> list[Record]:
    messages = [each for event in _events(record) for each in _messages_of_event(event)]
    if messages and not any(each["role"] == "user" for each in messages):
        messages.insert(0, _message("user", text_or_empty(record.get("instruction"))))
    return messages


def _messages_of_event(event: JsonObject) -> Iterator[Record]:
    role = "user" if event.get("source") == "user" else "assistant"
    args = object_or_empty(event.get("args"))
    action = text_or_empty(event.get("action"))
    said = first_text(args, ("content",)) or first_text(event, ("message",))
    thought = text_or_empty(args.get("thought"))
    if "observation" in event:
        if content := text_or_empty(event.get("content")):
            yield _message("tool", content, name=text_or_empty(event.get("observation")))
    elif action in ("system", "message"):
        yield _message("system" if action == "system" else role, said)
    elif action == "finish":
        yield _message("assistant", first_text(args, ("final_thought", "thought")) or said)
    elif action == "think":
        yield _message("thinking", thought)
    elif role == "assistant" and action not in _IDLE_EVENTS:
        left = {key: each for key, each in args.items() if key != "thought"}
        yield _message("assistant", thought, tool_calls=[_call(action, left)])


# Multi-turn results of BFCL with their log


def _bfcl_messages(log: Iterable[JsonObject]) -> Iterator[Record]:
    """Yield the messages of a log without the state of the simulated services."""
    for turn in log:
        yield from list_or_empty(turn.get("begin_of_turn_query"))
        for name, step in turn.items():
            for entry in objects_in(step) if name.startswith("step_") else ():
                if entry.get("role") in ("assistant", "tool"):
                    yield _bfcl_message(entry)


def _bfcl_message(entry: JsonObject) -> Record:
    """Return a message; calls of the policy are a list of objects from name to JSON text."""
    content = entry.get("content")
    if is_objects(content):
        pairs = (pair for each in content for pair in each.items())
        return _message(entry["role"], None, tool_calls=[_call(*pair) for pair in pairs])
    if not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False)
    return _message(entry["role"], content)


_STEPS = words("messages traj simulations trajectory history steps inference_log")
FORMAT = Format(
    "agent",
    lambda record: bool(_simulations(record)) or _messages_of(record) != (),
    _read,
    rows=_simulations,
    fields=Fields(prompt=_STEPS, response=_STEPS),
    owns_line=True,
)
