"""Collect episodes: play many sessions at once, and write the episodes in order, all or nothing."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product

from genrm_cli.errors import UsageError, naming
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.leasing import leased
from genrm_cli.jobs.journals import check_journal_place, open_journal_at, turns_path
from genrm_cli.json_types import Record
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.event import Event
from genrm_cli.rollouts.redaction import redactor_of
from genrm_cli.scored.describe_run import versions_record
from genrm_cli.sessions.collected_files import (
    SUMMARY_FORMAT,
    CollectOptions,
    places_of,
    read_summary,
)
from genrm_cli.sessions.counts import CollectCounts
from genrm_cli.sessions.environment import (
    FAILURES,
    PRIVATE_DATA,
    AnyEnvironment,
    End,
    EpisodeScenario,
)
from genrm_cli.sessions.environments import ScenarioSet, digest_of_json
from genrm_cli.sessions.episode import (
    EpisodeSlot,
    Played,
    RunOrigin,
    client_record,
    episode_record,
    play_episode,
)
from genrm_cli.sessions.session_agents import Answer, RunStoppedError, open_agents
from genrm_cli.sessions.session_judge import (
    SessionJudge,
    open_session_judge,
    plumbing_reward,
    with_gates,
)
from genrm_cli.storage.encoding.records import render_document, render_record
from genrm_cli.storage.leases import Lease
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.spool import Pieces, Spool
from genrm_cli.tasks import first_error_of

_PROGRESS_EVERY_S = 30.0  # sessions of slow models end minutes apart
# More than any endpoint takes at once: `concurrency` paces the calls, this bounds the memory.
_IN_FLIGHT = 512


@dataclass(frozen=True, slots=True)
class CollectingEvent(Event):
    """The progress of a collection."""

    sessions: int
    planned: int
    turns: int
    calls: int

    def text(self) -> str:
        """Describe the progress."""
        return (
            f"sessions {self.sessions:,}/{self.planned:,}, {self.turns:,} turns, "
            f"{self.calls:,} calls"
        )


@dataclass(frozen=True, slots=True)
class SessionEvent(Event):
    """An episode has ended."""

    index: int
    group: str
    end_reason: str
    turns: int


@dataclass(frozen=True, slots=True)
class CollectReport:
    """The result of a run: its summary, and its counters; None if the outputs were up to date."""

    summary: Record
    counts: CollectCounts | None = None


async def collect(
    environment: AnyEnvironment, scenarios: ScenarioSet, options: CollectOptions, run: RunContext
) -> CollectReport:
    """Play all episodes of some scenarios and write them.

    Raises:
        GenrmError: a subclass for each kind of failure. After `TooManyUnscoredError`, the outputs
            exist but lack episodes; running again continues. After any other, no output has
            appeared.
        CancelledError: the run was interrupted; the journal has every turn that was answered.
    """
    check_journal_place(run.settings)
    work = _Collecting(environment, scenarios, options, run)
    output = options.output
    async with cancelled_by_signals():
        await run.in_thread(run.store.at(output).make_folder)  # the lease needs it, too
        async with leased([output], run) as leases:
            if (known := await run.in_thread(work.find_current)) is not None:
                return CollectReport(known)
            summary = await work.collect(next(iter(leases), None))
    work.counts.refuse_missing(run.settings.rewards.max_unscored)
    return CollectReport(summary, work.counts)


class _Collecting:
    """One collection run."""

    def __init__(
        self,
        environment: AnyEnvironment,
        scenarios: ScenarioSet,
        options: CollectOptions,
        run: RunContext,
    ) -> None:
        self._environment = environment
        self._options = options
        self._run = run
        self._places = places_of(options.output, run.settings, options.policy_role)
        patterns = run.settings.judge.redact_pattern
        self._redactor = redactor_of(patterns) if patterns else None
        self._deciding = options.deciding(environment, scenarios, patterns)
        self._digest = digest_of_json(self._deciding)
        self._replaces = run.settings.output.force
        self._groups = list(_iter_groups(scenarios, options))
        self.counts = CollectCounts(planned=len(self._groups) * options.episodes)
        self._origin = RunOrigin(
            options.run_id,
            options.policy_record(),
            {"scripted": options.policy_name}
            if options.policy is None
            else options.policy.as_record(),
            client_record(environment, options.client),
            scenarios.digests,
        )

    # Before the run

    def find_current(self) -> Record | None:
        """Return the summary of complete outputs with these settings; None if there is work to do.

        Only for the holder of the lease.
        """
        store = self._run.store
        places = self._places
        store.at(places.episodes).check_writable()
        if store.at(places.commit_mark).exists():
            self._replaces = True  # a mix of old and new, to be written again
            return None
        if not store.at(places.episodes).exists():
            return None
        known = read_summary(places.summary, store)
        is_ours = known is not None and known.get("settings_digest") == self._digest
        if not is_ours and not self._replaces:
            raise UsageError(
                f"{places.episodes} exists and holds episodes of other settings; choose another ",
                naming("$output or $run_id, or pass $force to replace it."),
            )
        if known is not None and not known.get("partial") and not self._replaces:
            return known
        self._replaces = True
        return None

    # The run

    async def collect(self, lease: Lease | None) -> Record:
        """Play all episodes, write the outputs and return the summary."""
        options = self._options
        run = self._run
        output = self._places.episodes
        started_s = time.monotonic()
        with Spool() as spool:
            # Rendered records by index.
            self._episodes = Pieces(spool)
            self._failures = Pieces(spool)
            path = turns_path(output, run.settings)
            async with AsyncExitStack() as opened:
                journal = None
                if options.agents:
                    journal = await opened.enter_async_context(open_journal_at(path, output, run))
                agents = open_agents(options.agents, run, journal)
                await self._play_all(await opened.enter_async_context(agents))
            verdicts = f"{path.removesuffix('.sqlite')}.verdicts.sqlite"
            async with open_session_judge(options.judge, run, verdicts) as judge:
                if judge is not None:
                    await self._reward_all(judge, Pieces(spool))
            for _, record in self._iter_episodes():
                self.counts.add_reward(record)
            wall_time_s = time.monotonic() - started_s
            return await run.in_thread(lambda: self._write(lease, wall_time_s))

    async def _play_all(self, answer: Answer) -> None:
        slots = self._iter_slots()

        async def work() -> None:
            for slot in slots:
                try:
                    played = await play_episode(
                        slot,
                        self._environment,
                        answer,
                        self._options.scripted_policy,
                        self._redactor,
                        self.counts.add_outcome,
                    )
                except RunStoppedError as stopped:
                    self.counts.stopped_by = str(stopped)
                    return
                self._enter(played)
                await asyncio.sleep(0)  # a scripted episode never yields control

        async def report() -> None:
            while True:
                await asyncio.sleep(_PROGRESS_EVERY_S)
                counts = self.counts
                calls = sum(role.calls for role in counts.roles.values())
                self._run.on_event(
                    CollectingEvent(counts.finished, counts.planned, counts.turns, calls)
                )

        reporting = asyncio.create_task(report())
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(_IN_FLIGHT, self.counts.planned)):
                    tasks.create_task(work())
        except BaseExceptionGroup as errors:
            raise first_error_of(errors) from None
        finally:
            reporting.cancel()

    def _iter_slots(self) -> Iterator[EpisodeSlot]:
        options = self._options
        episodes = product(self._groups, range(options.episodes))
        for index, ((scenario, identity, variant), number) in enumerate(episodes):
            branch_at = options.branch_at or 1
            seed = options.client_seed
            yield EpisodeSlot(index, scenario, variant, seed, number, branch_at, identity)

    def _enter(self, played: Played) -> None:
        """Count an episode, and store its record: among the failures, if it must not be used."""
        environment = self._environment
        counts = self.counts
        slot = played.slot
        state = played.state
        end = state.end or End("", "", 0)
        self._run.on_event(SessionEvent(slot.index, slot.group, end.reason, state.turn_index))
        counts.turns += state.turn_index
        reward: Record | None = None
        left_out = None
        if end.reason in FAILURES:
            left_out = "failed"
            counts.failed[end.reason] += 1
            counts.details.setdefault(end.reason, f"{slot.group}#{slot.number}: {end.evidence}")
        else:
            counts.ends[end.reason] += 1
            reward = plumbing_reward(environment, environment.components(state))
            if faults := environment.faults(state):
                counts.faults.update(faults)
                counts.faulty += 1
                left_out = "client fault"
            elif slot.branch_at > 1 and state.turn_index < slot.branch_at:
                counts.unparted += 1
                left_out = "ended before its branch"
        record = episode_record(played, environment, self._origin, reward)
        if left_out is None:
            counts.written += 1
            self._episodes.add(slot.index, render_record(record))
        else:
            record["metadata"]["left_out"] = left_out
            self._failures.add(slot.index, render_record(record))

    async def _reward_all(self, judge: SessionJudge, rewarded: Pieces) -> None:
        """Replace the rewards of the episodes by those of the judge."""
        rewards = iter(await judge.reward_all(record for _, record in self._iter_episodes()))
        for index, record in self._iter_episodes():
            record["reward"] = with_gates(
                next(rewards), self._environment, record["reward"]["components"]
            )
            rewarded.add(index, render_record(record))
        self._episodes = rewarded

    def _iter_episodes(self) -> Iterator[tuple[int, Record]]:
        for index in range(len(self._episodes)):
            if index in self._episodes:
                yield index, json.loads(self._episodes[index])

    # After the run

    def _write(self, lease: Lease | None, wall_time_s: float) -> Record:
        run = self._run
        places = self._places
        summary = self._summary(wall_time_s)
        with Outputs(run.store, overwrite=self._replaces, mark_uri=places.commit_mark) as outputs:
            if len(self._failures) or run.store.at(places.failures).exists():
                failures = outputs.open(places.failures)
                for block in self._failures.iter_blocks():
                    failures.write(block)
            outputs.open(places.summary).write(render_document(summary))
            # Last: a reader that waits for the episodes finds the others.
            episodes = outputs.open(places.episodes)
            for block in self._episodes.iter_blocks():
                episodes.write(block)
            if lease is not None:
                lease.verify()
            outputs.commit()
        return summary

    def _summary(self, wall_time_s: float) -> Record:
        options = self._options
        limits = self._run.settings.limits
        counts = self.counts.as_dict()
        roles = self.counts.roles.values()
        tokens_in = sum(role.prompt_tokens for role in roles)
        tokens_out = sum(role.completion_tokens for role in roles)
        cost = None
        if limits.price_in or limits.price_out:
            cost = cost_of(tokens_in, tokens_out, limits.price_in, limits.price_out)
        retryable = counts["failed"].keys() - {PRIVATE_DATA}
        return {
            "format": SUMMARY_FORMAT,
            "run_id": options.run_id,
            "output": self._places.episodes,
            "partial": bool(counts["unfinished"] or counts["unscored"] or retryable),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            **counts,
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "cost": cost,
            "wall_time_s": round(wall_time_s, 3),
            "settings": self._deciding,
            "settings_digest": self._digest,
            "versions": versions_record(),
        }


def _iter_groups(
    scenarios: ScenarioSet, options: CollectOptions
) -> Iterator[tuple[EpisodeScenario, str, int]]:
    """Yield the scenario, identity and variant of each group; a scenario that is drawn again goes
    on with its next variants.
    """
    counts = Counter[str]()
    for scenario in scenarios.scenarios:
        for _ in range(options.variants):
            variant = counts[scenario.scenario_id]
            counts[scenario.scenario_id] += 1
            for identity in options.identity or ("",):
                yield scenario, identity, variant
