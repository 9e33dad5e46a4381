"""Which judge the settings ask for, ready to be asked."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from genrm_cli.errors import UsageError
from genrm_cli.groups.components import asks_for_verdicts, check_components
from genrm_cli.groups.find_profile import profile_of
from genrm_cli.groups.graders import DIVERSITY, graders_in
from genrm_cli.jobs.context import RunContext
from genrm_cli.judging.cached import CachedJudge
from genrm_cli.judging.client import JudgeAddress, JudgeClient, chat_url
from genrm_cli.judging.engine import EmbeddedJudge, Judge
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.budget import Budget
from genrm_cli.judging.pacing.descriptors import max_connections
from genrm_cli.judging.pacing.endpoint import Endpoint, FixedLimit
from genrm_cli.judging.pacing.limit import AdaptiveLimit
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.pacing.retry import RetryPolicy
from genrm_cli.judging.probe import probe_judge
from genrm_cli.judging.profiles.profile import AnyProfile
from genrm_cli.judging.remote import CallPolicy, RemoteJudge
from genrm_cli.metrics.latency import Latencies
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing import RING_STRATEGIES
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import JudgeConfig, judges_of
from genrm_cli.settings.resolve import concurrency_of

AUTO_CEILING = 4_096
GRACE_S = 60.0

NO_JUDGE = (
    "no judge is given. Pass --base-url http://HOST:PORT/v1 and --model NAME for a real one, "
    "or --judge lexical to try the pipeline with the embedded stand-in."
)


def check_judges(settings: Settings) -> None:
    """Refuse settings that name no judge, or one that cannot be asked, and rewards that cannot be computed.

    Raises:
        UsageError: says what to pass.
    """
    check_components(settings)
    if settings.budget is not None and settings.strategy not in RING_STRATEGIES:
        raise UsageError(
            f"--budget chooses the size of a ring, and --strategy {settings.strategy} has none; leave one of them out, "
            "or use --max-calls as a hard limit."
        )
    if settings.only_components and not settings.use_journal:
        raise UsageError("--only-components takes verdicts from the journal; leave --no-journal out.")
    seats = judges_of(settings) if asks_for_verdicts(settings) else ()
    for seat in (*seats, *(grader.seat for grader in graders_in(settings))):
        try:
            _check_judge(seat.settings)
        except UsageError as error:
            raise error if seat.settings is settings else UsageError(f"{seat.name}: {error}") from None
    for grader in graders_in(settings):
        if grader.seat.settings.judge is not None:
            table = "[diversity]" if grader.kind == DIVERSITY else f"[components.{grader.component}]"
            raise UsageError(
                f"{table} needs a real judge, not --judge {grader.seat.settings.judge}: "
                "give it a model and a base_url of its own."
            )


def _check_judge(settings: Settings) -> None:
    if settings.judge is not None:
        if settings.base_url:
            raise UsageError(f"--judge {settings.judge} and --base-url exclude each other; leave one of them out.")
        return
    if settings.only_components and settings.model is None:
        raise UsageError("--only-components needs --model: whose verdicts to take from the journal.")
    if not settings.base_url and not settings.only_components:
        raise UsageError(NO_JUDGE)
    if settings.model is None:
        raise UsageError("--base-url needs --model: the judge's name, as its server lists it under /v1/models.")
    for base_url in settings.base_url:
        chat_url(base_url)
    profile_of(settings)


@dataclass(slots=True)
class OpenJudge:
    """A judge that is open.

    Attributes:
        seat: which of the run's judges it is.
        remote: what is asked over HTTP; None for the embedded judge.
        pool: its endpoints; None for the embedded judge.
        compares: whether its verdicts must follow the better answer; False for a grader of components.
    """

    seat: JudgeConfig
    remote: RemoteJudge | None = None
    pool: EndpointPool | None = None
    compares: bool = True


@dataclass(slots=True)
class JudgeSet:
    """The judges of a run, open; all its inputs share them, with their endpoints, limits and budget.

    Attributes:
        judges: in the order of the seats.
        latencies: of all their calls.
    """

    judges: list[OpenJudge]
    latencies: Latencies = field(default_factory=Latencies)
    _probed: bool = False
    _probing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def judges_with(self, journal: Journal | None, settings: Settings) -> list[Judge]:
        """Return the judges in the order of the seats, each with a journal in front of it, if there is one."""
        return [_with_journal(judge.remote, journal, settings) for judge in self.judges]

    @property
    def is_remote(self) -> bool:
        """Whether anybody has to be asked over HTTP."""
        return any(judge.remote is not None for judge in self.judges)

    @property
    def stopped_by(self) -> str | None:
        """Why no more questions are asked."""
        return next((stopped for judge in self.judges if judge.pool and (stopped := judge.pool.stopped_by)), None)

    @property
    def in_flight(self) -> int:
        """Calls in flight, of all judges."""
        return sum(pool.in_flight for pool in self._pools())

    @property
    def limit(self) -> int:
        """Calls that may be in flight, of all judges."""
        return sum(pool.limit for pool in self._pools())

    def _pools(self) -> set[EndpointPool]:
        return {judge.pool for judge in self.judges if judge.pool is not None}

    def show_in(self, tally: RunMetrics) -> None:
        """Let a tally show how hard the judges are asked, and how long they take."""
        tally.pace = self
        tally.latencies = self.latencies

    def what_cut_short(self, tally: RunMetrics) -> str | None:
        """Say what kept some of an input's comparisons from being judged; None if nothing did.

        At the deadline calls are cut off, too; a budget only keeps calls from being made.
        """
        if tally.failures["not_asked"] and any(judge.seat.settings.only_components for judge in self.judges):
            return "only_components"
        is_cut = tally.failures["not_asked"] or (self.stopped_by == "deadline" and tally.failed)
        return self.stopped_by if is_cut else None

    async def probe(self, run: RunContext) -> None:
        """Try every real judge, once, unless told not to, or not to make calls.

        Raises:
            JudgeError: one cannot be used.
        """
        async with self._probing:
            if self._probed or not run.settings.probe or run.settings.only_components:
                return
            warnings = [warning for judge in self.judges if (warning := await _probe(judge, run))]
            self._probed = True
            if self.is_remote:
                run.on_event("probe", {"warning": "; ".join(warnings) or None})


def _with_journal(remote: RemoteJudge | None, journal: Journal | None, settings: Settings) -> Judge:
    if remote is None:
        return EmbeddedJudge()
    if journal is None:
        return remote
    return CachedJudge(remote, journal, only_failed=settings.only_failed, only_known=settings.only_components)


async def _probe(judge: OpenJudge, run: RunContext) -> str | None:
    if judge.remote is None or judge.pool is None or not judge.remote.may_ask():
        return None
    call_timeout_s = judge.seat.settings.call_timeout
    timeout_s = min(call_timeout_s, run.settings.deadline or call_timeout_s)
    return await probe_judge(
        judge.remote, judge.pool.endpoints, timeout_s, compares=judge.compares, on_event=run.on_event
    )


@asynccontextmanager
async def open_judges(run: RunContext) -> AsyncIterator[JudgeSet]:
    """Open the judges that the settings ask for; the deadline counts from when the run began.

    Raises:
        UsageError: the settings name none, or one that cannot be asked.
    """
    check_judges(run.settings)
    async with AsyncExitStack() as clients:
        opener = _Opener(run, clients)
        judges = [await opener.open(seat, profile) for seat, profile in _asked(run.settings)]
        for grader in judges[len(judges_of(run.settings)) :]:
            grader.compares = False
        yield JudgeSet(judges, opener.latencies)


def _asked(settings: Settings) -> list[tuple[JudgeConfig, AnyProfile | None]]:
    """Return who may be asked, judges first, then graders; without a profile nobody has to be."""
    is_asked = asks_for_verdicts(settings)
    judges: list[tuple[JudgeConfig, AnyProfile | None]] = [
        (seat, profile_of(seat.settings) if is_asked and seat.settings.judge is None else None)
        for seat in judges_of(settings)
    ]
    return judges + [(grader.seat, grader.profile) for grader in graders_in(settings)]


class _Opener:
    """Opens the judges of a run; those with the same endpoints, key and limit share them."""

    def __init__(self, run: RunContext, clients: AsyncExitStack) -> None:
        self.latencies = Latencies()
        self._run = run
        self._clients = clients
        self._allowance = _allowance(run.settings)
        self._pools: dict[tuple[object, ...], EndpointPool] = {}

    async def open(self, seat: JudgeConfig, profile: AnyProfile | None) -> OpenJudge:
        """Open one judge."""
        if profile is None:
            return OpenJudge(seat)
        settings = seat.settings
        pool = await self._pool(settings, self._run.api_keys.get(seat.name))
        remote = _remote_judge(seat, profile, pool, self._allowance, self.latencies)
        if settings.deadline is not None:
            remote.set_deadline(settings.deadline - (time.monotonic() - self._run.started_s), GRACE_S)
        return OpenJudge(seat, remote, pool)

    async def _pool(self, settings: Settings, key: str | None) -> EndpointPool:
        name = (settings.base_url, key, settings.ca_bundle, settings.concurrency)
        if name not in self._pools:
            endpoints = []
            for base_url in () if settings.only_components else settings.base_url:
                client = JudgeClient(_address(base_url, settings, key))
                await self._clients.enter_async_context(client)
                endpoints.append(Endpoint(base_url, client, _limit(settings)))
            self._pools[name] = EndpointPool(endpoints, settings.give_up_after, self._run.on_event)
        return self._pools[name]


def idle_judges(settings: Settings) -> list[Judge]:
    """Return the judges that the settings ask for, with no endpoint: they make questions but ask none."""
    nowhere = EndpointPool([], settings.give_up_after, lambda event, fields: None)
    return [
        EmbeddedJudge() if profile is None else _remote_judge(seat, profile, nowhere, _allowance(settings))
        for seat, profile in _asked(settings)
    ]


def _allowance(settings: Settings) -> Budget:
    return Budget(settings.max_calls, settings.max_tokens, settings.max_cost, settings.price_in, settings.price_out)


def _address(base_url: str, settings: Settings, api_key: str | None) -> JudgeAddress:
    return JudgeAddress(
        base_url=base_url,
        api_key=api_key,
        connect_timeout_s=settings.connect_timeout,
        max_connections=concurrency_of(settings) or AUTO_CEILING,
        ca_bundle=settings.ca_bundle,
    )


def _limit(settings: Settings) -> AdaptiveLimit | FixedLimit:
    concurrency = concurrency_of(settings)
    if concurrency is None:
        return AdaptiveLimit(min(AUTO_CEILING, max_connections()))
    return FixedLimit(min(concurrency, max_connections()))


def _remote_judge(
    seat: JudgeConfig, profile: AnyProfile, pool: EndpointPool, allowance: Budget, latencies: Latencies | None = None
) -> RemoteJudge:
    settings = seat.settings
    given = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_reply_tokens,
    }
    sampling: Mapping[str, float] = {name: value for name, value in given.items() if value is not None}
    return RemoteJudge(
        pool,
        profile,
        CallPolicy(
            call_timeout_s=settings.call_timeout,
            comparison_timeout_s=settings.comparison_timeout,
            retry=RetryPolicy(settings.retries),
            reask=settings.reask,
            hedge=settings.hedge,
        ),
        allowance,
        model=settings.model or "",
        sampling=sampling,
        judge_id=settings.judge_id,
        all_latencies=latencies,
    )
