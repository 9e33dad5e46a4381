"""The open judges of a run: probed, named with their profiles, and given to the engine."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from genrm_cli.errors import Message
from genrm_cli.judging.client import CallError
from genrm_cli.judging.engine import CachedJudge, Judge, JudgeSet, LexicalJudge
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import ProfileSource
from genrm_cli.judging.offline import OfflineJudge, ReplyStore
from genrm_cli.judging.opening.judge_spec import JudgeSpec, OpenOptions
from genrm_cli.judging.opening.probe import JUDGE, ProbeAnswer, answer_to_roles, probe_judge
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.judge_events import JudgeEvent, ProbeEvent
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.profiles.profile import ChatProfile
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.verdicts import FailureKind, Outcome, StoppedBy

_LISTING_S = 10.0  # a list of models needs no inference; without it, the run begins all the same


@dataclass(slots=True)
class OpenJudge:
    """An open judge, built-in without `remote`; `with_roles` is it with the profile `roles`, until
    one is chosen.
    """

    spec: JudgeSpec
    remote: RemoteJudge | None = None
    with_roles: RemoteJudge | None = None
    verdict_with_roles: ProbeAnswer | None = None

    def choose_roles(self, answer: ProbeAnswer | None = None) -> None:
        """Use the profile `roles` from now on."""
        self.spec = replace(self.spec, profile=self.spec.roles, source=ProfileSource.PROBE)
        self.remote = self.with_roles
        self.with_roles = None
        self.verdict_with_roles = answer

    def find_context(self, reported: int | None, journal: Journal | None) -> None:
        """Set the context length: that of the settings, of the endpoints, or of the journal."""
        remote = self.remote
        settings = self.spec.config.judge
        if remote is None or settings.compat is not None:
            return
        length = reported if settings.max_model_len is None else settings.max_model_len
        label = None if journal is None else journal.find_judge(remote.name)
        if length is None and label is not None:
            length = remote.take_over(label)
        self.spec = replace(self.spec, max_model_len=length or None)
        if length:
            remote.set_context(length)


class OpenJudges:
    """The open judges of a run; all its inputs share them, with their endpoints, limits and
    budget.
    """

    def __init__(
        self, judges: list[OpenJudge], latencies: Latencies, options: OpenOptions, on_event: OnEvent
    ) -> None:
        self.latencies = latencies
        self._judges = judges
        self._pools = list(
            dict.fromkeys(judge.remote.pool for judge in judges if judge.remote is not None)
        )
        self._options = options
        self._on_event = on_event
        self._settled = self._probed = False
        self._probing = asyncio.Lock()

    def with_journal(
        self,
        journal: Journal | None,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        store: ReplyStore | None = None,
    ) -> JudgeSet:
        """Return the judges in the order of the plan, each behind the journal; with a store, nobody
        is called.
        """
        lanes = max((len(pool.endpoints) for pool in self._pools), default=1)
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

        for remote in (judge.remote for judge in self._judges):
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
        """The judges, with the profiles that were chosen for them and the results of their
        probes.
        """
        return [
            replace(each.spec, probe=None if each.remote is None else each.remote.probe)
            for each in self._judges
        ]

    async def is_reachable(self, timeout_s: float) -> bool:
        """Whether each judge has an endpoint that is up, or one that responds again."""
        return all([pool.is_up or await _responds(pool, timeout_s) for pool in self._pools])

    async def settle(self, journal: Journal | None = None) -> None:
        """Choose the profile of each judge whose model is not known, and its context, once;
        announce the judges.

        The journal shows how such a judge was asked before. Otherwise it is asked once with the
        GenRM roles: only a model trained on them answers with a verdict, because nothing else in
        the request asks for one."""
        async with self._probing:
            if self._settled:
                return
            for judge in self._judges:
                await self._settle(judge, journal)
                if not isinstance(judge.spec.profile, ChatProfile):
                    await self._find_context(judge, journal)
            self._settled = True
            for judge, spec in zip(self._judges, self.specs, strict=True):
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

    async def _settle(self, judge: OpenJudge, journal: Journal | None) -> None:
        if judge.with_roles is None or judge.remote is None:
            return
        if journal is not None and journal.find_judge(judge.with_roles.name):
            judge.choose_roles()
            return
        is_known = journal is not None and journal.find_judge(judge.remote.name) is not None
        if (
            not is_known
            and self._options.probe
            and not self._options.recall.only_known
            and judge.remote.may_ask()
        ):
            timeout_s = self._call_timeout_s(judge)
            answer = await answer_to_roles(judge.with_roles, timeout_s, self._on_event)
            if answer is not None:
                judge.choose_roles(answer)

    async def _find_context(self, judge: OpenJudge, journal: Journal | None) -> None:
        lengths: list[int | None] = []
        settings = judge.spec.config.judge
        if judge.remote is not None and settings.max_model_len is None and settings.compat is None:
            timeout_s = min(_LISTING_S, self._call_timeout_s(judge))
            endpoints = judge.remote.pool.endpoints
            lengths = await asyncio.gather(
                *(_context_of(each, judge.remote.model, timeout_s) for each in endpoints)
            )
        judge.find_context(min(filter(None, lengths), default=None), journal)

    def _call_timeout_s(self, judge: OpenJudge) -> float:
        timeout_s = judge.spec.config.limits.call_timeout
        return min(timeout_s, self._options.limits.deadline or timeout_s)

    async def probe(self) -> None:
        """Probe every remote judge, once, unless the options disable it."""
        await self.settle()
        async with self._probing:
            for judge in self._judges:
                if judge.remote is not None and not judge.spec.config.judge.probe:
                    judge.remote.probe = "skipped"
            if self._probed or not self._options.probe or self._options.recall.only_known:
                return
            parts = [
                part
                for judge in self._judges
                for warning in await self._probe(judge)
                for part in ("; ", warning)
            ]
            self._probed = True
            if self.is_remote:
                self._on_event(ProbeEvent(Message.of(*parts[1:]) if parts else None))

    async def _probe(self, judge: OpenJudge) -> list[Message]:
        if judge.remote is None or not judge.remote.may_ask():
            return []
        spec = judge.spec
        warnings = await probe_judge(
            judge.remote,
            self._call_timeout_s(judge),
            compares=spec.compares,
            role=spec.role,
            name=None if spec.compares or spec.role is not JUDGE else spec.config.name,
            known=judge.verdict_with_roles,
            on_event=self._on_event
            if spec.roles is None
            else ignore_event,  # announced when it was chosen
        )
        judge.remote.probe = "incomplete" if warnings else "passed"
        return warnings


async def _context_of(endpoint: Endpoint, model: str, timeout_s: float) -> int | None:
    """Return the context length of a model as an endpoint tells it; None if it does not."""
    try:
        return (await endpoint.client.list_models(timeout_s)).get(model)
    except CallError:
        return None


async def _responds(pool: EndpointPool, timeout_s: float) -> bool:
    for endpoint in pool.endpoints:
        try:
            await endpoint.client.list_models(timeout_s)
        except CallError as error:
            if error.failure.kind in (FailureKind.CONNECTION, FailureKind.TIMEOUT):
                continue
        return True
    return False
