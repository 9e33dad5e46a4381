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
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote, urljoin

import httpx

Json = dict[str, Any]
Answer = TypeVar("Answer")
_URL_VARIABLE = "GENRM_SERVE_URL"
_TOKEN_VARIABLE = "GENRM_SERVE_TOKEN"  # noqa: S105  (the name of a variable)
_DEFAULT_URL = "http://127.0.0.1:8330"
_RETRIED = (429, 500)
# From here on, what proxies say in front of a server that does not run, or is slow: 502 to 504, and
# 520 to 530.
_MISSED_FROM = 502
_WAITING = 202
_WAIT_S = 15.0  # on one connection; networks forget those that are silent for longer than 30 s
_REPLY_SLACK_S = 10.0  # of a busy server, after the time that it was to wait
_CONNECT_TIMEOUT_S = 30.0  # thousands of requests may open connections at once
_LOOK_TIMEOUT_S = 3.0  # is a server there, or back?
_SHORTEST_CUT_S = 1.0  # no proxy gives up sooner; a server that crashes on a request does
_LONGEST_PAUSE_S = 10.0  # a restarted server is found again within it

_LOG = logging.getLogger("genrm_cli")


@dataclass(slots=True)
class _KnownServer:
    """What this process knows of a server; all its requests share it.

    Attributes:
        away_since_s: when it was first missed; None while it is there. Later requests do not wait
            for it again, but look whether it is back.
        wait_s: how long a reply may take on one connection before something between cuts it.
    """

    away_since_s: float | None = None
    is_reported: bool = False
    looked_s: float = 0.0
    wait_s: float = _WAIT_S

    def is_there(self) -> None:
        """Note that it has answered."""
        self.away_since_s = None
        self.is_reported = False


_servers: dict[str, _KnownServer] = {}


@dataclass(frozen=True, slots=True)
class _Said:
    """The reply to one request, or the error on the way.

    Attributes:
        is_alive: the server waits for others, or is busy.
        later_s: when to ask again; 0 if it does not say.
        was_there: the server waited for others until the connection broke.
        since_s: when it was so, on the monotonic clock.
    """

    answer: Json | None = None
    error: str = ""
    is_alive: bool = False
    later_s: float = 0.0
    was_there: bool = False
    since_s: float = field(default_factory=time.monotonic)


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
        try_for_s: how long to try again while the server cannot be reached. Waiting for a cohort,
            or for a busy server, has no limit.
        move_after_s: with several servers, how long one must be away before another takes its
            groups. A restart takes less, and its journal has their answers.
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
        evaluates: bool = False,
    ) -> Json:
        """Return the reply of `POST /v1/groups`; `rewards` has a number or None for each response.

        Args:
            messages: the prompt: a text or a list of messages.
            responses: texts, messages or lists of messages; None for a generation that failed.
            principle: the criterion to judge by.
            reference: the known answer; a server with `--reference-field reference` shows it to the
                judge.
            record: further fields of the task, such as the reference answer.

            evaluates: whether each response is compared with the answer in the server's
                `--reference` file only. Its reward is then the share of comparisons that it wins.

        Raises:
            RewardServerError: as the class says. A failure of the judge is not an error but a
                reward of None.
        """
        shown = [_response(each, reference, record) for each in responses]
        body = _body(messages, principle, responses=shown)
        if evaluates:
            body["as"] = "reference"
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

        A missing one is the mean of its group, or 0 if no member has one: it changes no advantage
        within the group.

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
        pause_s = 0.5
        failing_since_s = None
        while True:
            url = self._server_for(group)
            said = await self._ask(method, url, path, body, group)
            if said.answer is not None:
                return said.answer
            if said.is_alive:
                failing_since_s = None
                # Spread widely: thousands of members may have been told the same.
                await asyncio.sleep(said.later_s * random.uniform(0.5, 2))
                continue
            if self._server_for(group) != url:  # it is away for too long
                continue
            if failing_since_s is None or said.was_there:
                failing_since_s = said.since_s
            left_s = failing_since_s + self.try_for_s - time.monotonic()
            if left_s <= 0:
                raise RewardServerError(
                    f"{url}{path}: no answer for {self.try_for_s:g} s; the last: {said.error}"
                )
            wait_s = (said.later_s or pause_s) * random.uniform(1, 1.2)
            await asyncio.sleep(min(wait_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _ask(
        self, method: str, url: str, path: str, body: Json | None, group: str
    ) -> "_Said":
        """Send a request once, and note whether its server is there."""
        begun_s = time.monotonic()
        try:
            reply = await self._send(method, url, path, body, group)
        except httpx.TransportError as lost:
            # The server may have been there until a connection broke, but not while none came up.
            is_unreached = isinstance(lost, (httpx.ConnectError, httpx.ConnectTimeout))
            since_s = begun_s if is_unreached else time.monotonic()
            has_waited = not is_unreached and since_s - begun_s >= _SHORTEST_CUT_S
            error = f"{type(lost).__name__} {lost}".rstrip()
            said = _Said(error=error, since_s=since_s, was_there=has_waited)
            is_missed = True
        else:
            said = _said_in(reply)
            is_missed = reply.status_code >= _MISSED_FROM
            is_final = said.answer is None and not said.is_alive
            if is_final and not is_missed and reply.status_code not in _RETRIED:
                raise RewardServerError(f"{url}{path}: {said.error}")
        known = _known(url)
        if said.is_alive or said.answer is not None:
            known.is_there()
        elif is_missed and await self._was_cut(url, path, time.monotonic() - begun_s):
            known.is_there()
            return replace(said, is_alive=True)
        elif is_missed:
            known.away_since_s = known.away_since_s or said.since_s
        return said

    def _server_for(self, group: str) -> str:
        """Return the first server of a group that has not been away for too long."""
        servers = self._servers_of(group)
        there = next((url for url in servers if not self._has_moved(url)), servers[0])
        for url in servers[: servers.index(there)]:
            if not _known(url).is_reported:
                _known(url).is_reported = True
                _LOG.warning("genrm: %s is away; %s takes its groups until it is back", url, there)
        return there

    def _has_moved(self, url: str) -> bool:
        away_since_s = _known(url).away_since_s
        return away_since_s is not None and time.monotonic() - away_since_s >= self.move_after_s

    async def _was_cut(self, url: str, path: str, after_s: float) -> bool:
        """Return whether something between cut a connection to a server that is there: a proxy, or
        a network that forgets.

        The next requests wait for less.
        """
        if after_s < _SHORTEST_CUT_S or not await self._answers(url, path):
            return False
        known = _known(url)
        known.wait_s = max(_SHORTEST_CUT_S, min(known.wait_s, after_s) / 2)
        return True

    async def _answers(self, url: str, path: str) -> bool:
        """Return whether a server is there."""
        health = f"{url}/healthz" if path else urljoin(url, "healthz")
        try:
            async with self._connection(_LOOK_TIMEOUT_S, _LOOK_TIMEOUT_S) as client:
                return _said_in(await client.get(health)).answer is not None
        except httpx.TransportError:
            return False

    async def _look_for(self, url: str, path: str) -> None:
        if await self._answers(url, path):
            _known(url).is_there()

    async def _send(
        self, method: str, url: str, path: str, body: Json | None, group: str
    ) -> httpx.Response:
        """Send a request once. Meanwhile, see whether the server that the group has left is
        back.
        """
        known = _known(url)
        target = url + path
        if method == "POST":
            target += f"{'&' if '?' in target else '?'}wait={known.wait_s:g}"
        connect_s = _CONNECT_TIMEOUT_S if known.away_since_s is None else _LOOK_TIMEOUT_S
        looking = self._begin_looking(group, url, path)
        try:
            async with self._connection(connect_s, known.wait_s + _REPLY_SLACK_S) as client:
                content = None if body is None else json.dumps(body)
                return await client.request(method, target, content=content)
        finally:
            for task in looking:
                task.cancel()

    def _begin_looking(self, group: str, url: str, path: str) -> list[asyncio.Task[None]]:
        servers = self._servers_of(group)
        now_s = time.monotonic()
        missed = [
            each
            for each in servers[: servers.index(url)]
            if now_s - _known(each).looked_s > _LOOK_TIMEOUT_S
        ]
        for each in missed:
            _known(each).looked_s = now_s
        return [asyncio.ensure_future(self._look_for(each, path)) for each in missed]

    def _connection(self, connect_s: float, read_s: float) -> httpx.AsyncClient:
        """Return a client for one request: the connections of a shared one cost time in proportion
        to all waiting requests.
        """
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        timeout = httpx.Timeout(connect_s, read=read_s, pool=None)
        return httpx.AsyncClient(
            verify=_certificates(), timeout=timeout, trust_env=False, headers=headers
        )


def _known(url: str) -> _KnownServer:
    return _servers.setdefault(url, _KnownServer())


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


def _said_in(reply: httpx.Response) -> _Said:
    """Read a reply: a JSON object is an answer, unless it says to ask again; the page of a proxy is
    none.
    """
    later = reply.headers.get("Retry-After", "")
    later_s = float(later) if later.isdecimal() else 0.0
    try:
        content = reply.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        return _Said(error=_error_in(reply), later_s=later_s)
    if reply.is_success and reply.status_code != _WAITING:
        return _Said(content)
    problem = content.get("error")
    is_busy = isinstance(problem, dict) and problem.get("type") == "busy"
    is_alive = is_busy or reply.status_code == _WAITING
    return _Said(error=_error_in(reply), is_alive=is_alive, later_s=later_s)


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
