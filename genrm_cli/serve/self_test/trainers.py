"""What each trainer sends, and what it needs from the reply; a trainer is added with its function and its line."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from genrm_cli.serve.self_test.probe import Json, Probe

PROMPT = "What is 17 + 25? Show each step."
RESPONSES = (
    "17 + 25 = 42: 10 + 20 = 30, 7 + 5 = 12, and 30 + 12 = 42.",
    "42",
    "Adding the tens and then the ones gives 17 + 25 = 32.",
    "I would rather talk about the weather.",
)
COUNT = len(RESPONSES)
_QUESTION = [{"role": "user", "content": PROMPT}]


async def _trl(probe: Probe) -> None:
    """The adapter for TRL sends whole groups, as those for slime, NeMo RL, prime-rl and SkyRL do."""
    group = {
        "id": f"{probe.run_id}-group",
        "messages": _QUESTION,
        "responses": [{"text": text} for text in RESPONSES],
    }
    reply = await probe.post("/v1/groups", group)
    probe.check_numbers(
        "rewards", reply.get("rewards"), COUNT, [each.get("reason") for each in reply.get("responses", [])]
    )
    probe.check_numbers("advantages", reply.get("advantages"), COUNT)
    again = await probe.post("/v1/groups", group)
    probe.check("the same rewards for a repeated request", again["rewards"] == reply["rewards"], again["rewards"])


async def _verl(probe: Probe) -> None:
    """The reward manager for verl sends each sample on its own, and those that pad a batch twice."""
    path = f"/v1/cohorts/{probe.run_id}-cohort/members"
    bodies: list[Json] = [{"size": COUNT, "messages": _QUESTION, "text": text} for text in RESPONSES]
    requests = [(f"{path}/{number}", body) for number, body in enumerate(bodies)]
    replies = await probe.post_all([*requests, requests[0]])
    probe.check_numbers(
        "rewards", [each["reward"] for each in replies[:COUNT]], COUNT, [each.get("reason") for each in replies]
    )
    probe.check("every member judged with all others", all(len(each["members"]) == COUNT for each in replies), replies)
    probe.check("the same reward for a copy of a sample", replies[COUNT] == replies[0], replies[COUNT]["reward"])


async def _openrlhf(probe: Probe) -> None:
    """OpenRLHF sends one sample a request, its prompt in the query, and empty lists to some servers."""
    path = f"/openrlhf?size={COUNT}"
    label = f'{{"group_id": "{probe.run_id}-openrlhf"}}'
    prompt = f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    requests: list[tuple[str, Json]] = [
        (path, {"query": [prompt + text + "<|im_end|>"], "prompts": [prompt], "labels": [label]}) for text in RESPONSES
    ]
    replies = await probe.post_all(requests)
    probe.check_numbers("rewards", [_only(each["rewards"]) for each in replies], COUNT)
    probe.check_numbers("scores", [_only(each["scores"]) for each in replies], COUNT)
    logs = [each["extra_logs"] for each in replies]
    lists = all(isinstance(values, list) for each in logs for values in each.values())
    probe.check("extra_logs with a list for each name", lists, logs)
    empty = await probe.post(path, {"query": [], "prompts": [], "labels": []})
    probe.check("empty lists for empty lists", empty["rewards"] == [], empty)


async def _slime(probe: Probe) -> None:
    """slime's `remote_rm` sends one sample a request, and takes the whole reply as the reward."""
    label = f'{{"group_id": "{probe.run_id}-slime"}}'
    bodies: list[Json] = [{"prompt": PROMPT, "response": text, "label": label} for text in RESPONSES]
    replies = await probe.post_all([(f"/slime?size={COUNT}", body) for body in bodies])
    probe.check_numbers("rewards", replies, COUNT)


async def _nemo_gym(probe: Probe) -> None:
    """NeMo Gym asks whether the server lives, seeds a session, verifies rows, and aggregates what came back."""
    alive = await probe.get("/")
    probe.check('{"status": "ok"} from GET /', alive == {"status": "ok"}, alive)
    seeded = await probe.post("/seed_session", {})
    probe.check("an object from POST /seed_session", isinstance(seeded, dict), seeded)
    rows = [_gym_row(probe.run_id, number, text) for number, text in enumerate(RESPONSES)]
    replies = await probe.post_all([("/verify", row) for row in rows])
    failures = [each.get("_ng_failure_judge_error") for each in replies]
    rewards = [None if failure else each.get("reward") for each, failure in zip(replies, failures, strict=True)]
    probe.check_numbers("rewards", rewards, COUNT, failures)
    kept = all(row.items() <= reply.items() for row, reply in zip(rows, replies, strict=True))
    probe.check("each row back with all its fields", kept, replies)
    metrics = await probe.post("/aggregate_metrics", {"verify_responses": replies})
    names = {"group_level_metrics", "agent_metrics", "key_metrics"}
    probe.check("group, agent and key metrics", isinstance(metrics, dict) and names <= set(metrics), metrics)


def _gym_row(run_id: str, number: int, text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"id": f"msg-{number}", "type": "message", "role": "assistant", "status": "completed", "content": content}
    response = {
        "id": f"resp-{number}",
        "created_at": 0,
        "model": "policy",
        "object": "response",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"{PROMPT} ({run_id})"}]},
        "response": response,
        "_ng_task_index": 0,
        "_ng_rollout_index": number,
        "cohort_size": COUNT,
    }


def _only(values: Any) -> Any:
    return values[0] if isinstance(values, list) and len(values) == 1 else values


TRAINERS: Mapping[str, Callable[[Probe], Awaitable[None]]] = {
    "trl": _trl,
    "verl": _verl,
    "openrlhf": _openrlhf,
    "slime": _slime,
    "nemo-gym": _nemo_gym,
}
