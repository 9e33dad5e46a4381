"""verifiers v1 and prime-rl `traces.jsonl`: one episode per line, one rollout for each trainable
trace in it.

A trace is a graph of messages: `nodes` of `parent`, `message`, `sampled`. Only the branch that ends
in the last node is read. Source: PrimeIntellect-ai/verifiers `verifiers/v1/episode.py`, `trace.py`,
`graph.py`, `cli/output.py`."""

from collections.abc import Mapping, Sequence

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import (
    ANSWERED,
    ANSWERED_TOO,
    ASKED,
    Format,
    Score,
    detail_of,
    paired_scores,
    set_detail,
)
from genrm_cli.rollouts.reading.chat_messages import (
    iter_items_of_message,
    tool_names,
    turns_of_messages,
)
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.message_parts import media_of_messages
from genrm_cli.rollouts.reading.record_fields import (
    failure_of,
    identifier,
    is_truncated,
    rollout_of,
)
from genrm_cli.rollouts.rollout import Item, Rollout, Turn, UnreadableRecordError, has_client


def _recognise(record: Record) -> bool:
    return isinstance(record.get("traces"), list) and isinstance(record.get("task"), dict)


def _read(record: Record) -> list[Rollout]:
    positions = _trainable(record)
    if not positions:  # it failed before any trace began
        why = _excluded(record, {}) or "failed (no trace)"
        return [rollout_of(record, (), None, task=_task_of(record), excluded=why)]
    return [_read_trace(record, record["traces"][position]) for position in positions]


def _trainable(record: Record) -> list[int]:
    """Return the positions of the traces that train the policy; traces of simulated users and
    judges do not.
    """
    traces = record.get("traces")
    if not isinstance(traces, list):
        raise UnreadableRecordError("traces is missing, expected a list")
    for trace in traces:
        if not isinstance(trace, dict):
            raise UnreadableRecordError("a trace is not an object")
    agents = [trace.get("agent") for trace in traces]
    return [
        at
        for at, each in enumerate(agents)
        if not isinstance(each, dict) or each.get("trainable") is not False
    ]


def _read_trace(record: Record, trace: JsonObject) -> Rollout:
    branch = _last_branch(trace.get("nodes"))
    first = next(
        (number for number, node in enumerate(branch) if node.get("sampled") is True), len(branch)
    )
    opening = [node.get("message") for node in branch[:first]]
    tools = tool_names([node.get("message") for node in branch])
    items = tuple(item for node in branch[first:] for item in _items_of_node(node, tools))
    calls = trace.get("calls")
    last_call = (
        calls[-1] if isinstance(calls, list) and calls and isinstance(calls[-1], dict) else {}
    )
    return rollout_of(
        record,
        turns_of_messages(opening),
        items if first < len(branch) else None,
        task=_task_of(record),
        prompt_media=media_of_messages(opening),
        is_truncated=is_truncated(last_call)
        or is_truncated({"stop_reason": trace.get("stop_condition")}),
        excluded=_excluded(record, trace),
        is_session=has_client(items),
    )


def _last_branch(nodes: object) -> list[JsonObject]:
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise UnreadableRecordError("nodes is missing, expected a list of objects")
    branch: list[JsonObject] = []
    at: object = len(nodes) - 1
    while (
        isinstance(at, int)
        and not isinstance(at, bool)
        and 0 <= at < len(nodes)
        and len(branch) < len(nodes)
    ):
        branch.append(nodes[at])
        at = nodes[at].get("parent")
    return branch[::-1]


def _items_of_node(node: JsonObject, tools: Mapping[str, str]) -> list[Item]:
    """Return a node's items; an assistant message that the policy did not sample is context."""
    message = node.get("message")
    if (
        node.get("sampled") is True
        or not isinstance(message, dict)
        or message.get("role") != "assistant"
    ):
        return list(iter_items_of_message(message, tools))
    return [Turn("context", turn.text) for turn in turns_of_messages([message])]


def _task_of(record: Record) -> str | None:
    """Return the group set by the consumer, or else the key or content hash of the task."""
    for field, names in (("group", ("id",)), ("task", ("key", "hash"))):
        value = record.get(field)
        said = value if isinstance(value, dict) else {}
        if found := next((found for name in names if (found := identifier(said.get(name)))), None):
            return f"{field}:{found}"
    return None


def _excluded(record: Record, trace: JsonObject) -> str | None:
    failed: list[JsonObject] = [each for each in (trace, record) if each.get("ok") is False]
    return (failure_of(failed[0].get("errors")) or "failed (ok is false)") if failed else None


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    """Set the rewards of each trace, whose weighted sum is its reward; null means that scoring did
    not run.
    """
    detail: Record = {"rollouts": [score.detail for score in scores]}
    positions = _trainable(record)
    traces = list(record["traces"])
    detail["previous_rewards"] = [traces[position].get("rewards") for position in positions]
    for position, score in zip(positions, scores, strict=False):
        given = None if score.reward is None else {"score": score.reward, "weight": 1.0}
        traces[position] = {**traces[position], "rewards": {"genrm": given}}
    record["traces"] = traces
    set_detail(record, detail)


def _scores(record: Record) -> list[Score]:
    rewards: list[object] = []
    for position in _trainable(record):
        given = record["traces"][position].get("rewards")
        ours = given.get("genrm") if isinstance(given, dict) else None
        rewards.append(ours.get("score") if isinstance(ours, dict) else None)
    # An episode that failed before any trace began has one score, but no field for its reward.
    return paired_scores(rewards or [None], detail_of(record))


def _own_record(record: Record, position: int) -> Record:
    """Return the episode with one trace as `trace`, besides the fields of the task."""
    positions = _trainable(record)
    others = {name: value for name, value in record.items() if name != "traces"}
    return others | (
        {"trace": record["traces"][positions[position]]} if position < len(positions) else {}
    )


FORMAT = Format(
    "verifiers_traces",
    _recognise,
    _read,
    _annotate,
    _own_record,
    _scores,
    fields=Fields(
        prompt=("traces",), response=("traces",), metadata=("task", "group", "ok", "errors")
    ),
    owns_line=True,
    example={
        "task": {"key": "river"},
        "traces": [
            {"nodes": [{"message": ASKED}, {"parent": 0, "sampled": True, "message": message}]}
            for message in (ANSWERED, ANSWERED_TOO)
        ],
    },
)
