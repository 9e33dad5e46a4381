"""Send a made-up cohort to a server as a trainer would, and check the replies: `genrm serve --self-test`."""

import asyncio
import json
import signal
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from genrm_cli.errors import GenrmError, JudgeError, UsageError
from genrm_cli.judging.open_judges import OnEvent
from genrm_cli.scored.json_form import Json
from genrm_cli.serve.run import serve
from genrm_cli.settings import Settings, changed

OnCheck = Callable[[str], None]

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
    trainer: str,
    settings: Settings,
    api_keys: Mapping[str, str],
    token: str | None,
    on_event: OnEvent,
    on_check: OnCheck,
) -> None:
    """Start a server with these settings on a free port, and test it; nothing is kept.

    Raises:
        GenrmError: as for `probe_server` and `serve`.
    """
    settings = changed(
        settings, listen="127.0.0.1:0", tls_cert=None, tls_key=None, record=None, use_journal=False, drain=0.0
    )
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve(settings, api_keys, token, on_event, ready.set_result))
    either: set[asyncio.Future[Any]] = {serving, ready}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    try:
        if ready.done():
            await probe_server(trainer, ready.result(), token, on_check)
    finally:
        if not serving.done():
            signal.raise_signal(signal.SIGTERM)  # the server ends as it always does
        await serving


async def probe_server(trainer: str, url: str, token: str | None, on_check: OnCheck) -> None:
    """Send a cohort to a server as a trainer would.

    Args:
        trainer: one of `TRAINERS`.
        url: of the server.
        token: that it wants, if any.
        on_check: called with each claim that holds.

    Raises:
        UsageError: nobody answers, or the token is refused.
        JudgeError: the server has no rewards.
        GenrmError: a reply is not what the trainer needs.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    timeout = httpx.Timeout(30.0, read=_REPLY_LIMIT_S)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, trust_env=False) as client:
        probe = _Probe(client, f"self-test-{uuid.uuid4().hex[:12]}", on_check)
        if token is not None:
            refused = await probe.send("POST", "/v1/groups", {}, Authorization="Bearer another")
            probe.check("a refusal of another token", refused.status_code == 401, refused.status_code)
        try:
            await TRAINERS[trainer](probe)
        except (LookupError, TypeError, AttributeError) as error:  # a reply of another form
            raise GenrmError(f"expected a reply as {trainer} reads it; it lacks {error}") from error


@dataclass(frozen=True, slots=True)
class _Probe:
    """A client that checks every reply.

    Attributes:
        run_id: makes the names of this run's groups new to the server.
    """

    client: httpx.AsyncClient
    run_id: str
    on_check: OnCheck

    async def send(self, method: str, path: str, body: Json | None, **headers: str) -> httpx.Response:
        """Send JSON.

        Raises:
            UsageError: nobody answers.
        """
        content = None if body is None else json.dumps(body)
        try:
            return await self.client.request(method, path, content=content, headers=headers)
        except httpx.TransportError as error:
            where = f"{method} {path} at {self.client.base_url}"
            raise UsageError(f"{where}: no answer ({type(error).__name__}). Does it run?") from error

    async def ask(self, path: str, body: Json | None = None) -> Any:
        """Post JSON, or get a page without a body; return the JSON of the reply.

        Raises:
            UsageError: nobody answers, or the token is refused.
            JudgeError: the server has no reward.
            GenrmError: it answers with another error.
        """
        method = "GET" if body is None else "POST"
        reply = await self.send(method, path, body)
        said = f"{method} {path}: {reply.status_code} {reply.text[:300]}"
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

    async def ask_all(self, path: str, bodies: Sequence[Json]) -> list[Any]:
        """Send requests at once, and return their replies in order."""
        return list(await asyncio.gather(*(self.ask(path, body) for body in bodies)))

    def check(self, claim: str, holds: bool, found: object) -> None:
        """Report a claim that holds.

        Raises:
            GenrmError: it does not.
        """
        if not holds:
            raise GenrmError(f"expected {claim}; got {json.dumps(found)[:300]}")
        self.on_check(claim)

    def check_numbers(self, name: str, numbers: object, reasons: Sequence[object] = ()) -> None:
        """Check that each response has a number; `reasons` say why one is missing.

        Raises:
            JudgeError: one is null.
            GenrmError: they are not a list of so many numbers.
        """
        given = numbers if isinstance(numbers, list) else []
        if None in given:
            reason = next(filter(None, reasons), "the server does not say why")
            raise JudgeError(f"{name}: {given.count(None)} of {len(given)} responses have none: {reason}")
        known = [number for number in given if isinstance(number, int | float) and not isinstance(number, bool)]
        shown = ", ".join(f"{number:.2f}" for number in known)
        self.check(f"{name} of {_COUNT} responses: {shown}", len(known) == len(given) == _COUNT, numbers)


async def _trl(probe: _Probe) -> None:
    """The adapter for TRL sends whole groups, as those for slime, NeMo RL, prime-rl and SkyRL do."""
    responses = [{"text": text} for text in _RESPONSES]
    group = {"id": f"{probe.run_id}-group", "messages": _MESSAGES, "responses": responses}
    reply = await probe.ask("/v1/groups", group)
    reasons = [each.get("reason_text") for each in reply.get("responses", [])]
    probe.check_numbers("rewards", reply.get("rewards"), reasons)
    probe.check_numbers("advantages", reply.get("advantages"))
    again = await probe.ask("/v1/groups", group)
    probe.check("the same rewards for a repeated request", again["rewards"] == reply["rewards"], again["rewards"])


async def _verl(probe: _Probe) -> None:
    """The reward manager for verl sends each sample on its own, and those that pad a batch twice."""
    path = f"/v1/cohorts/{probe.run_id}-cohort/members"
    bodies = [{"size": _COUNT, "messages": _MESSAGES, "text": text} for text in _RESPONSES]
    members = [*enumerate(bodies), (0, bodies[0])]
    replies = await asyncio.gather(*(probe.ask(f"{path}/{number}", body) for number, body in members))
    reasons = [each.get("reason_text") for each in replies]
    probe.check_numbers("rewards", [each["reward"] for each in replies[:_COUNT]], reasons)
    together = all(len(each["members"]) == _COUNT for each in replies)
    probe.check("every member judged with all others", together, replies)
    probe.check("the same reward for a copy of a sample", replies[_COUNT] == replies[0], replies[_COUNT]["reward"])


async def _openrlhf(probe: _Probe) -> None:
    """OpenRLHF sends one sample a request, its prompt in the query, and empty lists to some servers."""
    path, label = f"/openrlhf?size={_COUNT}", f'{{"group_id": "{probe.run_id}-openrlhf"}}'
    prompt = f"<|im_start|>user\n{_QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    bodies = [{"query": [f"{prompt}{text}<|im_end|>"], "prompts": [prompt], "labels": [label]} for text in _RESPONSES]
    replies = await probe.ask_all(path, bodies)
    for name in ("rewards", "scores"):
        probe.check_numbers(name, [each[name][0] if len(each[name]) == 1 else each[name] for each in replies])
    logs = [each["extra_logs"] for each in replies]
    are_lists = all(isinstance(values, list) for each in logs for values in each.values())
    probe.check("extra_logs with a list for each name", are_lists, logs)
    empty = await probe.ask(path, {"query": [], "prompts": [], "labels": []})
    probe.check("empty lists for empty lists", empty["rewards"] == [], empty)


async def _slime(probe: _Probe) -> None:
    """slime's `remote_rm` sends one sample a request, and takes the whole reply as the reward."""
    label = f'{{"group_id": "{probe.run_id}-slime"}}'
    bodies = [{"prompt": _QUESTION, "response": text, "label": label} for text in _RESPONSES]
    probe.check_numbers("rewards", await probe.ask_all(f"/slime?size={_COUNT}", bodies))


async def _nemo_gym(probe: _Probe) -> None:
    """NeMo Gym asks whether the server lives, seeds a session, verifies rows, and aggregates what came back."""
    alive = await probe.ask("/")
    probe.check('{"status": "ok"} from GET /', alive == {"status": "ok"}, alive)
    seeded = await probe.ask("/seed_session", {})
    probe.check("an object from POST /seed_session", isinstance(seeded, dict), seeded)
    rows = [_gym_row(probe.run_id, number, text) for number, text in enumerate(_RESPONSES)]
    replies = await probe.ask_all("/verify", rows)
    failures = [each.get("_ng_failure_judge_error") for each in replies]
    rewards = [None if failure else each.get("reward") for each, failure in zip(replies, failures, strict=True)]
    probe.check_numbers("rewards", rewards, failures)
    are_kept = all(row.items() <= reply.items() for row, reply in zip(rows, replies, strict=True))
    probe.check("each row back with all its fields", are_kept, replies)
    metrics = await probe.ask("/aggregate_metrics", {"verify_responses": replies})
    names = {"group_level_metrics", "agent_metrics", "key_metrics"}
    probe.check("group, agent and key metrics", isinstance(metrics, dict) and names <= set(metrics), metrics)


def _gym_row(run_id: str, number: int, text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"id": f"msg-{number}", "type": "message", "role": "assistant", "status": "completed", "content": content}
    calls = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    kind = {"id": f"resp-{number}", "created_at": 0, "model": "policy", "object": "response"}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"{_QUESTION} ({run_id})"}]},
        "response": {**kind, "output": [message], **calls},
        "_ng_task_index": 0,
        "_ng_rollout_index": number,
        "cohort_size": _COUNT,
    }


TRAINERS: Mapping[str, Callable[[_Probe], Awaitable[None]]] = {
    "trl": _trl,
    "verl": _verl,
    "openrlhf": _openrlhf,
    "slime": _slime,
    "nemo-gym": _nemo_gym,
}
