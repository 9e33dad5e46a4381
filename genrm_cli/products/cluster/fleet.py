"""The workers of a run: one for each shard, replaced up to twice if it is lost.

The driver polls each worker for its progress. A worker that does not answer is killed before its
replacement starts, since one that is only unreachable would go on asking; both write to the journal
of the shard, so what was answered is not asked again. What a lost worker spent is taken off the
limits of the next one. The results of workers are dropped in the end, because the run that
concludes counts them from the journals; only what they spent remains.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from genrm_cli import __version__
from genrm_cli.errors import Message, StorageError, UsageError, counted, how_to_install
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.metrics.progress import COUNTS
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.products.cluster.start import in_one_line, living_nodes, watch_cluster
from genrm_cli.products.cluster.worker import Order, ShardResult, Worker, WorkerState
from genrm_cli.tasks import first_error_of
from genrm_cli.verdicts import StoppedBy

_POLL_S = 0.5  # the progress display is as smooth as that
_SILENCE_LIMIT_S = 60.0  # a worker answers at once, unless its node is lost or swaps
_START_LIMIT_S = 180.0  # a cold node takes a while to start its first worker
_STOP_LIMIT_S = 6.0  # below the ten seconds that `docker stop` waits
# Fields of `RunMetrics`.
_SPENT = ("calls", "prompt_tokens", "completion_tokens", "estimated_replies", "retries")


class FleetEvent(Event, frozen=True):
    """The workers start."""

    workers: int
    nodes: int

    def text(self) -> str:
        """Say how many."""
        return f"asking with {counted(self.workers, 'worker')} on {counted(self.nodes, 'node')}"


class WorkerLostEvent(Event, frozen=True):
    """A worker cannot be reached; another takes its shard over."""

    severity = Severity.WARNING
    shard: str
    detail: str

    def text(self) -> str:
        """Name the shard."""
        return f"the worker of shard {self.shard} was lost ({self.detail}); another continues"


class ShardEvent(Event, frozen=True):
    """A shard is asked about; `errors` are those of its inputs that failed."""

    shard: str
    errors: Sequence[Message]

    @property
    def level(self) -> Severity:
        """A warning if inputs failed."""
        return Severity.WARNING if self.errors else Severity.INFO

    def text(self) -> Message | None:
        """Say why inputs failed."""
        parts = [part for error in self.errors for part in ("; ", error)]
        return Message.of(f"shard {self.shard}: ", *parts[1:]) if parts else None


@dataclass(eq=False, slots=True)
class _FleetMember:
    """The worker of a shard as the driver sees it."""

    shard: str
    node: str
    metrics: RunMetrics
    actor: Any = None
    state: WorkerState | None = None
    lost: list[RunMetrics] = field(default_factory=list)
    result: ShardResult | None = None


class Fleet:
    """The workers of a run."""

    def __init__(self, order: Order, run: RunContext, nodes: Sequence[str], workers: int) -> None:
        self._order = order
        self._run = run
        self._spent = run.progress.begin()
        self._latest: dict[type[Event], Record] = {}
        self._members = [
            _FleetMember(f"{number}/{workers}", nodes[number % len(nodes)], run.progress.begin())
            for number in range(workers)
        ]
        run.on_event(FleetEvent(workers, min(workers, len(nodes))))

    @property
    def stopped_by(self) -> StoppedBy | None:
        """The limit that stopped the run; None if none did."""
        results = [member.result for member in self._members]
        return next(
            (each.stopped_by for each in results if each is not None and each.stopped_by), None
        )

    @property
    def exit_codes(self) -> list[int]:
        """The exit codes of the shards that ended."""
        return [member.result.exit_code for member in self._members if member.result is not None]

    async def ask(self) -> None:
        """Ask about all shards.

        Raises:
            GenrmError: the first error that would end the other shards, too.
        """
        try:
            async with asyncio.TaskGroup() as watching:
                watch = watching.create_task(
                    watch_cluster(ray.get_runtime_context().gcs_address, living_nodes)
                )
                async with asyncio.TaskGroup() as asking:
                    for member in self._members:
                        asking.create_task(self._ask_shard(member))
                watch.cancel()
        except BaseExceptionGroup as errors:
            await self._stop()
            raise first_error_of(errors) from None
        except BaseException:
            await self._stop()
            raise
        finally:
            for member in self._members:
                self._settle(member.metrics)
            self._run.progress.end(self._spent)

    async def _ask_shard(self, member: _FleetMember) -> None:
        """Ask about a shard on its node; if that worker is lost, on any node."""
        lost: list[str] = []
        # Ray may place the second worker on the node that was lost, before it notices the loss.
        for strategy in (
            NodeAffinitySchedulingStrategy(member.node, soft=False),
            "SPREAD",
            "SPREAD",
        ):
            # It only waits for the judge, so it reserves no CPU.
            options = {"num_cpus": 0, "scheduling_strategy": strategy}
            member.actor = ray.remote(Worker).options(**options).remote(self._order, member.shard)
            try:
                result = await self._work(member)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None  # a bug
            except (ray.exceptions.RayError, TimeoutError) as error:
                # The message about a worker that did not start ends with the reason.
                reason = "" if member.state else str(error).strip().rpartition("\n")[2]
                lost.append(reason or type(error).__name__)
                self._run.on_event(WorkerLostEvent(member.shard, lost[-1]))
                self._lose(member)
                continue
            if result.fatal is not None:
                raise result.fatal
            member.result = result
            self._run.on_event(ShardEvent(member.shard, result.errors))
            return
        raise StorageError(
            f"shard {member.shard}: its workers were lost ({'; '.join(lost)}). Check that all "
            f"nodes have genrm {__version__} ({how_to_install('ray')}) and enough memory; Ray's "
            "logs there say more. Then run the same command again: what was answered is not asked "
            "again."
        )

    async def _work(self, member: _FleetMember) -> ShardResult:
        """Return the result of a worker, which is heard until then.

        Raises:
            RayError: the worker was lost.
            TimeoutError: it did not start, or did not answer for too long.
        """
        try:
            await self._hear(member, _START_LIMIT_S)
        except ray.exceptions.RayTaskError as error:  # most likely an import failed
            raise StorageError(
                f"a node cannot run genrm: {in_one_line(error.cause)} Install genrm {__version__} "
                f"on all nodes: {how_to_install('ray')}."
            ) from None
        # Counted from here, because the clocks of nodes differ.
        deadline_s = self._run.settings.limits.deadline
        left_s = (
            None
            if deadline_s is None
            else max(0.001, self._run.started_s + deadline_s - time.monotonic())
        )
        asking: asyncio.Task[ShardResult] = asyncio.create_task(
            _answer(member.actor.ask.remote(left_s, member.lost))
        )
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=_POLL_S)
                await self._hear(member, _SILENCE_LIMIT_S)
            return await asking
        finally:
            asking.cancel()
            # The caller that lost the worker reports the reason.
            await asyncio.gather(asking, return_exceptions=True)

    async def _hear(self, member: _FleetMember, limit_s: float) -> None:
        """Ask a worker for its progress and events."""
        state: WorkerState = await asyncio.wait_for(_answer(member.actor.state.remote()), limit_s)
        if state.version != __version__:
            raise UsageError(
                f"a node has genrm {state.version}, and this machine {__version__}; install one "
                f"version: {how_to_install('ray')}."
            )
        member.state = state
        for name in COUNTS:
            setattr(member.metrics, name, getattr(state.now, name))
        member.metrics.failures_by_kind = Counter(state.now.failures_by_kind)
        for event in state.events:
            # What concerns all workers, such as an endpoint that is down, is said once.
            if self._latest.get(type(event)) != event.as_dict():
                self._latest[type(event)] = event.as_dict()
                self._run.on_event(event)

    def _lose(self, member: _FleetMember) -> None:
        """Forget a worker, except what it spent; it may just be unreachable, and must not ask any
        longer.
        """
        # It may only be unreachable: two workers would ask for the same answers.
        ray.kill(member.actor)
        self._settle(member.metrics)
        member.lost.append(member.metrics)
        member.metrics = self._run.progress.begin()
        member.state = None

    def _settle(self, metrics: RunMetrics) -> None:
        """Keep what a worker spent, without its results, which the concluding run counts."""
        self._run.progress.discard(metrics)
        for name in _SPENT:
            setattr(self._spent, name, getattr(self._spent, name) + getattr(metrics, name))

    async def _stop(self) -> None:
        """Let the workers write their journals before they end."""
        living = [
            each.actor for each in self._members if each.state is not None and each.result is None
        ]
        stopping = [asyncio.create_task(_answer(actor.stop.remote())) for actor in living]
        if stopping:
            await asyncio.wait(stopping, timeout=_STOP_LIMIT_S)
        for each in stopping:
            each.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)


async def _answer(sent: Any) -> Any:
    return await asyncio.wrap_future(sent.future())
