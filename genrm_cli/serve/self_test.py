"""Send a made-up cohort to a server as a trainer would, and check the replies: `genrm serve
--self-test`.
"""

import asyncio
import json
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from genrm_cli.errors import GenrmError, JudgeError, UsageError
from genrm_cli.judging.pacing.pool import OnEvent
from genrm_cli.scored.json_form import Json
from genrm_cli.serve.run import serve
from genrm_cli.settings import Settings, changed

OnCheck = Callable[[str], None]
Requests = list[tuple[str, Json]]
RewardsIn = Callable[[list[Any]], list[Any]]
"""Takes the replies to all requests, and returns the reward of each response."""

_REPLY_LIMIT_S = 900.0
_QUESTION = "What is 17 + 25? Show each step."
_RESPONSES = (
    "17 + 25 = 42: 10 + 20 = 30, 7 + 5 = 12, and 30 + 12 = 42.",
    "42",
    "Adding the tens and then the ones gives 17 + 25 = 32.",
    "I would rather talk about the weather.",
)
_COUNT = len(_RESPONSES)
_MESSAGES = [{"role": "user", "content": _QUESTION}]


async def probe_own_server(
    trainers: Sequence[str],
    settings: Settings,
    api_keys: Mapping[str, str],
    token: str | None,
    on_event: OnEvent,
    on_check: OnCheck,
) -> None:
    """Start a server with these settings on a free port, and test it; nothing is kept."""
    kept = dict.fromkeys(("record", "reference", "wandb", "mlflow", "tensorboard"))
    settings = changed(settings, listen="127.0.0.1:0", use_journal=False, drain=0.0, **kept)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve(settings, api_keys, token, on_event, ready.set_result))
    either: set[asyncio.Future[Any]] = {serving, ready}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    try:
        if ready.done():
            await probe_server(trainers, ready.result(), token, on_check)
    finally:
        if not serving.done():
            signal.raise_signal(signal.SIGTERM)  # the server ends as it always does
        await serving


async def probe_server(
    trainers: Sequence[str], url: str, token: str | None, on_check: OnCheck
) -> None:
    """Send a cohort to a server as each of these trainers would, one after another."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    timeout = httpx.Timeout(30.0, read=_REPLY_LIMIT_S)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=timeout, trust_env=False
    ) as client:
        if token is not None:
            refused = await _send(client, "/v1/groups", {}, Authorization="Bearer another")
            if refused.status_code != 401:
                raise GenrmError(f"expected a refusal of another token; got {refused.status_code}")
            on_check("a refusal of another token")
        for trainer in trainers:
            requests, rewards_in = TRAINERS[trainer](f"self-test-{uuid.uuid4().hex[:12]}")
            replies = await asyncio.gather(*(_ask(client, path, body) for path, body in requests))
            try:
                rewards = rewards_in(replies)
            except (LookupError, TypeError, AttributeError) as error:  # a reply of another form
                raise GenrmError(
                    f"expected a reply as {trainer} reads it; it lacks {error}"
                ) from error
            on_check(f"{trainer}: rewards of {_COUNT} responses: {_shown(rewards, replies)}")


async def _send(client: httpx.AsyncClient, path: str, body: Json, **headers: str) -> httpx.Response:
    try:
        return await client.post(path, content=json.dumps(body), headers=headers)
    except httpx.TransportError as error:
        where = f"POST {path} at {client.base_url}"
        raise UsageError(f"{where}: no answer ({type(error).__name__}). Does it run?") from error


async def _ask(client: httpx.AsyncClient, path: str, body: Json) -> Any:
    reply = await _send(client, path, body)
    said = f"POST {path}: {reply.status_code} {reply.text[:300]}"
    if reply.status_code in (401, 403):
        raise UsageError(f"{said}. Set GENRM_SERVE_TOKEN to the token of the server.")
    if reply.status_code in (429, 503):
        raise JudgeError(said)
    if not reply.is_success:
        raise GenrmError(said)
    try:
        return reply.json()
    except ValueError as error:
        raise GenrmError(f"{said}: not JSON") from error


def _shown(rewards: Sequence[Any], replies: Sequence[Any]) -> str:
    if None in rewards:
        raise JudgeError(
            f"rewards: {rewards.count(None)} of {len(rewards)} responses have none: {replies[0]}"[
                :600
            ]
        )
    numbers = [
        each for each in rewards if isinstance(each, int | float) and not isinstance(each, bool)
    ]
    if len(numbers) != _COUNT or len(rewards) != _COUNT:
        raise GenrmError(
            f"expected the rewards of {_COUNT} responses; got {json.dumps(rewards)[:300]}"
        )
    return ", ".join(f"{number:.2f}" for number in numbers)


def _trl(run_id: str) -> tuple[Requests, RewardsIn]:
    """The adapter for TRL sends whole groups, as those for slime, NeMo RL, prime-rl and SkyRL
    do.
    """
    group = {
        "id": run_id,
        "messages": _MESSAGES,
        "responses": [{"text": text} for text in _RESPONSES],
    }
    return [("/v1/groups", group)], lambda replies: list(replies[0]["rewards"])


def _verl(run_id: str) -> tuple[Requests, RewardsIn]:
    """The reward manager for verl sends each sample on its own."""
    path = f"/v1/cohorts/{run_id}/members"
    bodies = [{"size": _COUNT, "messages": _MESSAGES, "text": text} for text in _RESPONSES]
    requests = [(f"{path}/{number}", body) for number, body in enumerate(bodies)]
    return requests, lambda replies: [each["reward"] for each in replies]


def _openrlhf(run_id: str) -> tuple[Requests, RewardsIn]:
    """OpenRLHF sends one sample a request, its prompt in the query, and reads two lists."""
    path = f"/openrlhf?size={_COUNT}"
    label = json.dumps({"group_id": run_id})
    prompt = f"<|im_start|>user\n{_QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    bodies = [
        {"query": [f"{prompt}{text}<|im_end|>"], "prompts": [prompt], "labels": [label]}
        for text in _RESPONSES
    ]
    return [(path, body) for body in bodies], lambda replies: [
        each["rewards"][0]
        for each in replies
        if each["scores"] == each["rewards"] and len(each["rewards"]) == 1
    ]


def _slime(run_id: str) -> tuple[Requests, RewardsIn]:
    """slime's `remote_rm` sends one sample a request, and takes the whole reply as the reward."""
    label = json.dumps({"group_id": run_id})
    bodies = [{"prompt": _QUESTION, "response": text, "label": label} for text in _RESPONSES]
    return [(f"/slime?size={_COUNT}", body) for body in bodies], list


def _nemo_gym(run_id: str) -> tuple[Requests, RewardsIn]:
    """NeMo Gym verifies rows, and expects each back with a reward; a failed judge call is no
    reward.
    """
    rows = [_gym_row(run_id, number, text) for number, text in enumerate(_RESPONSES)]
    return [("/verify", row) for row in rows], lambda replies: [
        None if each.get("mask_sample") else each["reward"]
        for row, each in zip(rows, replies, strict=True)
        if row.items() <= each.items()
    ]


def _gym_row(run_id: str, number: int, text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {
        "id": f"msg-{number}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    calls = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    kind = {"id": f"resp-{number}", "created_at": 0, "model": "policy", "object": "response"}
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": f"{_QUESTION} ({run_id})"}]
        },
        "response": {**kind, "output": [message], **calls},
        "_ng_task_index": 0,
        "_ng_rollout_index": number,
        "cohort_size": _COUNT,
    }


TRAINERS: Mapping[str, Callable[[str], tuple[Requests, RewardsIn]]] = {
    "trl": _trl,
    "verl": _verl,
    "openrlhf": _openrlhf,
    "slime": _slime,
    "nemo-gym": _nemo_gym,
}
"""The requests and the reading of rewards of each trainer; takes a name new to the server."""
