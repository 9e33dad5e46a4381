"""Open the judges of a run: endpoints, limits, budget."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from genrm_cli.errors import Message
from genrm_cli.judging.client import CallError, JudgeClient
from genrm_cli.judging.engine import CachedJudge, Judge, JudgeSet, LexicalJudge, RecallPolicy
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import ProfileSource
from genrm_cli.judging.pacing.descriptors import max_connections
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.limit import AdaptiveLimit, Limit
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import GRACE_S, EndpointPool
from genrm_cli.judging.pacing.pool import OnEvent as OnEvent
from genrm_cli.judging.probe import JUDGE, KnownAnswer, ModelRole, answer_to_roles, probe_judge
from genrm_cli.judging.profiles.profile import AnyProfile, ChatProfile
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.settings.judge_settings import LimitSettings
from genrm_cli.settings.panel import JudgeConfig
from genrm_cli.verdicts import FailureKind, Outcome, StoppedBy

AUTO_CEILING = 4_096
_LISTING_S = 10.0


def ignore_event(event: str, fields: dict[str, Any]) -> None:
    """Ignore an event."""
    del event, fields


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A judge to open.

    Attributes:
        profile: its profile; None for the built-in lexical judge.
        compares: whether it must prefer the better response when probed; False for a grader of components.
        roles: profile to use instead, if the judge turns out to know its roles; None to use `profile` in any case.
        role: its name, and those of its settings, in messages.
        max_model_len: context length in tokens, as set, told by the endpoints or found in the journal; None if unknown.
    """

    config: JudgeConfig
    profile: AnyProfile | None
    compares: bool = True
    source: ProfileSource = ProfileSource.SETTING
    roles: AnyProfile | None = None
    role: ModelRole = JUDGE
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Options that apply to all judges of a run.

    Attributes:
        probe: test each judge before the first request.
        api_keys: API keys by judge name; never shown, not even by `repr`.
        started_s: start of the run, by the monotonic clock; the deadline counts from it.
        resumes: continue after the judge was down for `give_up_after`, as a server does.
    """

    limits: LimitSettings
    probe: bool = True
    recall: RecallPolicy = field(default_factory=RecallPolicy)
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    started_s: float = field(default_factory=time.monotonic)
    resumes: bool = False


@dataclass(slots=True)
class OpenJudge:
    """An open judge; without `remote` it is the built-in one.

    `with_roles` is the same judge with the profile `roles`, until one of the two is chosen.
    """

    spec: JudgeSpec
    remote: RemoteJudge | None = None
    with_roles: RemoteJudge | None = None
    verdict_with_roles: KnownAnswer | None = None

    def choose_roles(self, answer: KnownAnswer | None = None) -> None:
        """Use the profile `roles` from now on."""
        self.spec = replace(self.spec, profile=self.spec.roles, source=ProfileSource.PROBE)
        self.remote, self.with_roles, self.verdict_with_roles = self.with_roles, None, answer

    def find_context(self, told: int | None, journal: Journal | None) -> None:
        """Set the context length: as the user says, as the endpoints tell, or as the journal knows it."""
        remote, settings = self.remote, self.spec.config.judge
        if remote is None or settings.compat is not None:
            return
        length = told if settings.max_model_len is None else settings.max_model_len
        if length is None and journal is not None and (name := journal.find_judge(remote.label)) is not None:
            tokens = name.removeprefix(f"{remote.label} · ").removesuffix(" tokens")
            length = int(tokens) if tokens.isdecimal() else None
        self.spec = replace(self.spec, max_model_len=length or None)
        if length:
            remote.label = f"{remote.label} · {length} tokens"


class OpenJudges:
    """The open judges of a run; all its inputs share them, with their endpoints, limits and budget."""

    def __init__(
        self, judges: Sequence[OpenJudge], latencies: Latencies, options: OpenOptions, on_event: OnEvent
    ) -> None:
        self.latencies = latencies
        self._judges = list(judges)
        self._pools = list(dict.fromkeys(judge.remote.pool for judge in judges if judge.remote is not None))
        self._options = options
        self._on_event = on_event
        self._settled = self._probed = False
        self._probing = asyncio.Lock()

    def with_journal(
        self, journal: Journal | None, on_outcome: Callable[[Outcome], None] = lambda outcome: None
    ) -> JudgeSet:
        """Return the judges in the order of the plan, each behind the journal, if there is one."""
        lanes = max((len(pool.endpoints) for pool in self._pools), default=1)
        judges: list[Judge] = []
        for remote in (judge.remote for judge in self._judges):
            if remote is None:
                judges.append(LexicalJudge())
            else:
                judges.append(remote if journal is None else CachedJudge(remote, journal, self._options.recall))
        return JudgeSet(judges, on_outcome, max(1, lanes))

    @property
    def is_remote(self) -> bool:
        """Whether any judge is asked over HTTP."""
        return any(judge.remote is not None for judge in self._judges)

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made."""
        return next((pool.stopped_by for pool in self._pools if pool.stopped_by), None)

    @property
    def in_flight(self) -> int:
        """Calls in flight, of all judges."""
        return sum(pool.in_flight for pool in self._pools)

    @property
    def limit(self) -> int:
        """Calls that may be in flight, of all judges."""
        return sum(pool.limit for pool in self._pools)

    @property
    def specs(self) -> list[JudgeSpec]:
        """The judges, with the profiles that were chosen for them."""
        return [judge.spec for judge in self._judges]

    async def is_reachable(self, timeout_s: float) -> bool:
        """Whether each judge has an endpoint that is up, or one that responds again."""
        return all([pool.is_up or await _responds(pool, timeout_s) for pool in self._pools])

    async def settle(self, journal: Journal | None = None) -> None:
        """Choose the profile of each judge whose model is not known, and its context, once; announce the judges.

        The journal shows how such a judge was asked before. Otherwise it is asked once with the GenRM roles: only a
        model trained on them answers with a verdict, because nothing else in the request asks for one.
        """
        async with self._probing:
            if self._settled:
                return
            for judge in self._judges:
                await self._settle(judge, journal)
                if not isinstance(judge.spec.profile, ChatProfile):
                    await self._find_context(judge, journal)
            self._settled = True
            for spec in self.specs:
                announced = {
                    "name": spec.config.name,
                    "model": spec.config.judge.model,
                    "profile": None if spec.profile is None else spec.profile.name,
                    "profile_from": None if spec.profile is None else spec.source.value,
                    "base_urls": list(spec.config.judge.base_url),
                    "compares": spec.compares,
                    "max_model_len": spec.max_model_len,
                }
                self._on_event("judge", announced)

    async def _settle(self, judge: OpenJudge, journal: Journal | None) -> None:
        if judge.with_roles is None or judge.remote is None:
            return
        if journal is not None and journal.find_judge(judge.with_roles.label):
            judge.choose_roles()
            return
        is_known = journal is not None and journal.find_judge(judge.remote.label) is not None
        if not is_known and self._options.probe and not self._options.recall.only_known and judge.remote.may_ask():
            timeout_s = self._call_timeout_s(judge)
            answer = await answer_to_roles(judge.with_roles, timeout_s, self._on_event)
            if answer is not None:
                judge.choose_roles(answer)

    async def _find_context(self, judge: OpenJudge, journal: Journal | None) -> None:
        told: list[int | None] = []
        settings = judge.spec.config.judge
        if judge.remote is not None and settings.max_model_len is None and settings.compat is None:
            timeout_s = min(_LISTING_S, self._call_timeout_s(judge))
            endpoints = judge.remote.pool.endpoints
            told = await asyncio.gather(*(_context_of(each, judge.remote.model, timeout_s) for each in endpoints))
        judge.find_context(min((each for each in told if each), default=None), journal)

    def _call_timeout_s(self, judge: OpenJudge) -> float:
        timeout_s = judge.spec.config.limits.call_timeout
        return min(timeout_s, self._options.limits.deadline or timeout_s)

    async def probe(self) -> None:
        """Probe every remote judge, once, unless the options disable it.

        Raises:
            JudgeError: a judge cannot be used.
        """
        await self.settle()
        async with self._probing:
            if self._probed or not self._options.probe or self._options.recall.only_known:
                return
            parts = [part for judge in self._judges for warning in await self._probe(judge) for part in ("; ", warning)]
            self._probed = True
            if self.is_remote:
                self._on_event("probe", {"warning": Message.of(*parts[1:]) if parts else None})

    async def _probe(self, judge: OpenJudge) -> list[Message]:
        if judge.remote is None or not judge.remote.may_ask():
            return []
        spec = judge.spec
        return await probe_judge(
            judge.remote,
            self._call_timeout_s(judge),
            compares=spec.compares,
            role=spec.role,
            name=None if spec.compares or spec.role is not JUDGE else spec.config.name,
            known=judge.verdict_with_roles,
            on_event=self._on_event if spec.roles is None else ignore_event,  # announced when it was chosen
        )


async def _context_of(endpoint: Endpoint, model: str, timeout_s: float) -> int | None:
    """Return the context length of a model as an endpoint tells it; None if it does not."""
    try:
        return (await endpoint.client.list_models(timeout_s)).get(model)
    except CallError:
        return None


async def _responds(pool: EndpointPool, timeout_s: float) -> bool:
    """Whether any endpoint responds to a request that costs nothing."""
    for endpoint in pool.endpoints:
        try:
            await endpoint.client.list_models(timeout_s)
        except CallError as error:
            if error.failure.kind in (FailureKind.CONNECTION, FailureKind.TIMEOUT):
                continue
        return True
    return False


@asynccontextmanager
async def open_judges(
    specs: Sequence[JudgeSpec], options: OpenOptions, on_event: OnEvent = ignore_event
) -> AsyncIterator[OpenJudges]:
    """Open the judges of a run. Judges with the same endpoints, key and limit share them.

    Raises:
        UsageError: an endpoint's URL or a CA bundle cannot be used.
    """
    async with AsyncExitStack() as clients:
        opener = _Opener(specs, options, on_event)
        judges = [await opener.open(spec, clients) for spec in specs]
        yield OpenJudges(judges, opener.latencies, options, on_event)


def idle_judges(
    specs: Sequence[JudgeSpec], options: OpenOptions, journal: Journal | None
) -> tuple[JudgeSet, list[JudgeSpec]]:
    """Return judges without endpoints, which render requests and recall outcomes but ask nothing, and their specs."""
    opener = _Opener(specs, options, ignore_event)
    nowhere = EndpointPool([], options.limits.give_up_after, ignore_event)
    judges = [
        OpenJudge(spec, None if spec.profile is None else opener.remote(spec, spec.profile, nowhere)) for spec in specs
    ]
    for judge in judges:
        judge.find_context(None, journal)
    opened = OpenJudges(judges, opener.latencies, options, ignore_event)
    return opened.with_journal(journal), opened.specs


class _Opener:
    def __init__(self, specs: Sequence[JudgeSpec], options: OpenOptions, on_event: OnEvent) -> None:
        self.latencies = Latencies()
        endpoints = {base_url for spec in specs for base_url in spec.config.judge.base_url}
        self._connections = max(1, max_connections() // max(1, len(endpoints)))  # of each endpoint
        self._options = options
        self._on_event = on_event
        self._pools: dict[tuple[object, ...], EndpointPool] = {}
        limits = options.limits
        self._budget = Budget(
            limits.max_calls, limits.max_total_tokens, limits.max_cost, limits.price_in, limits.price_out
        )

    async def open(self, spec: JudgeSpec, clients: AsyncExitStack) -> OpenJudge:
        if spec.profile is None:
            return OpenJudge(spec)
        pool = await self._pool(spec.config, self._options.api_keys.get(spec.config.name), clients)
        remote = self.remote(spec, spec.profile, pool)
        with_roles = None if spec.roles is None else self.remote(spec, spec.roles, pool)
        deadline_s = self._options.limits.deadline
        if deadline_s is not None and not self._options.recall.only_known:
            remote.set_deadline(deadline_s - (time.monotonic() - self._options.started_s), GRACE_S)
        return OpenJudge(spec, remote, with_roles)

    async def _pool(self, config: JudgeConfig, key: str | None, clients: AsyncExitStack) -> EndpointPool:
        judge, limits, options = config.judge, config.limits, self._options
        identity = (judge.base_url, key, judge.ca_bundle, limits.concurrency)
        if identity in self._pools:
            return self._pools[identity]
        endpoints = []
        for base_url in () if options.recall.only_known else judge.base_url:
            most = limits.max_in_flight or AUTO_CEILING
            client = JudgeClient(base_url, key, limits.connect_timeout, most, judge.ca_bundle)
            await clients.enter_async_context(client)
            limit: Limit
            if limits.max_in_flight is None:
                limit = AdaptiveLimit(min(AUTO_CEILING, self._connections))
            else:
                limit = Limit(min(limits.max_in_flight, self._connections))
            endpoints.append(Endpoint(base_url, client, limit))
        pool = EndpointPool(endpoints, limits.give_up_after, self._on_event, resumes=options.resumes)
        self._pools[identity] = pool
        return pool

    def remote(self, spec: JudgeSpec, profile: AnyProfile, pool: EndpointPool) -> RemoteJudge:
        judge, limits = spec.config.judge, spec.config.limits
        given = {"temperature": judge.temperature, "top_p": judge.top_p, "max_tokens": judge.max_reply_tokens}
        return RemoteJudge(
            pool,
            profile,
            CallPolicy(limits.call_timeout, limits.comparison_timeout, limits.retries, limits.reask),
            self._budget,
            model=judge.model or "",
            sampling={name: value for name, value in given.items() if value is not None},
            judge_id=judge.judge_id,
            latencies=self.latencies,
        )
