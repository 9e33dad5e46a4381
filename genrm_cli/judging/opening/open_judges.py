"""Open the judges of a run: their endpoints, limits and budget, their context, and their probe.

Judges with the same endpoints, key and limit share one pool, and judges of one model in a pool
share its `RequestForm`. All judges share the budget."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import JudgeError, Message
from genrm_cli.judging.client import CallError, JudgeClient, KeyMask
from genrm_cli.judging.context.learned_context import LearnedContext
from genrm_cli.judging.engine import CachedJudge, Judge, JudgeSet, LexicalJudge
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import ProfileSource, schema_profile_of
from genrm_cli.judging.offline import OfflineJudge, ReplyStore
from genrm_cli.judging.opening.judge_spec import JUDGE, JudgeSpec, OpenOptions
from genrm_cli.judging.opening.probe import NoVerdictError, WrongVerdictError, probe_judge
from genrm_cli.judging.pacing.descriptors import max_connections
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.judge_events import FoundProfileEvent, JudgeEvent, ProbeEvent
from genrm_cli.judging.pacing.limit import AdaptiveLimit, Limit
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import GRACE_S, EndpointPool
from genrm_cli.judging.profiles.profile import AnyProfile, ChatProfile, GradingProfile
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.request_form import RequestForm, override_fields
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.settings.kinds import parse_request_field
from genrm_cli.verdicts import FailureKind, Outcome, StoppedBy

AUTO_CEILING = 4_096  # a bound on connections, far above the capacity of usual servers
_LISTING_S = 10.0  # a list of models needs no inference; without it, the run begins all the same


class _OpenJudge(Struct):
    """An open judge; the built-in one without `remote`."""

    spec: JudgeSpec
    remote: RemoteJudge | None

    @property
    def other_profile(self) -> AnyProfile | None:
        """The profile that the probe may find instead; None if the user has chosen one."""
        is_chosen = self.spec.config.judge.profile is not None
        if is_chosen or self.spec.source is ProfileSource.MODEL or not self.spec.compares:
            return None
        return schema_profile_of(self.spec.profile)

    def use_profile(self, profile: AnyProfile) -> None:
        """Ask with another profile, which the probe has found."""
        self.spec = replace(self.spec, profile=profile, source=ProfileSource.PROBE)
        if self.remote is not None:
            given = override_fields(profile.request_fields, self.spec.config.judge)
            self.remote.use_profile(profile, given)

    def set_context(self, reported: int | None, journal: Journal | None) -> None:
        """Set the context length: that of the settings, of the endpoints, or of the journal."""
        remote = self.remote
        settings = self.spec.config.judge
        if remote is None or settings.compat is not None:
            return
        length = reported if settings.max_model_len is None else settings.max_model_len
        label = None if journal is None else journal.find_judge(remote.name)
        other = self.other_profile
        if label is None and journal is not None and other is not None:
            # An earlier run may have found that the default profile gets no verdict.
            label = journal.find_judge(remote.name_with(other))
            if label is not None:
                self.use_profile(other)
        if length is None and label is not None:
            length = remote.take_over(label)
        remote.context_tokens = length or None
        self.spec = replace(self.spec, max_model_len=length or None)


class OpenJudges:
    """The open judges of a run; all its inputs share them, with their endpoints, limits and
    budget.
    """

    def __init__(
        self,
        specs: Sequence[JudgeSpec],
        options: OpenOptions,
        on_event: OnEvent,
        clients: AsyncExitStack | None,
    ) -> None:
        """Open the judges; make no call yet. `clients` closes their clients; without it, and if
        no judge is asked, they have no endpoints.
        """
        self.latencies = Latencies()
        endpoints = {base_url for spec in specs for base_url in spec.config.judge.base_url}
        self._connections = max(1, max_connections() // max(1, len(endpoints)))  # of each endpoint
        self._options = options
        self._on_event = on_event
        self._clients = None if options.recall.only_known else clients
        self._pools: dict[object, EndpointPool] = {}
        self._forms: dict[tuple[EndpointPool, str], RequestForm] = {}
        self._learned: dict[tuple[EndpointPool, str], LearnedContext] = {}
        limits = options.limits
        self._budget = Budget(
            limits.max_calls,
            limits.max_total_tokens,
            limits.max_cost,
            limits.price_in,
            limits.price_out,
        )
        self._settled = False
        self._probed = False
        self._probing = asyncio.Lock()
        self.judges = [self._open(spec) for spec in specs]

    def _open(self, spec: JudgeSpec) -> _OpenJudge:
        if spec.profile is None:
            return _OpenJudge(spec, None)
        remote = self._remote(spec, spec.profile, self._pool(spec))
        deadline_s = self._options.limits.deadline
        if deadline_s is not None and self._clients is not None:
            passed_s = time.monotonic() - self._options.started_s
            remote.set_deadline(deadline_s - passed_s, GRACE_S)
        return _OpenJudge(spec, remote)

    def _pool(self, spec: JudgeSpec) -> EndpointPool:
        judge = spec.config.judge
        limits = spec.config.limits
        key = self._options.api_keys.get(spec.config.name)
        identity = (judge.base_url, key, limits.concurrency)
        if identity in self._pools:
            self._pools[identity].serves_several = True
            return self._pools[identity]
        endpoints = []
        most = limits.max_in_flight or AUTO_CEILING
        if self._clients is not None:
            for base_url in judge.base_url:
                client = JudgeClient(
                    base_url,
                    key,
                    limits.connect_timeout,
                    most,
                    judge.http_client,
                )
                self._clients.push_async_exit(client)
                kind = Limit if limits.max_in_flight else AdaptiveLimit
                endpoints.append(Endpoint(base_url, client, kind(min(most, self._connections))))
        pool = EndpointPool(
            endpoints,
            limits.give_up_after,
            self._on_event,
            resumes=self._options.resumes,
            setting_names=spec.role.settings,
        )
        self._pools[identity] = pool
        return pool

    def _remote(self, spec: JudgeSpec, profile: AnyProfile, pool: EndpointPool) -> RemoteJudge:
        judge = spec.config.judge
        limits = spec.config.limits
        model = judge.model or ""
        return RemoteJudge(
            pool,
            profile,
            CallPolicy(limits.call_timeout, limits.comparison_timeout, limits.retries),
            self._budget,
            model=model,
            given=override_fields(profile.request_fields, judge),
            fixed=[parse_request_field(text)[0] for text in judge.request_field],
            is_probed=judge.probe and bool(pool.endpoints) and not self._options.recall.only_known,
            form=self._forms.setdefault((pool, model), RequestForm(model, self._on_event)),
            learned=self._learned.setdefault((pool, model), LearnedContext(model, self._on_event)),
            shortens=judge.max_model_len != 0 and judge.compat is None,
            judge_id=judge.judge_id,
            key=KeyMask(self._options.api_keys.get(spec.config.name)),
            latencies=self.latencies,
        )

    def with_journal(
        self,
        journal: Journal | None,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        store: ReplyStore | None = None,
    ) -> JudgeSet:
        """Return the judges in the order of the plan, each behind the journal. With a store,
        replies come from it and no calls are made.
        """
        lanes = max((len(pool.endpoints) for pool in self._pools.values()), default=1)
        judges: list[Judge] = []
        read: set[bytes] = set()

        def count(outcome: Outcome) -> None:
            """Count a reply for this run, although a group that waited for others finds it in the
            journal.
            """
            if outcome.journal_key in read:
                read.remove(outcome.journal_key)
                outcome.from_journal = False
            on_outcome(outcome)

        for remote in (judge.remote for judge in self.judges):
            if remote is None:
                judges.append(LexicalJudge())
                continue
            if journal is not None and (label := journal.find_judge(remote.name)) is not None:
                remote.take_over(label)
            if journal is None or store is None:
                judges.append(CachedJudge(remote, journal, self._options.recall))
            else:
                remote.probe = "skipped"
                judges.append(OfflineJudge(remote, journal, self._options.recall, store, read))
        return JudgeSet(judges, on_outcome if store is None else count, max(1, lanes))

    @property
    def is_remote(self) -> bool:
        """Whether any judge is asked over HTTP."""
        return any(judge.remote is not None for judge in self.judges)

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made."""
        return next((pool.stopped_by for pool in self._pools.values() if pool.stopped_by), None)

    @property
    def in_flight(self) -> int:
        """Calls in flight, of all judges."""
        return sum(pool.in_flight for pool in self._pools.values())

    @property
    def limit(self) -> int:
        """Calls that may be in flight, of all judges."""
        return sum(pool.limit for pool in self._pools.values())

    @property
    def specs(self) -> list[JudgeSpec]:
        """The judges, with their contexts and the results of their probes."""
        return [
            replace(each.spec, probe=None if each.remote is None else each.remote.probe)
            for each in self.judges
        ]

    async def is_reachable(self, timeout_s: float) -> bool:
        """Whether each judge has an endpoint that is up, or one that responds again."""
        for pool in self._pools.values():
            listings = (_list_models(each, timeout_s) for each in pool.endpoints)
            if not pool.is_up and all([await listing is None for listing in listings]):
                return False
        return True

    async def settle(self, journal: Journal | None = None) -> None:
        """Find the context of each judge, once, and announce the judges."""
        async with self._probing:
            if self._settled:
                return
            for judge in self.judges:
                if not isinstance(judge.spec.profile, ChatProfile):
                    judge.set_context(await self._reported_context(judge), journal)
            self._settled = True
            for judge in self.judges:
                spec = judge.spec
                endpoints = [] if judge.remote is None else judge.remote.pool.endpoints
                announced = JudgeEvent(
                    spec.config.name,
                    spec.config.judge.model,
                    None if spec.profile is None else spec.profile.name,
                    None if spec.profile is None else spec.source.value,
                    list(spec.config.judge.base_url),
                    sorted({each.client.library for each in endpoints}),
                    spec.compares,
                    spec.max_model_len,
                )
                self._on_event(announced)

    async def _reported_context(self, judge: _OpenJudge) -> int | None:
        remote = judge.remote
        settings = judge.spec.config.judge
        if remote is None or settings.max_model_len is not None or settings.compat is not None:
            return None
        timeout_s = min(_LISTING_S, self._call_timeout_s(judge))
        listings = await asyncio.gather(
            *(_list_models(each, timeout_s) for each in remote.pool.endpoints)
        )
        lengths = [_context_in(models, remote.model) for models in listings if models is not None]
        return min(filter(None, lengths), default=None)

    def _call_timeout_s(self, judge: _OpenJudge) -> float:
        timeout_s = judge.spec.config.limits.call_timeout
        return min(timeout_s, self._options.limits.deadline or timeout_s)

    async def probe(self, list_size: int = 2, *, finds_profile: bool = True) -> None:
        """Probe every remote judge, once, unless the options disable it; those that compare lists,
        with one of this size.

        Where the default profile gets no verdict, that with a JSON schema is tried, unless
        `finds_profile` is false, as where the run would not report it. `specs` then have the
        profile.
        """
        await self.settle()
        async with self._probing:
            for judge in self.judges:
                if judge.remote is not None and not judge.spec.config.judge.probe:
                    judge.remote.probe = "skipped"
            if self._probed or not self._options.probe or self._options.recall.only_known:
                return
            parts: list[str | Message] = []
            for judge in self.judges:
                for warning in await self._probe(judge, list_size, finds_profile=finds_profile):
                    parts += ["; ", warning]
            self._probed = True
            if self.is_remote:
                self._on_event(ProbeEvent(Message.of(*parts[1:]) if parts else None))

    async def _probe(
        self, judge: _OpenJudge, list_size: int, *, finds_profile: bool
    ) -> list[Message]:
        if judge.remote is None or not judge.remote.may_ask():
            return []
        try:
            warnings = await self._probe_profile(judge, judge.remote, list_size)
        except NoVerdictError as error:
            other = judge.other_profile
            if other is None or not finds_profile:
                raise
            default = judge.remote.profile.name
            found = FoundProfileEvent(judge.remote.model, default, other.name, error.reason)
            judge.use_profile(other)
            try:
                warnings = await self._probe_profile(judge, judge.remote, list_size)
            except WrongVerdictError:
                self._on_event(found)
                raise
            except JudgeError:
                raise error from None
            self._on_event(found)
        judge.remote.probe = "incomplete" if warnings else "passed"
        return warnings

    async def _probe_profile(
        self, judge: _OpenJudge, remote: RemoteJudge, list_size: int
    ) -> list[Message]:
        spec = judge.spec
        return await probe_judge(
            remote,
            self._call_timeout_s(judge),
            compares=spec.compares,
            responses=list_size if spec.compares and _shows_lists(spec) else 2,
            role=spec.role,
            name=None if spec.compares or spec.role is not JUDGE else spec.config.name,
            on_event=self._on_event,
        )


@asynccontextmanager
async def open_judges(
    specs: Sequence[JudgeSpec], options: OpenOptions, on_event: OnEvent = ignore_event
) -> AsyncIterator[OpenJudges]:
    """Open the judges of a run, and close their clients at the end."""
    async with AsyncExitStack() as clients:
        yield OpenJudges(specs, options, on_event, clients)


def idle_judges(
    specs: Sequence[JudgeSpec], options: OpenOptions, journal: Journal | None
) -> tuple[JudgeSet, list[JudgeSpec]]:
    """Return judges without endpoints, which render requests and recall outcomes but ask nothing,
    and their specs.
    """
    judges = OpenJudges(specs, options, ignore_event, None)
    for judge in judges.judges:
        judge.set_context(None, journal)
    return judges.with_journal(journal), judges.specs


def _context_in(models: Mapping[str, int | None], model: str) -> int | None:
    """Return the context of a model; llama.cpp serves its only model under any name."""
    only = next(iter(models.values())) if len(models) == 1 else None
    return models.get(model, only)


def _shows_lists(spec: JudgeSpec) -> bool:
    return isinstance(spec.profile, GradingProfile) and spec.profile.whole_group


async def _list_models(endpoint: Endpoint, timeout_s: float) -> dict[str, int | None] | None:
    """Return the models of an endpoint with their contexts; none if it lists none, None if it
    cannot be reached.
    """
    try:
        return await endpoint.client.list_models(timeout_s)
    except CallError as error:
        is_down = error.failure.kind in (FailureKind.CONNECTION, FailureKind.TIMEOUT)
        return None if is_down else {}
