"""The workers of a run, and the shards that they are asked about."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from genrm_cli import __version__
from genrm_cli.cluster.actors import Order, ShardResult, Worker, WorkerState
from genrm_cli.cluster.fleet_limits import FleetState, Limiter
from genrm_cli.cluster.start import in_one_line, watch_head
from genrm_cli.errors import SettingRef, StorageError, UsageError
from genrm_cli.groups.tasks import first_error_of
from genrm_cli.jobs.context import RunContext
from genrm_cli.judging.open_judges import AUTO_CEILING
from genrm_cli.judging.pacing.policy import Budget
from genrm_cli.metrics.progress import COUNTS, Nodes
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.verdicts import StoppedBy

_SHARDS_AT_ONCE = 2  # per worker: one is read while another is judged
_MOST_TRIES = 2
_MOST_FAILED_STARTS = 3
_LOOK_EVERY_S = 0.5
_ANSWER_LIMIT_S = 20.0
_SILENCE_LIMIT_S = 60.0
_START_LIMIT_S = 180.0  # a cold node takes a while to start its first worker
_STOP_LIMIT_S = 6.0
_SPENT = ("calls", "retries", "prompt_tokens", "completion_tokens")


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
    state: WorkerState | None = None
    heard_at_s: float = field(default_factory=time.monotonic)
    asking: int = 0
    is_gone: bool = False


class Fleet:
    """The workers of a run."""

    def __init__(self, order: Order, run: RunContext, nodes: Sequence[str], workers: int, shards: int) -> None:
        self._order = order
        self._run = run
        self._pace = _FleetPace()
        limits = run.settings.limits
        budget = Budget(limits.max_calls, limits.max_total_tokens, limits.max_cost, limits.price_in, limits.price_out)
        # On the driver's node, without which the run ends anyway.
        here = _on(ray.get_runtime_context().get_node_id())
        self._limiter = ray.remote(Limiter).options(**here).remote(budget, AUTO_CEILING)
        self._state = FleetState()
        self._members: list[_Member] = []
        self._watching = asyncio.TaskGroup()
        self._watches: list[asyncio.Task[None]] = []
        self._failed_starts = 0
        self._pending = deque(f"{number}/{shards}" for number in range(shards))
        self._shards = shards
        self._places = [nodes[number % len(nodes)] for number in range(min(workers, shards))]
        self._not_begun = run.progress.begin()
        self._tries = Counter[str]()
        self.exit_codes: list[int] = []
        run.on_event("fleet", {"workers": len(self._places), "nodes": len(nodes), "shards": shards})

    @property
    def stopped_by(self) -> StoppedBy | None:
        """The limit that stopped the run; None if none did."""
        return self._state.stopped_by

    async def ask(self) -> None:
        """Ask about all shards.

        Raises:
            GenrmError: the first error that would end the other shards, too.
        """
        try:
            async with self._watching:
                self._watch(watch_head(ray.get_runtime_context().gcs_address))
                self._watch(self._watch_limiter())
                for node in self._places:
                    self._start_worker(_on(node))
                await self._share_out()
                for each in self._watches:
                    each.cancel()
            await asyncio.gather(*map(self._hear, self._living), self._hear_limiter(), return_exceptions=True)
        except BaseExceptionGroup as errors:
            await self._stop()
            raise first_error_of(errors) from None
        except BaseException:
            await self._stop()
            raise
        finally:
            progress = self._run.progress
            progress.pace = progress.nodes = None
            for metrics in (self._not_begun, *(member.metrics for member in self._members)):
                progress.discard(metrics)
            spent = RunMetrics()  # without the results, which the concluding run counts
            for name in _SPENT:
                setattr(spent, name, sum(getattr(member.metrics, name) for member in self._members))
            progress.end(spent)

    async def _share_out(self) -> None:
        asking: dict[asyncio.Task[ShardResult], tuple[_Member, str]] = {}
        try:
            while self._pending or asking:
                while self._pending:
                    # A worker that has not started may never start.
                    free = [each for each in self._living if each.state and each.asking < _SHARDS_AT_ONCE]
                    if not free:
                        break
                    member = min(free, key=lambda each: each.asking)
                    shard = self._pending.popleft()
                    self._tries[shard] += 1
                    member.asking += 1
                    asking[asyncio.create_task(_answer(member.actor.ask.remote(shard)))] = member, shard
                if not asking:
                    await asyncio.sleep(_LOOK_EVERY_S)
                    continue
                done, _ = await asyncio.wait(asking, timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    member, shard = asking.pop(task)
                    member.asking -= 1
                    self._enter(task, member, shard)
        finally:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    def _enter(self, task: "asyncio.Task[ShardResult]", member: _Member, shard: str) -> None:
        """Record the result of a shard; if its worker was lost, requeue it for another."""
        try:
            result = task.result()
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # a bug
        except ray.exceptions.RayError as error:
            self._replace(member, error)
            if self._tries[shard] >= _MOST_TRIES:
                raise StorageError(
                    f"shard {shard}: {self._tries[shard]} workers were lost over it ({_brief(error)}). Give the nodes "
                    "more memory, or pass a larger ",
                    SettingRef("ray_shards"),
                    "; then run the same command again.",
                ) from None
            self._pending.append(shard)
            return
        if result.fatal is not None:
            raise result.fatal
        ended = {"shard": shard, "worker": member.name, "errors": result.errors}
        self._run.on_event("shard_failed" if result.errors else "shard_done", ended)
        self.exit_codes.append(result.exit_code)

    @property
    def _living(self) -> list[_Member]:
        return [member for member in self._members if not member.is_gone]

    def _watch(self, work: Coroutine[Any, Any, None]) -> None:
        self._watches.append(self._watching.create_task(work))

    def _start_worker(self, options: dict[str, Any]) -> None:
        name = f"worker-{len(self._members) + 1}"
        actor = ray.remote(Worker).options(**options).remote(name, self._order, self._limiter)
        member = _Member(name, actor, self._run.progress.begin())
        self._members.append(member)
        self._watch(self._watch_worker(member))

    def _replace(self, member: _Member, error: Exception) -> None:
        """Start another worker on any node."""
        if member.is_gone:
            return
        member.is_gone = True
        ray.kill(member.actor)  # it may just be unreachable
        if member.state is None:
            self._failed_starts += 1
            if self._failed_starts >= _MOST_FAILED_STARTS:
                reason = str(error).strip().rpartition("\n")[2].rstrip(".") or _brief(error)  # the end of a traceback
                raise StorageError(
                    f"{self._failed_starts} workers did not start, the last because of: {reason}. Install "
                    f"genrm-cli[ray] {__version__} on all nodes; Ray's logs there say more."
                )
        else:
            self._run.on_event("worker_lost", {"worker": member.name, "detail": _brief(error)})
        self._start_worker({"num_cpus": 0, "scheduling_strategy": "SPREAD"})

    async def _watch_worker(self, member: _Member) -> None:
        """Poll a worker; replace it if it is lost or does not answer."""
        while not member.is_gone:
            try:
                await self._hear(member)
            except ray.exceptions.RayTaskError as error:  # most likely an import failed
                raise StorageError(
                    f"{member.name} cannot run: {in_one_line(error.cause)} Install genrm-cli[ray] {__version__} on all "
                    "nodes."
                ) from None
            except (ray.exceptions.ActorDiedError, ray.exceptions.ActorUnschedulableError) as error:
                self._replace(member, error)
            except (ray.exceptions.RayError, TimeoutError) as error:
                limit_s = _START_LIMIT_S if member.state is None else _SILENCE_LIMIT_S
                if time.monotonic() - member.heard_at_s > limit_s:
                    self._replace(member, error)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _hear(self, member: _Member) -> None:
        """Ask a worker for its progress and events."""
        state: WorkerState = await asyncio.wait_for(_answer(member.actor.state.remote()), _ANSWER_LIMIT_S)
        if state.version != __version__:
            raise UsageError(
                f"{member.name} has genrm {state.version}, and this machine {__version__}; install one version."
            )
        if member.state is None:
            self._failed_starts = 0
        if not member.is_gone:
            member.state, member.heard_at_s = state, time.monotonic()
            for name in COUNTS:
                setattr(member.metrics, name, getattr(state.now, name))
            member.metrics.failures = Counter(state.now.failures)
        for event, fields in state.events:
            self._run.on_event(event, fields)

    async def _watch_limiter(self) -> None:
        """Keep the limiter informed, and show the progress."""
        while True:
            await self._hear_limiter()
            if self._state.stopped_by is not None:
                self._pending.clear()  # the concluding run finds what was not asked
            self._show()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _hear_limiter(self) -> None:
        deadline_s = self._run.settings.limits.deadline
        left_s = None if deadline_s is None else self._run.started_s + deadline_s - time.monotonic()
        try:
            self._state = await asyncio.wait_for(_answer(self._limiter.state.remote(left_s)), _ANSWER_LIMIT_S)
        except ray.exceptions.ActorDiedError as error:
            raise StorageError(
                f"the limiter of the workers was lost ({_brief(error)}). Run the same command again: what was answered "
                "is not asked again."
            ) from None
        except (ray.exceptions.RayError, TimeoutError):
            pass  # the next poll may succeed

    def _show(self) -> None:
        states = [member.state for member in self._members if member.state is not None]
        pace, progress = self._pace, self._run.progress
        pace.in_flight, pace.limit = self._state.in_flight, self._state.limit
        pace.latencies = Latencies()
        for state in states:
            pace.latencies.merge(state.latencies)
        # Shards are about equally large.
        begun = len(self._tries)
        for name in ("planned", "groups"):
            known = sum(getattr(member.metrics, name) for member in self._members)
            setattr(self._not_begun, name, known * (self._shards - begun) // max(1, begun))
        heard_since_s = time.monotonic() - _ANSWER_LIMIT_S
        answering = (member for member in self._living if member.heard_at_s >= heard_since_s)
        working = {member.state.node for member in answering if member.state is not None}
        progress.pace, progress.nodes = pace, Nodes(len(working), len(set(self._places)))

    async def _stop(self) -> None:
        """Let the workers write their journals before they end."""
        stopping = [asyncio.create_task(_answer(each.actor.stop.remote())) for each in self._living]
        if stopping:
            await asyncio.wait(stopping, timeout=_STOP_LIMIT_S)
        for each in stopping:
            each.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)


async def _answer(sent: Any) -> Any:
    return await asyncio.wrap_future(sent.future())


def _on(node: str) -> dict[str, Any]:
    return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def _brief(error: Exception) -> str:
    return type(error).__name__
