"""Open the judges of a run: endpoints, limits, budget."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.judge_spec import JudgeSpec, OpenOptions
from genrm_cli.judging.opening.opened import OpenJudge, OpenJudges
from genrm_cli.judging.pacing.descriptors import max_connections
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.limit import AdaptiveLimit, Limit
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import GRACE_S, EndpointPool
from genrm_cli.judging.profiles.profile import AnyProfile
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.request_form import RequestForm, override_fields
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.settings.kinds import parse_request_field
from genrm_cli.settings.panel import JudgeConfig

AUTO_CEILING = 4_096  # a bound on connections, far above the capacity of usual servers


@asynccontextmanager
async def open_judges(
    specs: Sequence[JudgeSpec], options: OpenOptions, on_event: OnEvent = ignore_event
) -> AsyncIterator[OpenJudges]:
    """Open the judges of a run. Judges with the same endpoints, key and limit share them."""
    async with AsyncExitStack() as clients:
        opener = _Opener(specs, options, on_event)
        judges = [await opener.open(spec, clients) for spec in specs]
        yield OpenJudges(judges, opener.latencies, options, on_event)


def idle_judges(
    specs: Sequence[JudgeSpec], options: OpenOptions, journal: Journal | None
) -> tuple[JudgeSet, list[JudgeSpec]]:
    """Return judges without endpoints, which render requests and recall outcomes but ask nothing,
    and their specs.
    """
    opener = _Opener(specs, options, ignore_event)
    nowhere = EndpointPool([], options.limits.give_up_after, ignore_event)
    remotes = [
        None if spec.profile is None else opener.remote(spec, spec.profile, nowhere)
        for spec in specs
    ]
    judges = list(map(OpenJudge, specs, remotes))
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
        self._forms: dict[tuple[EndpointPool, str], RequestForm] = {}
        limits = options.limits
        prices = limits.price_in, limits.price_out
        self._budget = Budget(limits.max_calls, limits.max_total_tokens, limits.max_cost, *prices)

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

    async def _pool(
        self, config: JudgeConfig, key: str | None, clients: AsyncExitStack
    ) -> EndpointPool:
        judge = config.judge
        limits = config.limits
        options = self._options
        identity = (judge.base_url, key, judge.ca_bundle, limits.concurrency)
        if identity in self._pools:
            return self._pools[identity]
        endpoints = []
        for base_url in () if options.recall.only_known else judge.base_url:
            most = limits.max_in_flight or AUTO_CEILING
            client = JudgeClient(
                base_url,
                key,
                limits.connect_timeout,
                most,
                judge.ca_bundle,
                judge.http_client,
            )
            await clients.enter_async_context(client)
            limit: Limit
            if limits.max_in_flight is None:
                limit = AdaptiveLimit(min(AUTO_CEILING, self._connections))
            else:
                limit = Limit(min(limits.max_in_flight, self._connections))
            endpoints.append(Endpoint(base_url, client, limit))
        pool = EndpointPool(
            endpoints, limits.give_up_after, self._on_event, resumes=options.resumes
        )
        self._pools[identity] = pool
        return pool

    def remote(self, spec: JudgeSpec, profile: AnyProfile, pool: EndpointPool) -> RemoteJudge:
        judge = spec.config.judge
        limits = spec.config.limits
        model = judge.model or ""
        return RemoteJudge(
            pool,
            profile,
            CallPolicy(
                limits.call_timeout, limits.comparison_timeout, limits.retries, limits.reask
            ),
            self._budget,
            model=model,
            given=override_fields(profile.request_fields, judge),
            fixed=[parse_request_field(text)[0] for text in judge.request_field],
            is_probed=judge.probe and bool(pool.endpoints) and not self._options.recall.only_known,
            form=self._forms.setdefault((pool, model), RequestForm(model, self._on_event)),
            judge_id=judge.judge_id,
            latencies=self.latencies,
        )
