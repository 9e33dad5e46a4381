"""Ask a running `genrm serve` for the rewards of a group, or of one member of a cohort.

    >>> import asyncio
    >>> from genrm_cli.adapters.reward_client import RewardClient

    >>> async def rewards_of(prompt, responses):
    ...     client = RewardClient("http://localhost:8330")
    ...     return client.numbers_in(await client.score_group(prompt, responses))

    >>> worse, better = asyncio.run(rewards_of("Why is it blue?", ["Air.", "Air scatters it."]))
    >>> worse < better
    True

An adapter is such a function in the shape that its trainer calls: one module for each trainer."""

import asyncio
import hashlib
import json
import logging
import math
import os
import random
import ssl
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

Json = dict[str, Any]
Answer = TypeVar("Answer")
_URL_VARIABLE = "GENRM_SERVE_URL"
_TOKEN_VARIABLE = "GENRM_SERVE_TOKEN"  # noqa: S105  (the name of a variable)
_DEFAULT_URL = "http://127.0.0.1:8330"
_RETRIED = (429, 500, 502, 503, 504)
_AWAY = (502, 504)  # what a proxy says in front of a server that does not run
_LONGEST_PAUSE_S = 10.0  # a restarted server is found again within it
_CONNECT_TIMEOUT_S = 30.0  # thousands of requests may open connections at once

_LOG = logging.getLogger("genrm_cli")

_reported: set[str] = set()  # servers whose absence was logged
_down_since_s: dict[str, float] = {}
"""When each server that cannot be reached was first missed by this process: later requests do not
wait for it again, but look whether it is back."""


class RewardServerError(Exception):
    """The server refuses the request, or could not be reached for as long as the client tries."""


class MissingRewardError(Exception):
    """A response has no reward, and the trainer requires a number."""


@dataclass(frozen=True, slots=True)
class RewardClient:
    """A client of `genrm serve` that any event loop and any process may use.

        client = RewardClient("http://localhost:8330")
        reply = await client.score_group("Why is the sky blue?", ["Rayleigh.", "The sea."])
        reply["rewards"]  # a number or None for each response

    With several servers, all requests of a group go to one of them, chosen by a hash of the group:
    every process that lists the same URLs chooses the same server. While it cannot be reached for
    `move_after_s`, its groups go to the next one.

    Raises:
        ValueError: an option is wrong; the message names it.

    Attributes:
        url: URL of the server, or several in a list or separated by commas; by default
            `GENRM_SERVE_URL`, else http://127.0.0.1:8330.
        try_for_s: how long to try again while the server is busy or cannot be reached.
        move_after_s: with several servers, how long one must be away before another takes its
            groups. A restart takes less, and its journal has their answers.
        reply_timeout_s: maximum wait for one reply; a member waits for its cohort that long.
        on_failure: the value for a response without a reward, if the trainer requires a number: a
            number, `mean` for the mean of the rewards in its group (of all groups before, if none
            of its texts can be judged), or None for an error.
    """

    url: str | Sequence[str] = field(
        default_factory=lambda: os.environ.get(_URL_VARIABLE, _DEFAULT_URL)
    )
    token: str | None = field(default_factory=lambda: os.environ.get(_TOKEN_VARIABLE), repr=False)
    try_for_s: float = 300.0
    move_after_s: float = 30.0
    reply_timeout_s: float = 3_600.0
    on_failure: float | str | None = None

    def __post_init__(self) -> None:
        try:
            are_urls = {url.startswith(("http://", "https://")) for url in self.urls}
        except (TypeError, AttributeError):  # neither a text nor a list of texts
            are_urls = {False}
        if are_urls != {True}:
            raise ValueError(f"url is {self.url!r}; expected one or several such as {_DEFAULT_URL}")
        if self.on_failure not in (None, "mean"):
            try:
                number = float(str(self.on_failure))
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise ValueError(
                    f"on_failure is {self.on_failure!r}; expected a number, 'mean' or None"
                )

    @property
    def urls(self) -> list[str]:
        """The URLs of all servers."""
        urls = self.url.split(",") if isinstance(self.url, str) else self.url
        return [url.strip().rstrip("/") for url in urls]

    def url_of(self, group: str) -> str:
        """Return the server of a group."""
        return self._servers_of(group)[0]

    def _servers_of(self, group: str) -> list[str]:
        """Return all servers in the order in which a group tries them.

        Without one of them, its groups are spread over the others and no other group moves.
        Source: D. G. Thaler and C. V. Ravishankar, A Name-Based Mapping Scheme for Rendezvous
        (1996)."""
        return sorted(
            self.urls, key=lambda url: hashlib.sha256(f"{url}\0{group}".encode()).digest()
        )

    async def score_group(
        self,
        messages: object,
        responses: Sequence[object],
        *,
        principle: str | None = None,
        reference: str | None = None,
        record: Mapping[str, Any] | None = None,
    ) -> Json:
        """Return the reply of `POST /v1/groups`; `rewards` has a number or None for each response.

        Args:
            messages: the prompt: a text or a list of messages.
            responses: texts, messages or lists of messages; None for a generation that failed.
            principle: the criterion to judge by.
            reference: the known answer; a server with `--reference-field reference` shows it to the
                judge.
            record: further fields of the task, such as the reference answer.

        Raises:
            RewardServerError: as the class says. A failure of the judge is not an error but a
                reward of None.
        """
        shown = [_response(each, reference, record) for each in responses]
        body = _body(messages, principle, responses=shown)
        return await self.post("/v1/groups", body, group=json.dumps(body, sort_keys=True))

    async def score_rows(
        self,
        groups: Sequence[str],
        prompts: Sequence[object],
        responses: Sequence[object],
        **about: Sequence[Any],
    ) -> list[float]:
        """Return the reward of each row, or its replacement, for a trainer that requires numbers.

        Args:
            groups: rows with the same name are compared with each other.
            about: `principle`, `reference` or `record` of each row; the first of a group counts.

        Raises:
            MissingRewardError: as for `number_in`.
            RewardServerError: as for `score_group`.
        """
        rows_of: dict[str, list[int]] = {}
        for row, group in enumerate(groups):
            rows_of.setdefault(group, []).append(row)
        asked = (
            self.score_group(
                prompts[rows[0]],
                [responses[row] for row in rows],
                **{name: given[rows[0]] for name, given in about.items()},
            )
            for rows in rows_of.values()
        )
        rewards = [0.0] * len(groups)
        for rows, reply in zip(rows_of.values(), await asyncio.gather(*asked), strict=True):
            for row, reward in zip(rows, self.numbers_in(reply), strict=True):
                rewards[row] = reward
        return rewards

    def numbers_in(self, reply: Mapping[str, Any]) -> list[float]:
        """Return the rewards in the reply to a group, as `number_in` does."""
        return [self.number_in(response, reply["metrics"]) for response in reply["responses"]]

    def number_in(self, response: Mapping[str, Any], metrics: Mapping[str, Any]) -> float:
        """Return the reward of a response, or its replacement.

        No replacement is above the lowest reward of the group for a response that made the judge
        fail.

        Args:
            metrics: metrics of its group.

        Raises:
            MissingRewardError: there is neither a reward nor a replacement.
        """
        if response["reward"] is not None:
            return float(response["reward"])
        instead = self.on_failure
        if instead == "mean":
            instead = metrics["reward_mean"]
            if (
                instead is None and not metrics["unanswered"]
            ):  # a judge that is away for good is not to go unnoticed
                instead = metrics["reward_mean_before"]
        if instead is None:
            raise MissingRewardError(
                f"genrm gives response {response['id']!r} no reward: {response['reason_text']}. "
                "This trainer requires a number; set on_failure to one, or to 'mean' for the mean "
                "of its group."
            )
        return float(instead)

    def components_in(
        self, response: Mapping[str, Any], metrics: Mapping[str, Any]
    ) -> dict[str, float]:
        """Return the components of a response by name, for trainers that keep rewards apart.

        A missing one is the mean of its group, or 0 if nobody has one: within the group, it changes
        the advantage of nobody.

        Args:
            metrics: metrics of its group; it names the components.
        """
        values = dict(metrics["component_means"])
        own = response.get("components") or {}
        values |= {name: value for name, value in own.items() if value is not None}
        return {name: float(value or 0.0) for name, value in values.items()}

    async def score_member(
        self,
        group_id: str,
        member_id: str,
        size: int,
        messages: object,
        response: object,
        *,
        principle: str | None = None,
        reference: str | None = None,
        record: Mapping[str, Any] | None = None,
    ) -> Json:
        """Wait for the cohort of a response, and return the reply; `reward` is a number or None.

        Raises:
            RewardServerError: as for `score_group`.
        """
        body = _body(messages, principle, size=size, **_response(response, reference, record))
        return await self.post(_member_path(group_id, member_id), body, group=group_id)

    async def leave_out(self, group_id: str, member_id: str, size: int) -> bool:
        """Say that a member will not come, because its generation was aborted, say.

        Its siblings are answered as soon as all others have come. Returns False if it has come
        before. It may come later all the same.

        Raises:
            RewardServerError: as for `score_group`.
        """
        path = f"{_member_path(group_id, member_id)}?size={size}"
        reply = await self.post(path, None, group=group_id, method="DELETE")
        return bool(reply["absent"])

    async def post(
        self, path: str, body: Json | None, *, group: str = "", method: str = "POST"
    ) -> Json:
        """Send to the server of a group until it answers: every endpoint is idempotent, so a lost
        reply can be requested again.

        Raises:
            RewardServerError: as for `score_group`.
        """
        servers = self._servers_of(group)
        pause_s = 0.5
        failing_since_s = None
        while True:
            url = servers[0]
            is_away = False
            try:
                reply = await self._send(method, url + path, body)
            except httpx.TransportError as lost:
                is_away = True
                error = f"{type(lost).__name__} {lost}".rstrip()
                wait_s = pause_s
            else:
                answer = _answer_in(reply)
                if answer is not None:
                    _down_since_s.pop(url, None)
                    _reported.discard(url)
                    return answer
                is_away = reply.status_code in _AWAY
                error = _error_in(reply)
                later = reply.headers.get("Retry-After", "")
                wait_s = float(later) if later.isdecimal() else pause_s
                if reply.status_code not in _RETRIED:
                    raise RewardServerError(f"{url}{path}: {error}")
            now_s = time.monotonic()
            failing_since_s = failing_since_s or now_s
            if now_s + wait_s - failing_since_s > self.try_for_s:
                raise RewardServerError(
                    f"{url}{path}: no answer for {self.try_for_s:g} s; the last: {error}"
                )
            if is_away and self._is_down(url, servers, now_s):
                servers = [*servers[1:], url]
                if servers[0] != self.url_of(group):  # a server that was not tried yet
                    continue
            await asyncio.sleep(wait_s * random.uniform(1, 1.2))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _is_down(self, url: str, servers: Sequence[str], now_s: float) -> bool:
        """Note that a server cannot be reached; return whether the next one takes its group."""
        away_s = now_s - _down_since_s.setdefault(url, now_s)
        if len(servers) == 1 or away_s < self.move_after_s:
            return False
        if url not in _reported:
            _reported.add(url)
            _LOG.warning(
                "genrm: %s is away for %.0f s; %s takes its groups until it is back",
                url,
                away_s,
                servers[1],
            )
        return True

    async def _send(self, method: str, url: str, body: Json | None) -> httpx.Response:
        # A client for each request: the connections of a shared one cost time in proportion to all
        # waiting requests.
        timeout = httpx.Timeout(_CONNECT_TIMEOUT_S, read=self.reply_timeout_s, pool=None)
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        async with httpx.AsyncClient(
            verify=_certificates(), timeout=timeout, trust_env=False
        ) as client:
            content = None if body is None else json.dumps(body)
            return await client.request(method, url, content=content, headers=headers)


@cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _member_path(group_id: str, member_id: str) -> str:
    # A dot is quoted too: "." and ".." are parts of a path.
    group, member = (quote(id_, safe="").replace(".", "%2E") for id_ in (group_id, member_id))
    return f"/v1/cohorts/{group}/members/{member}"


def _body(messages: object, principle: str | None, **fields: object) -> Json:
    return {"messages": messages, **fields} | (
        {} if principle is None else {"principle": principle}
    )


def _response(response: object, reference: str | None, record: Mapping[str, Any] | None) -> Json:
    shown = {"text" if response is None or isinstance(response, str) else "item": response}
    about = {**(record or {})} | ({} if reference is None else {"reference": reference})
    return {**shown, "record": about} if about else shown


def _answer_in(reply: httpx.Response) -> Json | None:
    """Return the JSON object of a successful reply; None for any other, such as the page of a
    proxy.
    """
    try:
        answer = reply.json() if reply.is_success else None
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _error_in(reply: httpx.Response) -> str:
    if reply.is_success:
        return (
            f"{reply.status_code}, but no JSON object; is this genrm serve? It starts with "
            f"{reply.text[:300]!r}"
        )
    try:
        said = reply.json()["error"]["message"]
    except (ValueError, LookupError, TypeError):
        said = reply.text[:300]
    return f"{reply.status_code}: {said}"


def wait_for(question: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine from synchronous code, also where an event loop is running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, question).result()


def talk_of(trace: Any) -> tuple[list[Any], list[Any]]:
    """Return the prompt of a trace of verifiers, and its messages from the first sampled one on;
    nothing of a trace without one.
    """
    branches = trace.branches
    nodes = branches[-1].nodes if branches else []
    sampled = [place for place, node in enumerate(nodes) if node.sampled]
    if not sampled:
        return [], []
    messages = [node.message.model_dump(exclude_none=True) for node in nodes]
    return messages[: sampled[0]], messages[sampled[0] :]
