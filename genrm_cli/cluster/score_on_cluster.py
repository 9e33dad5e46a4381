"""Score inputs on a Ray cluster: workers ask about shards, and this process writes the outputs."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from genrm_cli import __version__
from genrm_cli.cluster.limiter import Limiter
from genrm_cli.cluster.messages import FleetState
from genrm_cli.cluster.start import cluster
from genrm_cli.cluster.worker import Order, ShardResult, Worker, WorkerState
from genrm_cli.errors import StorageError, UsageError, worst_exit_code
from genrm_cli.groups.check import check_settings
from genrm_cli.jobs.batch import BatchReport, Held, prove_writable, score_inputs
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.leasing import leased
from genrm_cli.jobs.due.planning import Status, iter_decisions
from genrm_cli.jobs.journaling.journals import asks_anybody, check_journal_place
from genrm_cli.judging.open_judges import AUTO_CEILING, OnEvent, open_judges
from genrm_cli.judging.pacing.budget import Budget
from genrm_cli.judging.profiles.profile import AnyProfile
from genrm_cli.metrics.latency import Latencies
from genrm_cli.metrics.progress import Nodes
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import Settings, changed
from genrm_cli.storage.formats.location import is_s3, is_stream
from genrm_cli.storage.leases import HeldLease, Leases

_SHARDS_A_WORKER = 4  # so that little is left to do again when a worker dies
_SHARDS_AT_ONCE = 2  # of a worker: one is read while another is asked about
_MOST_TRIES = 2
_LOOK_EVERY_S = 0.5
_ANSWER_LIMIT_S = 20.0
_SILENCE_LIMIT_S = 180.0  # a cold node takes a while to start its first worker
_STOP_LIMIT_S = 6.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How to spread a run.

    Attributes:
        address: see `start.cluster`.
        workers: number of workers; None for one on each node.
        shards: number of shards; None for some for each worker.
    """

    address: str
    workers: int | None = None
    shards: int | None = None


class _FleetPace:
    """The load of the whole fleet, for the progress display."""

    def __init__(self) -> None:
        self.in_flight = self.limit = 0
        self.latencies = Latencies()


@dataclass(eq=False, slots=True)
class _Member:
    """A worker as the driver sees it."""

    name: str
    actor: Any
    metrics: RunMetrics
    asking: int = 0
    heard_at_s: float = field(default_factory=time.monotonic)
    node: str | None = None
    is_gone: bool = False
    latencies: Latencies = field(default_factory=Latencies)


async def score_on_cluster(
    inputs: Sequence[str], run: RunContext, options: ClusterOptions, report: BatchReport
) -> BatchReport:
    """Ask about all groups on a cluster, then conclude here.

    Raises:
        GenrmError: see `score_inputs`; also if the cluster cannot be used.
        CancelledError: the run was interrupted, by SIGTERM too.
    """
    _check(inputs, run.settings)
    run = replace(run, on_event=_told_once(run.on_event))
    asked = RunMetrics()
    codes = [0]
    stopped_by = None
    async with _held(inputs, run) as held:
        outputs = frozenset(output for output, lease in held.items() if not isinstance(lease, HeldLease))
        if outputs:
            async with cancelled_by_signals():
                with_roles = await _choose_profiles(run)
            with cluster(options.address) as nodes:
                fleet = _Fleet(
                    Order(run.settings, tuple(inputs), _shared_folder(inputs, run.settings), with_roles, outputs),
                    run,
                    options,
                    nodes,
                )
                async with cancelled_by_signals():
                    codes = await fleet.ask()
            asked, stopped_by = fleet.spent(), fleet.stopped_by
        run.progress.pace = run.progress.nodes = None
        concluding = replace(run, settings=changed(run.settings, conclude=True), shards_stopped_by=stopped_by)
        await score_inputs(inputs, concluding, report, held=held)
    report.exit_code = worst_exit_code([report.exit_code, *codes])
    run.progress.end(asked)
    return report


@asynccontextmanager
async def _held(inputs: Sequence[str], run: RunContext) -> AsyncIterator[Held]:
    """Lease the outputs of all inputs that are due, for the whole run."""

    def find_due() -> dict[str, bool]:
        due = [each for each in iter_decisions(inputs, run) if each.status is Status.SCORE]
        prove_writable([each.task for each in due], run)
        return {each.task.places.scored: each.can_be_leased and run.settings.storage.leases for each in due}

    async with AsyncExitStack() as opened:
        async with cancelled_by_signals():
            due = await run.in_thread(find_due)
            leases = Leases(run.s3, run.settings.storage.lease_expiry)
            wanted = [output for output, is_leased in due.items() if is_leased]
            found = await opened.enter_async_context(leased(wanted, leases, run))
        yield dict.fromkeys(due) | found


def _shared_folder(inputs: Sequence[str], settings: Settings) -> str | None:
    """Return the folder that relative paths refer to on all nodes; None if no path is local."""
    paths = (*inputs, settings.journal.journal or "", settings.output.output or "s3://")
    return None if all(map(is_s3, paths)) else str(Path.cwd())


def _check(inputs: Sequence[str], settings: Settings) -> None:
    """Refuse what cannot be shared out.

    Raises:
        UsageError: says what to change.
    """
    check_settings(settings)
    check_journal_place(settings)
    if not asks_anybody(settings):
        raise UsageError("--ray shares out the calls of a judge, and this run makes none; drop --ray.")
    if settings.journal.shard is not None or settings.journal.conclude:
        raise UsageError("--ray makes shards and concludes them itself; drop --shard and --conclude.")
    if not settings.journal.use_journal:
        raise UsageError("workers hand their verdicts over in journals; drop --no-journal.")
    if settings.rewards.only_components:
        raise UsageError("--only-components makes no call; drop --ray.")
    if any(map(is_stream, inputs)):
        raise UsageError("workers cannot read stdin; pass files or s3://...")


async def _choose_profiles(run: RunContext) -> tuple[bool, ...]:
    """Probe the judges once, for all workers; return which have the profile with roles."""
    roles: list[AnyProfile | None] = [spec.roles for spec in run.judge_specs()]
    async with open_judges(run.judge_specs(), run.open_options, run.on_event) as judges:
        await judges.probe()
        return tuple(
            wanted is not None and spec.profile is wanted for spec, wanted in zip(judges.specs, roles, strict=True)
        )


def _told_once(on_event: OnEvent) -> OnEvent:
    """Leave out repeated events: the probe, the workers and the run that concludes notice the same."""
    told = set()

    def tell(event: str, fields: dict[str, Any]) -> None:
        what = event, fields.get("name"), fields.get("reason")
        if event not in ("judge", "stopped") or what not in told:
            told.add(what)
            on_event(event, fields)

    return tell


class _Fleet:
    """The workers of a run, and the shards that they are asked about."""

    def __init__(self, order: Order, run: RunContext, options: ClusterOptions, nodes: Sequence[str]) -> None:
        self._order = order
        self._run = run
        self._nodes = nodes
        self._pace = _FleetPace()
        limits = run.settings.limits
        budget = Budget(limits.max_calls, limits.max_total_tokens, limits.max_cost, limits.price_in, limits.price_out)
        remote = ray.remote(Limiter).options(
            name=f"genrm-limiter-{time.time_ns()}", num_cpus=0, max_restarts=-1, max_task_retries=0
        )
        self._limiter = remote.remote(budget, AUTO_CEILING)
        self._state = FleetState()
        self._members: list[_Member] = []
        self._started = 0
        workers = options.workers or len(nodes)
        count = options.shards or _SHARDS_A_WORKER * workers
        self._pending = deque(f"{number}/{count}" for number in range(count))
        self._count = count
        self._not_begun = run.progress.begin()
        self._tries = Counter[str]()
        self._told: dict[object, str] = {}
        run.on_event("fleet", {"workers": min(workers, count), "nodes": len(nodes), "shards": count})
        self._nodes_used = min(workers, count, len(nodes))
        for _ in range(min(workers, count)):
            self._start_worker()

    @property
    def stopped_by(self) -> str | None:
        """The limit that stopped the run; None if none did."""
        return self._state.stopped_by

    def spent(self) -> RunMetrics:
        """Return what was spent on calls, without the results, which the run that concludes counts."""
        spent = RunMetrics()
        self._run.progress.discard(self._not_begun)
        for member in self._members:
            for name in ("calls", "retries", "prompt_tokens", "completion_tokens"):
                setattr(spent, name, getattr(spent, name) + getattr(member.metrics, name))
            self._run.progress.discard(member.metrics)
        return spent

    async def ask(self) -> list[int]:
        """Ask about all shards; return their exit codes.

        Raises:
            GenrmError: the first error that would end the other shards, too.
        """
        looking = asyncio.create_task(self._look_regularly())
        asking: dict[asyncio.Task[ShardResult], tuple[_Member, str]] = {}
        codes: list[int] = []
        try:
            while self._pending or asking:
                while self._pending and (member := self._free_member()) is not None:
                    shard = self._pending.popleft()
                    self._tries[shard] += 1
                    member.asking += 1
                    asking[asyncio.create_task(_answer(member.actor.ask.remote(shard)))] = member, shard
                done, _ = await asyncio.wait(
                    (*asking, looking), timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
                )
                if looking in done:
                    looking.result()
                for task in [task for task in asking if task in done]:
                    member, shard = asking.pop(task)
                    member.asking -= 1
                    codes.append(self._enter(task, member, shard))
            await self._look()
        except BaseException:
            await self._stop()
            raise
        finally:
            for each in (looking, *asking):
                each.cancel()
            await asyncio.gather(looking, *asking, return_exceptions=True)
        return codes

    def _enter(self, task: "asyncio.Task[ShardResult]", member: _Member, shard: str) -> int:
        """Note the result of a shard; one whose worker died goes to another."""
        try:
            result = task.result()
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # a bug
        except ray.exceptions.RayError as error:
            self._bury(member)
            self._run.on_event("worker_died", {"worker": member.name, "shard": shard, "detail": _brief(error)})
            if self._tries[shard] >= _MOST_TRIES:
                raise StorageError(
                    f"shard {shard}: {self._tries[shard]} workers died over it ({_brief(error)}). Give the nodes more "
                    "memory, or pass a larger --ray-shards; then run the same command again."
                ) from None
            self._pending.append(shard)
            return 0
        if result.fatal is not None:
            raise result.fatal
        ended = {"shard": shard, "worker": member.name, "errors": result.errors}
        self._run.on_event("shard_failed" if result.errors else "shard_done", ended)
        return result.exit_code

    def _free_member(self) -> _Member | None:
        free = (each for each in self._members if not each.is_gone and each.asking < _SHARDS_AT_ONCE)
        return min(free, key=lambda member: member.asking, default=None)

    def _start_worker(self) -> None:
        node = self._nodes[self._started % len(self._nodes)]
        self._started += 1
        name = f"worker-{self._started}"
        remote = ray.remote(Worker).options(
            num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True)
        )
        actor = remote.remote(name, self._order, self._limiter)
        self._members.append(_Member(name, actor, self._run.progress.begin()))

    def _bury(self, member: _Member) -> None:
        """Replace a worker that died."""
        if not member.is_gone:
            member.is_gone = True
            ray.kill(member.actor)  # it may only be out of reach
            self._start_worker()

    async def _look_regularly(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self) -> None:
        """Update the progress, and end workers that do not answer."""
        living = [member for member in self._members if not member.is_gone]
        states = await asyncio.gather(*(_in_time(member.actor.state.remote()) for member in living))
        now_s = time.monotonic()
        for member, state in zip(living, states, strict=True):
            if state is not None:
                member.heard_at_s = now_s
                self._update(member, state)
            elif now_s - member.heard_at_s > _SILENCE_LIMIT_S:
                ray.kill(member.actor)  # its shards fail, and go to others
        await self._look_at_limiter()
        if self._state.stopped_by is not None:
            self._pending.clear()
        self._pace.in_flight, self._pace.limit = self._state.in_flight, self._state.limit
        # Shards are about equally large.
        begun, planned = len(self._tries), sum(member.metrics.planned for member in self._members)
        self._not_begun.planned = planned * (self._count - begun) // max(1, begun)
        latencies = Latencies()
        for member in self._members:
            latencies.merge(member.latencies)
        self._pace.latencies = latencies
        self._run.progress.pace = self._pace
        working = {member.node for member in living if member.node is not None and not member.is_gone}
        self._run.progress.nodes = Nodes(len(working), self._nodes_used)

    async def _look_at_limiter(self) -> None:
        deadline_s = self._run.settings.limits.deadline
        left_s = None if deadline_s is None else self._run.started_s + deadline_s - time.monotonic()
        state = await _in_time(self._limiter.state.remote(self._state.spending, left_s))
        if state is not None:
            self._state = state

    def _update(self, member: _Member, state: WorkerState) -> None:
        if state.version != __version__:
            raise UsageError(
                f"{member.name} has genrm {state.version}, and this machine {__version__}; install one version."
            )
        for name, count in state.counts.items():
            setattr(member.metrics, name, count)
        member.metrics.failures = Counter(state.failures)
        member.latencies = state.latencies
        member.node = state.node
        for event, fields in state.events:
            self._tell(event, fields)

    def _tell(self, event: str, fields: dict[str, Any]) -> None:
        """Tell of an event once, whichever workers notice it."""
        about = fields.get("endpoint", event)
        if self._told.get(about) != event:
            self._told[about] = event
            self._run.on_event(event, fields)

    async def _stop(self) -> None:
        """Let the workers write their journals before they end."""
        stopping = [each.actor.stop.remote() for each in self._members if not each.is_gone]
        await asyncio.gather(*(_in_time(each, _STOP_LIMIT_S) for each in stopping))


async def _in_time(sent: Any, limit_s: float = _ANSWER_LIMIT_S) -> Any:
    """Return an actor's answer; None if there was none in time."""
    try:
        return await asyncio.wait_for(_answer(sent), limit_s)
    except (ray.exceptions.RayError, TimeoutError):
        return None


async def _answer(sent: Any) -> Any:
    return await asyncio.wrap_future(sent.future())


def _brief(error: Exception) -> str:
    return type(error).__name__
