"""verifiers v1 and prime-rl `traces.jsonl`: one episode per line, one rollout for each trainable
trace in it.

A trace is a graph of messages: `nodes` of `parent`, `message`, `sampled`. Only the branch that ends
in the last node is read. Source: PrimeIntellect-ai/verifiers `verifiers/v1/episode.py`, `trace.py`,
`graph.py`, `cli/output.py`."""

from genrm_cli.json_types import JsonObject, Record, field_at
from genrm_cli.rollouts.formats.format import Format
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.messages import (
    media_of_messages,
    read_messages,
    turns_of_messages,
)
from genrm_cli.rollouts.reading.record_fields import (
    failure_of,
    identifier,
    is_truncated,
    rollout_of,
)
from genrm_cli.rollouts.reading.values import is_objects, objects_in
from genrm_cli.rollouts.rollout import Item, Rollout, Turn, UnreadableRecordError, has_client


def _read(record: Record) -> list[Rollout]:
    traces = _trainable(record)
    if not traces:  # it failed before any trace began
        why = _excluded(record, {}) or "failed (no trace)"
        return [rollout_of(record, (), None, task=_task_of(record), excluded=why)]
    return [_read_trace(record, trace) for trace in traces]


def _trainable(record: Record) -> list[JsonObject]:
    """Return the traces that train the policy; traces of simulated users and judges do not."""
    traces = record.get("traces")
    if not is_objects(traces):
        raise UnreadableRecordError("traces is not a list of objects, expected one")
    return [trace for trace in traces if field_at(trace, "agent.trainable") is not False]


def _read_trace(record: Record, trace: JsonObject) -> Rollout:
    branch = _last_branch(trace.get("nodes"))
    sampled = [node.get("sampled") is True for node in branch]
    first = sampled.index(True) if True in sampled else len(branch)
    messages = read_messages([node.get("message") for node in branch])
    # An assistant message that the policy did not sample is context.
    items: list[Item] = []
    for message, is_sampled in zip(messages[first:], sampled[first:], strict=True):
        is_context = message.role == "assistant" and not is_sampled
        items += [Turn("context", message.turn.text)] if is_context else message.iter_items()
    ends = [{"stop_reason": trace.get("stop_condition")}, *objects_in(trace.get("calls"))[-1:]]
    return rollout_of(
        record,
        turns_of_messages(messages[:first]),
        tuple(items) if first < len(branch) else None,
        task=_task_of(record),
        prompt_media=media_of_messages(messages[:first]),
        is_truncated=any(map(is_truncated, ends)),
        excluded=_excluded(record, trace),
        is_session=has_client(items),
    )


def _last_branch(nodes: object) -> list[JsonObject]:
    if not is_objects(nodes):
        raise UnreadableRecordError("nodes is missing, expected a list of objects")
    branch: list[JsonObject] = []
    at: object = len(nodes) - 1
    while type(at) is int and 0 <= at < len(nodes) and len(branch) < len(nodes):
        branch.append(nodes[at])
        at = nodes[at].get("parent")
    return branch[::-1]


def _task_of(record: Record) -> str | None:
    """Return the group set by the consumer, or else the key or content hash of the task."""
    for field, name in (("group", "id"), ("task", "key"), ("task", "hash")):
        if found := identifier(field_at(record, f"{field}.{name}")):
            return f"{field}:{found}"
    return None


def _excluded(record: Record, trace: JsonObject) -> str | None:
    failed: list[JsonObject] = [each for each in (trace, record) if each.get("ok") is False]
    return (failure_of(failed[0].get("errors")) or "failed (ok is false)") if failed else None


FORMAT = Format(
    "verifiers_traces",
    lambda record: isinstance(record.get("traces"), list) and isinstance(record.get("task"), dict),
    _read,
    rows=_trainable,
    fields=Fields(prompt=("traces",), response=("traces",)),
    owns_line=True,
)
